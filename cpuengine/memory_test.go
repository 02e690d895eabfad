package cpuengine

import (
	"runtime"
	"testing"

	"andrea/enginetest"
	"andrea/model"
)

func TestAStepAllocatesNothing(t *testing.T) {
	c := small()
	e := open(t, c, Options{Microbatch: 2, Slots: 2, Threads: 2})
	b := enginetest.DrawBatch(c, 2, c.Context, 1)
	logits, sums := make([]float32, c.Vocab), make([]float64, e.layout.Buckets())
	calls := map[string]func() error{
		"Eval":       func() error { _, err := e.Eval(b); return err },
		"Accumulate": func() error { _, err := e.Accumulate(1, b); return err },
		"Zero":       func() error { return e.Zero(1) },
		"Fold":       func() error { return e.Fold(0, 1) },
		"SumSquares": func() error { return e.SumSquares(0, sums) },
		"Update":     func() error { _, err := e.Update(0, 1e-3, hyper); return err },
		"Logits":     func() error { return e.Logits(b.Tokens[:3], 1, logits) },
	}
	for name, call := range calls {
		n := testing.AllocsPerRun(3, func() {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// What New allocates is what Bytes said, but for the rounding of the kernels' part.
func TestBytesIsWhatNewAllocates(t *testing.T) {
	c := small()
	c.DModel, c.NLayer, c.Context, c.FinalNorm = 96, 4, 512, true
	for _, slots := range []int{0, 4} {
		o := Options{Microbatch: 3, Slots: slots, Threads: 2}
		want, err := Bytes(c, o)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		e, err := New(c, o)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		got := int64(after.TotalAlloc - before.TotalAlloc)
		if got > want || got < want-2<<20 {
			t.Errorf("%d slots: New allocated %d bytes, Bytes says %d", slots, got, want)
		}
		if e.Info().Bytes != want {
			t.Errorf("%d slots: Info says %d bytes, Bytes %d", slots, e.Info().Bytes, want)
		}
	}
}

// A norm that the model lacks takes no memory: rows of d_model and one inverse each.
func TestNormsThatAreOffTakeNoMemory(t *testing.T) {
	c, o := small(), Options{Microbatch: 3, Slots: 1, Threads: 1}
	c.EmbedNorm, c.FinalNorm = false, false
	bytes := func(c model.Config) int64 {
		n, err := Bytes(c, o)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	embed, final := c, c
	embed.EmbedNorm, final.FinalNorm = true, true
	want := int64(o.Microbatch*c.Context*(c.DModel+1)) * 4
	for name, with := range map[string]model.Config{"embed_norm": embed, "final_norm": final} {
		if got := bytes(with) - bytes(c); got < want || got > want+2*4*lineFloats {
			t.Errorf("%s takes %d bytes, want %d and padding", name, got, want)
		}
	}
}

// The promise of the product: weights, moments and four gradients of the 12M model,
// and less than 200 MB for all else.
func TestMemoryOf12M(t *testing.T) {
	c, err := model.Variant("12m")
	if err != nil {
		t.Fatal(err)
	}
	n, err := Bytes(c, Options{Microbatch: 1, Slots: 4, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if rest := n - 7*4*c.Parameters(); rest < 0 || rest > 200e6 {
		t.Errorf("%d bytes beside weights, moments and gradients", rest)
	}
}
