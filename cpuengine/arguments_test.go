package cpuengine

import (
	"math"
	"strings"
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/enginetest"
	"andrea/model"
)

func TestOpeningRefusesBadOptions(t *testing.T) {
	good := Options{Microbatch: 1, Slots: 1, Threads: 1}
	for _, c := range []struct {
		name   string
		change func(c *model.Config, o *Options)
		want   string
	}{
		{"shape", func(c *model.Config, _ *Options) { c.NHead = 7 }, "d_model 24 is not divisible by n_head 7: remainder 3"},
		{"microbatch", func(_ *model.Config, o *Options) { o.Microbatch = 0 }, "microbatch is 0"},
		{"huge microbatch", func(_ *model.Config, o *Options) { o.Microbatch = math.MaxInt }, "microbatch is 9223372036854775807"},
		{"slots", func(_ *model.Config, o *Options) { o.Slots = -1 }, "slots is -1"},
		{"threads", func(_ *model.Config, o *Options) { o.Threads = MaxThreads + 1 }, "threads is 257"},
		{"path", func(_ *model.Config, o *Options) { o.Path = "mmx" }, `"mmx"`},
		{"memory", func(c *model.Config, o *Options) {
			c.Context, o.Microbatch = model.MaxContext, MaxMicrobatch
			c.DModel, c.NHead = 1<<12, 1
		}, "at most 1099511627776 are supported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, o := small(), good
			c.change(&cfg, &o)
			if _, err := New(cfg, o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New: %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestAllFaultsOfTheOptionsAreListed(t *testing.T) {
	_, err := Bytes(small(), Options{Slots: -1, Threads: -3})
	for _, want := range []string{"microbatch is 0", "slots is -1: must be between 0 and 64", "threads is -3: must be between 1 and 256"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestAClosedEngineAnswersWithAnError(t *testing.T) {
	c := small()
	e := open(t, c, Options{Microbatch: 1, Slots: 1, Threads: 2})
	for range 2 {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b, flat := enginetest.DrawBatch(c, 1, 3, 1), make([]float32, e.layout.Size)
	for name, call := range map[string]func() error{
		"Load":       func() error { return e.Load(0, flat, flat, flat) },
		"Eval":       func() error { _, err := e.Eval(b); return err },
		"Accumulate": func() error { _, err := e.Accumulate(0, b); return err },
		"Update":     func() error { _, err := e.Update(0, 1, hyper); return err },
		"Logits":     func() error { return e.Logits(b.Tokens, 0, flat[:c.Vocab]) },
	} {
		if err := call(); err != errClosed {
			t.Errorf("%s: %v, want %v", name, err, errClosed)
		}
	}
}

// Weights that are not finite give such a loss, as a value and not as a panic.
func TestNonFiniteValuesAreReturned(t *testing.T) {
	c := small()
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		e := open(t, c, Options{Microbatch: 1, Slots: 1, Threads: 2})
		s := enginetest.DrawState(c, 1)
		for i := range s.W {
			s.W[i] *= bad
		}
		load(t, e, s)
		loss, err := e.Accumulate(0, enginetest.DrawBatch(c, 1, c.Context, 1))
		if err != nil {
			t.Fatal(err)
		}
		if !math.IsNaN(loss.Sum) && !math.IsInf(loss.Sum, 0) {
			t.Errorf("weights times %v: loss %v", bad, loss.Sum)
		}
		sums := make([]float64, e.layout.Buckets())
		if err := e.SumSquares(0, sums); err != nil || !math.IsNaN(sums[0]) && !math.IsInf(sums[0], 0) {
			t.Errorf("weights times %v: sums of squares %v, error %v", bad, sums, err)
		}
	}
}

// What is said about an engine before it is opened is what it says of itself.
func TestDeviceAndClassAgreeWithInfo(t *testing.T) {
	for _, path := range kernel.Paths() {
		for _, threads := range []int{0, 3} {
			o := Options{Microbatch: 1, Slots: 1, Threads: threads, Path: path.String()}
			info := open(t, small(), o).Info()
			device, err := Device(o)
			if err != nil || device != info.Device || Class() != info.Class {
				t.Errorf("Device %q, %v, Class %q; Info says %+v", device, err, Class(), info)
			}
		}
	}
	if _, err := Device(Options{Path: "mmx"}); err == nil || !strings.Contains(err.Error(), `"mmx"`) {
		t.Errorf("a path that is none: %v", err)
	}
}
