package cpuengine

import (
	"slices"
	"sync"
	"testing"

	"andrea/enginetest"
	"andrea/model"
)

// wide has several buckets, cut inside tables and layers.
func wide() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 192, 3, 4, 16, 2305
	return c
}

// A gradient that is handed out while it is computed has the bits of one that is
// computed, folded and read: every bucket once, from the last to the first, and as it is
// when it is called final.
func TestAccumulateLastHandsOutFinalBuckets(t *testing.T) {
	c := wide()
	layout := model.NewLayout(c)
	first, last := enginetest.DrawBatch(c, 1, c.Context, 3), enginetest.DrawBatch(c, 1, c.Context, 4)
	for _, threads := range []int{1, 2} {
		plain, early := open(t, c, Options{Microbatch: 1, Slots: 3, Threads: threads}), open(t, c, Options{Microbatch: 1, Slots: 3, Threads: threads})
		for _, e := range []*Engine{plain, early} {
			for slot := range 3 {
				must(t, e.Zero(slot))
				_, err := e.Accumulate(slot, first)
				must(t, err)
			}
		}
		want, err := plain.Accumulate(2, last)
		must(t, err)
		must(t, plain.Fold(1, 2))
		must(t, plain.Fold(0, 1))
		seen := make([][]float32, layout.Buckets())
		next := layout.Buckets() - 1
		var readers sync.WaitGroup
		loss, err := early.AccumulateLast(2, 2, last, func(bucket int) {
			if bucket != next {
				t.Errorf("bucket %d is final, want %d", bucket, next)
			}
			next--
			lo, hi := layout.Bucket(bucket)
			seen[bucket] = make([]float32, hi-lo)
			readers.Go(func() { // while the engine goes on
				if err := early.ReadGrad(0, bucket, seen[bucket]); err != nil {
					t.Error(err)
				}
			})
		})
		readers.Wait()
		if err != nil || loss != want || next != -1 {
			t.Fatalf("loss %+v, %v, want %+v; the next bucket is %d", loss, err, want, next)
		}
		for bucket, got := range seen {
			lo, hi := layout.Bucket(bucket)
			x := make([]float32, hi-lo)
			must(t, plain.ReadGrad(0, bucket, x))
			if !slices.Equal(got, x) {
				t.Errorf("%d threads: bucket %d was handed out with other bits", threads, bucket)
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAccumulateLastRefusesWrongArguments(t *testing.T) {
	c := small()
	e := open(t, c, Options{Microbatch: 1, Slots: 2, Threads: 1})
	b := enginetest.DrawBatch(c, 1, c.Context, 3)
	for _, bad := range []struct{ slot, folds int }{{2, 0}, {-1, 0}, {1, 2}, {0, 1}, {1, -1}} {
		if _, err := e.AccumulateLast(bad.slot, bad.folds, b, func(int) { t.Error("a bucket was handed out") }); err == nil {
			t.Errorf("slot %d folded %d times is taken", bad.slot, bad.folds)
		}
	}
	if _, err := e.AccumulateLast(0, 0, model.Batch{}, func(int) { t.Error("a bucket was handed out") }); err == nil {
		t.Error("an empty batch is taken")
	}
}
