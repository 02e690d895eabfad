package generate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andrea/dataset"
	"andrea/numeric"
)

// model is a predictor whose logits are a function of the tokens seen.
type model struct {
	logits func(tokens []uint32) []float32
	seen   [][]uint32 // tokens of every call
}

func (m *model) Logits(tokens []uint32, position int, dst []float32) error {
	if position != len(tokens)-1 {
		return fmt.Errorf("position %d of %d tokens", position, len(tokens))
	}
	m.seen = append(m.seen, slices.Clone(tokens))
	if n := copy(dst, m.logits(tokens)); n != len(dst) {
		return fmt.Errorf("%d logits for %d", n, len(dst))
	}
	return nil
}

const vocab = 260

// constant gives the same logits always: all very unlikely but the ones named.
func constant(likely map[uint32]float32) *model {
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = -1000
	}
	for id, x := range likely {
		logits[id] = x
	}
	return &model{logits: func([]uint32) []float32 { return logits }}
}

func options() Options {
	return Options{Context: 8, ModelVocab: vocab, Vocab: vocab, MaxTokens: 5, Temperature: 1, Seed: 1}
}

func sampled(t *testing.T, p Predictor, o Options) []uint32 {
	t.Helper()
	var ids []uint32
	err := Text(t.Context(), p, o, func(id uint32) error {
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestGreedyTakesTheLikeliestAndOfEqualsTheFirst(t *testing.T) {
	m := constant(map[uint32]float32{7: 2, 9: 2, 200: 1})
	for name, change := range map[string]func(*Options){
		"temperature 0": func(o *Options) { o.Temperature = 0 },
		"top_k 1":       func(o *Options) { o.TopK = 1 },
		"nearly 0":      func(o *Options) { o.Temperature = 1e-300; o.TopK = 1 },
	} {
		o := options()
		change(&o)
		if got := sampled(t, m, o); !slices.Equal(got, []uint32{7, 7, 7, 7, 7}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The frequencies of 5,000 tokens against the softmax: chi-square with 3 degrees of freedom, at its
// 1-1e-6 quantile. The seed is fixed, so nothing is random.
func TestSamplesFollowTheSoftmax(t *testing.T) {
	const bound = 30.7
	likely := map[uint32]float32{5: 0, 6: 1, 7: 2, 259: 1.5}
	for _, test := range []struct {
		name        string
		temperature float64
		topK        int
		among       []uint32
	}{
		{"all", 1, 0, []uint32{5, 6, 7, 259}},
		{"hot", 2, 0, []uint32{5, 6, 7, 259}},
		{"top 4", 1, 4, []uint32{5, 6, 7, 259}},
		{"top 3", 0.5, 3, []uint32{6, 7, 259}},
		{"top 2", 1, 2, []uint32{7, 259}},
	} {
		o := options()
		o.Temperature, o.TopK, o.MaxTokens = test.temperature, test.topK, 5_000
		counts := map[uint32]int{}
		for _, id := range sampled(t, constant(likely), o) {
			counts[id]++
		}
		total := 0.0
		for _, id := range test.among {
			total += math.Exp(float64(likely[id]) / test.temperature)
		}
		chi2, found := 0.0, 0
		for _, id := range test.among {
			want := 5_000 * math.Exp(float64(likely[id])/test.temperature) / total
			d := float64(counts[id]) - want
			chi2 += d * d / want
			found += counts[id]
		}
		if chi2 > bound || found != 5_000 {
			t.Errorf("%s: chi-square %.1f, %d of 5,000 among %v", test.name, chi2, found, test.among)
		}
	}
}

func TestTopKBreaksTiesById(t *testing.T) {
	o := options()
	o.TopK, o.MaxTokens = 2, 200
	got := sampled(t, constant(map[uint32]float32{40: 1, 30: 1, 20: 1, 10: 0}), o)
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, []uint32{20, 30}) {
		t.Errorf("sampled %v, want 20 and 30", got)
	}
}

// Other ids here are another text for everybody. Of 260 equal logits, id = floor(260·u): computed by an
// independent program.
func TestSameSeedSameText(t *testing.T) {
	flat := &model{logits: func([]uint32) []float32 { return make([]float32, vocab) }}
	o := options()
	o.PastEnd = true
	first := sampled(t, flat, o)
	if want := []uint32{95, 136, 191, 180, 226}; !slices.Equal(first, want) {
		t.Errorf("seed 1: %v, want %v", first, want)
	}
	o.MaxTokens = 3
	if got := sampled(t, flat, o); !slices.Equal(got, first[:3]) {
		t.Errorf("3 tokens of 5: %v, want %v", got, first[:3])
	}
	o.MaxTokens, o.Seed = 5, 2
	if got := sampled(t, flat, o); slices.Equal(got, first) {
		t.Error("seeds 1 and 2 give the same text")
	}
}

func TestIdsOutsideTheTokenizerAreNeverSampled(t *testing.T) {
	o := options()
	o.Vocab, o.MaxTokens, o.Temperature = 258, 300, 5
	for _, id := range sampled(t, constant(map[uint32]float32{258: 1000, 259: 1000, 3: 1, 4: 1}), o) {
		if id >= 258 {
			t.Fatalf("sampled id %d of a tokenizer of 258", id)
		}
	}
}

// counting continues every token with the next one, so that what was seen can be read off.
func counting() *model {
	return &model{logits: func(tokens []uint32) []float32 {
		logits := make([]float32, vocab)
		logits[(tokens[len(tokens)-1]+1)%vocab] = 1
		return logits
	}}
}

func TestContextSlidesToItsLastHalf(t *testing.T) {
	m, o := counting(), options()
	o.Temperature, o.Context, o.MaxTokens = 0, 6, 8
	o.Prompt = []uint32{0, 1, 2}
	if got := sampled(t, m, o); !slices.Equal(got, []uint32{3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Errorf("sampled %v", got)
	}
	want := [][]uint32{
		{256, 0, 1, 2}, {256, 0, 1, 2, 3}, {256, 0, 1, 2, 3, 4},
		{3, 4, 5}, {3, 4, 5, 6}, {3, 4, 5, 6, 7}, {3, 4, 5, 6, 7, 8}, {7, 8, 9},
	}
	if !slices.EqualFunc(m.seen, want, slices.Equal) {
		t.Errorf("the model saw %v, want %v", m.seen, want)
	}
}

// incremental is a model that is read token by token.
type incremental struct {
	*model
	tokens []uint32
	begins int
}

func (m *incremental) Logits([]uint32, int, []float32) error { return errors.New("all is read anew") }

func (m *incremental) Begin(tokens []uint32, dst []float32) error {
	m.begins++
	m.tokens = slices.Clone(tokens)
	return m.model.Logits(m.tokens, len(m.tokens)-1, dst)
}

func (m *incremental) Next(token uint32, dst []float32) error {
	m.tokens = append(m.tokens, token)
	return m.model.Logits(m.tokens, len(m.tokens)-1, dst)
}

// A model that is read token by token sees what every other sees, and begins anew only where the context
// slides.
func TestIncrementalReadingSeesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options()
		o.Temperature = 0
		o.Context = rapid.IntRange(1, 9).Draw(t, "context")
		o.MaxTokens = rapid.IntRange(0, 20).Draw(t, "max")
		o.Prompt = rapid.SliceOfN(rapid.Uint32Range(0, 200), 0, 12).Draw(t, "prompt")
		whole, steps := counting(), &incremental{model: counting()}
		for _, p := range []Predictor{whole, steps} {
			if err := Text(context.Background(), p, o, func(uint32) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.EqualFunc(steps.seen, whole.seen, slices.Equal) {
			t.Fatalf("the model saw %v, want %v", steps.seen, whole.seen)
		}
		want := 0
		for i, seen := range whole.seen {
			if i == 0 || len(seen) <= len(whole.seen[i-1]) {
				want++
			}
		}
		if steps.begins != want {
			t.Fatalf("%d times begun, want %d", steps.begins, want)
		}
	})
}

func TestLongPromptKeepsItsEnd(t *testing.T) {
	m, o := counting(), options()
	o.Context, o.MaxTokens, o.Prompt = 4, 1, []uint32{1, 2, 3, 4, 5}
	sampled(t, m, o)
	if !slices.Equal(m.seen[0], []uint32{4, 5}) || !slices.Equal(o.Prompt, []uint32{1, 2, 3, 4, 5}) {
		t.Errorf("the model saw %v of the prompt %v", m.seen[0], o.Prompt)
	}
}

func TestEndOfDocument(t *testing.T) {
	m, o := counting(), options()
	o.Temperature, o.Prompt = 0, []uint32{253}
	if got := sampled(t, m, o); !slices.Equal(got, []uint32{254, 255}) {
		t.Errorf("sampled %v, want the text to end at BOS", got)
	}
	o.PastEnd = true
	if got := sampled(t, m, o); !slices.Equal(got, []uint32{254, 255, dataset.BOS, 257, 258}) {
		t.Errorf("sampled %v, want the text to go on", got)
	}
}

func TestEarlyEnds(t *testing.T) {
	full := errors.New("the disk is full")
	calls := 0
	err := Text(t.Context(), counting(), options(), func(uint32) error {
		calls++
		return full
	})
	if err != full || calls != 1 {
		t.Errorf("emit failed: error %v after %d calls", err, calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls = 0
	o := options()
	o.Temperature, o.Prompt = 0, []uint32{1}
	err = Text(ctx, counting(), o, func(uint32) error {
		calls++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("cancelled: error %v after %d calls", err, calls)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		err = Text(t.Context(), constant(map[uint32]float32{9: float32(bad)}), options(), nil)
		if err == nil || !strings.Contains(err.Error(), "id 9") {
			t.Errorf("logit %v: error %v", bad, err)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"context: 0":        func(o *Options) { o.Context = 0 },
		"260 ids":           func(o *Options) { o.ModelVocab = 259 },
		"has 256 ids":       func(o *Options) { o.Vocab = 256 },
		"token 1 has id":    func(o *Options) { o.Prompt = []uint32{1, 260, 261} },
		"max_tokens: -1":    func(o *Options) { o.MaxTokens = -1 },
		"temperature: -0.5": func(o *Options) { o.Temperature = -0.5 },
		"temperature: NaN":  func(o *Options) { o.Temperature = math.NaN() },
		"temperature: +Inf": func(o *Options) { o.Temperature = math.Inf(1) },
		"top_k: -3":         func(o *Options) { o.TopK = -3; o.Seed = 9 },
	} {
		o := options()
		change(&o)
		err := Text(t.Context(), &model{}, o, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
	o := options()
	o.Context, o.TopK = 0, -1
	if err := Text(t.Context(), &model{}, o, nil); err == nil || !strings.Contains(err.Error(), "context") || !strings.Contains(err.Error(), "top_k") {
		t.Errorf("error %v, want both faults", err)
	}
}

// Whatever the options, the model sees 1 to context tokens and every id is one of the tokenizer's.
func TestAlwaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Context:     rapid.IntRange(1, 9).Draw(t, "context"),
			ModelVocab:  vocab,
			Vocab:       rapid.IntRange(257, vocab).Draw(t, "vocab"),
			MaxTokens:   rapid.IntRange(0, 20).Draw(t, "max"),
			Temperature: rapid.SampledFrom([]float64{0, 1e-320, 1e-3, 1, 1e300}).Draw(t, "temperature"),
			TopK:        rapid.IntRange(0, 300).Draw(t, "top_k"),
			Seed:        rapid.Uint64().Draw(t, "seed"),
			PastEnd:     true,
		}
		o.Prompt = rapid.SliceOfN(rapid.Uint32Range(0, uint32(o.Vocab-1)), 0, 20).Draw(t, "prompt")
		m := &model{logits: func(tokens []uint32) []float32 {
			logits := make([]float32, vocab)
			for i := range logits {
				logits[i] = float32(int(numeric.Mix64(uint64(i)+uint64(len(tokens)))%2000) - 1000)
			}
			return logits
		}}
		emitted := 0
		err := Text(context.Background(), m, o, func(id uint32) error {
			emitted++
			if int(id) >= o.Vocab {
				return fmt.Errorf("id %d", id)
			}
			return nil
		})
		if err != nil || emitted != o.MaxTokens {
			t.Fatalf("%d tokens of %d: %v", emitted, o.MaxTokens, err)
		}
		for _, seen := range m.seen {
			if len(seen) < 1 || len(seen) > o.Context {
				t.Fatalf("the model saw %d tokens, the context is %d", len(seen), o.Context)
			}
		}
	})
}
