package model

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The family's sizes are promises: whoever trains "120m" trains exactly this.
func TestVariantsAreExact(t *testing.T) {
	for _, c := range []struct {
		name              string
		dModel, headDim   int
		parameters, flops int64
	}{
		{"12m", 384, 32, 12_780_288, 83_167_488},
		{"120m", 768, 64, 98_698_752, 605_164_032},
		{"480m", 1536, 64, 480_513_024, 2_946_769_920},
	} {
		config, err := Variant(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := config.Validate(); err != nil {
			t.Errorf("%s is not valid: %v", c.name, err)
		}
		if config.DModel != c.dModel || config.HeadDim() != c.headDim || config.SlowHeads() {
			t.Errorf("%s: d_model %d, head_dim %d, slow %v", c.name, config.DModel, config.HeadDim(), config.SlowHeads())
		}
		if got := config.Parameters(); got != c.parameters {
			t.Errorf("%s has %d parameters, want %d", c.name, got, c.parameters)
		}
		if got := int64(NewLayout(config).Size); got != c.parameters {
			t.Errorf("%s: the layout has %d elements, the formula %d", c.name, got, c.parameters)
		}
		if got := config.FLOPsPerToken(); got != c.flops {
			t.Errorf("%s costs %d FLOPs a token, want %d", c.name, got, c.flops)
		}
		if config.Activation != ReLUSquared || !config.EmbedNorm || config.FinalNorm || config.NormEps != 1e-5 {
			t.Errorf("%s has other switches than the family: %+v", c.name, config)
		}
	}
	if want := []string{"12m", "120m", "480m"}; !slices.Equal(Variants(), want) {
		t.Errorf("Variants() = %v, want %v", Variants(), want)
	}
}

func TestAnUnknownVariantNamesTheKnownOnes(t *testing.T) {
	_, err := Variant("13m")
	if err == nil || !strings.Contains(err.Error(), `"13m" is unknown: the variants are [12m 120m 480m]`) {
		t.Errorf("error = %v", err)
	}
}

// valid is a small shape without faults.
func valid() Config {
	c := DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 16, 2, 2, 3, 5
	return c
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"none", func(*Config) {}, nil},
		{"remainder", func(c *Config) { c.DModel, c.NHead = 512, 7 },
			[]string{"d_model 512 is not divisible by n_head 7: remainder 1: every head must have the same size"}},
		{"no heads", func(c *Config) { c.DModel, c.NHead = 768, 0 },
			[]string{"n_head is 0: must be between 1 and 4096"}},
		{"negative", func(c *Config) { c.NLayer, c.Context = -1, -1024 },
			[]string{"n_layer is -1: must be between 1 and 1024", "context is -1024: must be between 1 and 131072"}},
		{"too large", func(c *Config) { c.Vocab = MaxVocab + 1 },
			[]string{"vocab is 16777217: must be between 1 and 16777216"}},
		{"activation", func(c *Config) { c.Activation = "gelu" },
			[]string{`activation is "gelu": must be "relu2" or "relu"`}},
		{"eps zero", func(c *Config) { c.NormEps = 0 }, []string{"norm_eps is 0: must be a positive number"}},
		{"eps NaN", func(c *Config) { c.NormEps = float32(math.NaN()) }, []string{"norm_eps is NaN: must be a positive number"}},
		{"eps infinite", func(c *Config) { c.NormEps = float32(math.Inf(1)) }, []string{"norm_eps is +Inf: must be a positive number"}},
		{"parameters", func(c *Config) { c.DModel, c.NHead, c.NLayer = 1<<16, 1<<8, 1 },
			[]string{"the shape has 51540459520 parameters: at most 1073741824 are supported"}},
		{"several at once", func(c *Config) { c.DModel, c.NHead, c.NLayer, c.Activation, c.NormEps = 512, 7, 0, "", -1 },
			[]string{
				"n_layer is 0: must be between 1 and 1024",
				"d_model 512 is not divisible by n_head 7: remainder 1: every head must have the same size",
				`activation is "": must be "relu2" or "relu"`,
				"norm_eps is -1: must be a positive number",
			}},
		{"the zero value", func(c *Config) { *c = Config{} },
			[]string{
				"d_model is 0: must be between 1 and 65536", "n_head is 0: must be between 1 and 4096",
				"n_layer is 0: must be between 1 and 1024", "context is 0: must be between 1 and 131072",
				"vocab is 0: must be between 1 and 16777216", `activation is "": must be "relu2" or "relu"`,
				"norm_eps is 0: must be a positive number",
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := valid()
			c.change(&config)
			if got := config.Faults(); !slices.Equal(got, c.want) {
				t.Errorf("faults:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
			err := config.Validate()
			if (err == nil) != (c.want == nil) {
				t.Errorf("Validate() = %v", err)
			}
			for _, fault := range c.want {
				if err != nil && !strings.Contains(err.Error(), fault) {
					t.Errorf("Validate() = %v, want it to say %q", err, fault)
				}
			}
		})
	}
}

func TestBatchCheck(t *testing.T) {
	config := valid() // context 3, vocab 5
	for _, c := range []struct {
		name  string
		batch Batch
		want  string // empty: it fits
	}{
		{"whole windows", Batch{2, 3, []uint32{0, 1, 2, 3, 4, 0, 1, 2}}, ""},
		{"shorter windows", Batch{1, 1, []uint32{4, 0}}, ""},
		{"no windows", Batch{0, 3, nil}, "0 windows of 3 tokens"},
		{"too many windows", Batch{3, 1, make([]uint32, 6)}, "3 windows of 1 tokens with 6 ids: the engine takes 1 to 2 windows of 1 to 3 tokens"},
		{"empty windows", Batch{1, 0, make([]uint32, 1)}, "1 windows of 0 tokens"},
		{"too long", Batch{1, 4, make([]uint32, 5)}, "1 windows of 4 tokens"},
		{"an id too few", Batch{1, 3, make([]uint32, 3)}, "with 3 ids"},
		{"an id too many", Batch{1, 3, make([]uint32, 5)}, "with 5 ids"},
		{"an id not below V", Batch{2, 3, []uint32{0, 0, 0, 0, 0, 5, 0, 0}}, "token 1 of window 1 has id 5: the model has 5 ids"},
		{"the largest id", Batch{1, 1, []uint32{0, math.MaxUint32}}, "token 1 of window 0 has id 4294967295"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.batch.Check(config, 2)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check() = %v, want %q", err, c.want)
			}
		})
	}
	if got := (Batch{2, 3, []uint32{0, 1, 2, 3, 4, 5, 6, 7}}).Window(1); !slices.Equal(got, []uint32{4, 5, 6, 7}) {
		t.Errorf("Window(1) = %v", got)
	}
}

func TestSlotsAreTheDepthOfTheTree(t *testing.T) {
	for lanes, want := range map[int]int{1: 1, 2: 2, 4: 3, 8: 4, 1024: 11} {
		if got := Slots(lanes); got != want {
			t.Errorf("Slots(%d) = %d, want %d", lanes, got, want)
		}
	}
}

func TestLossesAdd(t *testing.T) {
	l := Loss{Sum: 6, Tokens: 2}.Add(Loss{Sum: 4, Tokens: 3})
	if l != (Loss{10, 5}) || l.Mean() != 2 {
		t.Errorf("loss = %+v with mean %v", l, l.Mean())
	}
}
