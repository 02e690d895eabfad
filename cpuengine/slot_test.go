package cpuengine

import (
	"fmt"
	"math"
	"testing"

	"andrea/enginetest"
	"andrea/model"
)

// Zero writes nothing: whatever looks at the slot next must find +0 all the same, not the NaNs
// that lie there.
func TestZeroedSlotHoldsNothing(t *testing.T) {
	c := small()
	batches := []model.Batch{enginetest.DrawBatch(c, 2, c.Context, 1), enginetest.DrawBatch(c, 1, c.Context, 2)}
	for name, use := range map[string]func(e *Engine) (any, error){
		"Accumulate": func(e *Engine) (any, error) {
			if _, err := e.Accumulate(0, batches[0]); err != nil {
				return nil, err
			}
			return e.Accumulate(0, batches[1])
		},
		"Fold into it": func(e *Engine) (any, error) { return nil, e.Fold(0, 1) },
		"Fold of it":   func(e *Engine) (any, error) { return nil, e.Fold(1, 0) },
		"SumSquares": func(e *Engine) (any, error) {
			sums := make([]float64, e.layout.Buckets())
			return sums, e.SumSquares(0, sums)
		},
		"GradDigest": func(e *Engine) (any, error) { return e.GradDigest(0, 0) },
		"ReadGrad":   func(e *Engine) (any, error) { return nil, e.ReadGrad(0, 0, make([]float32, e.layout.Size)) },
		"WriteGrad":  func(e *Engine) (any, error) { return nil, e.WriteGrad(0, 0, make([]float32, e.layout.Size)) },
		"Update":     func(e *Engine) (any, error) { return e.Update(0, 1, hyper) },
	} {
		t.Run(name, func(t *testing.T) {
			var results [2]string
			for i := range results {
				e := open(t, c, Options{Microbatch: 2, Slots: 2, Threads: 2})
				if i == 1 {
					fill(e.slots[0].flat, float32(math.NaN()))
					if err := e.Zero(0); err != nil {
						t.Fatal(err)
					}
				}
				value, err := use(e)
				if err != nil {
					t.Fatal(err)
				}
				e.settle(0)
				results[i] = fmt.Sprint(value, hash(e.slots[0].flat, e.slots[1].flat, e.params.flat, e.m, e.v))
			}
			if results[1] != results[0] {
				t.Errorf("with a slot that was zeroed: %s, with a new one: %s", results[1], results[0])
			}
		})
	}
}

// Several blocks of logits add to the gradient of lm_head: only the first may replace it.
func TestZeroedSlotTakesEveryBlockOfLogits(t *testing.T) {
	c := small()
	windows := 2*headRows/c.Context + 1
	b := enginetest.DrawBatch(c, windows, c.Context, 3)
	var results [2]string
	for i := range results {
		e := open(t, c, Options{Microbatch: windows, Slots: 1})
		if i == 1 {
			fill(e.slots[0].flat, 1)
			if err := e.Zero(0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Accumulate(0, b); err != nil {
			t.Fatal(err)
		}
		results[i] = hash(e.slots[0].flat)
	}
	if results[1] != results[0] {
		t.Errorf("into a slot that was zeroed: %s, into a new one: %s", results[1], results[0])
	}
}
