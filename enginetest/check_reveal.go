package enginetest

import (
	"errors"
	"sync"

	"andrea/model"
)

// severalBuckets is a shape whose buckets are cut inside tables and layers.
func severalBuckets() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 192, 3, 4, 16, 2305
	return c
}

// checkReveal checks an engine that is a model.Revealer: a gradient that is handed out while it is computed has the bits
// of one that is computed, folded and read, every bucket once, from the last to the first, and as it is when it is called
// final.
func checkReveal(t tester, open opener) {
	cfg := severalBuckets()
	r := mount(t, open, cfg, 1, 3, DrawState(cfg, 1))
	e, can := r.engine.(model.Revealer)
	if !can {
		return // engines need not be
	}
	batch := DrawBatch(cfg, 1, cfg.Context, 4)
	for _, test := range []struct {
		folds int
		fresh bool // the slots were zeroed and nothing was added since
	}{{2, false}, {2, true}, {0, false}} {
		fill := func() {
			for slot := range uint64(3) {
				r.zero(int(slot))
				if !test.fresh {
					r.write(int(slot), drawVector(r.layout.Size, 1, slot))
				}
			}
		}
		fill()
		want := r.accumulate(2, batch)
		for i := range test.folds {
			r.fold(1-i, 2-i)
		}
		lowest := 2 - test.folds
		whole := r.read(lowest)
		fill()
		loss, seen := r.accumulateLast(e, 2, test.folds, batch)
		r.sameLoss("AccumulateLast", loss, want)
		r.sameBits("the buckets that AccumulateLast called final", seen, whole)
		r.sameBits("the slot after AccumulateLast", r.read(lowest), whole)
	}
	for _, bad := range []struct{ slot, folds int }{{3, 0}, {-1, 0}, {1, 2}, {0, 1}, {1, -1}} {
		if _, err := e.AccumulateLast(bad.slot, bad.folds, batch, func(int) { t.Errorf("a bucket was handed out") }); err == nil {
			t.Errorf("slot %d folded %d times is taken", bad.slot, bad.folds)
		}
	}
	if _, err := e.AccumulateLast(0, 0, model.Batch{}, func(int) { t.Errorf("a bucket was handed out") }); err == nil {
		t.Errorf("an empty batch is taken")
	}
}

// accumulateLast returns the gradient as others read it, each bucket while the engine may go on.
func (r rig) accumulateLast(e model.Revealer, slot, folds int, b model.Batch) (loss model.Loss, seen []float32) {
	seen = make([]float32, r.layout.Size)
	next := r.layout.Buckets() - 1
	var readers sync.WaitGroup
	loss, err := e.AccumulateLast(slot, folds, b, func(bucket int) {
		if bucket != next {
			r.t.Errorf("bucket %d is final, want %d", bucket, next)
		}
		next--
		readers.Go(func() {
			lo, hi := r.layout.Bucket(bucket)
			if err := e.ReadGrad(slot-folds, bucket, seen[lo:hi]); err != nil {
				r.t.Errorf("reading bucket %d: %v", bucket, err)
			}
		})
	})
	readers.Go(func() {
		lo, hi := r.layout.Bucket(0)
		if err := e.ReadGrad(slot-folds, 0, make([]float32, hi-lo)); err != nil {
			r.t.Errorf("reading bucket 0: %v", err)
		}
	})
	for bucket := range r.layout.Buckets() { // while it is read
		_, err1 := e.StateDigest(bucket)
		_, err2 := e.GradDigest(slot-folds, bucket)
		r.ok("measuring", errors.Join(err1, err2))
	}
	r.ok("adding squares", e.SumSquares(slot-folds, make([]float64, r.layout.Buckets())))
	readers.Wait()
	r.ok("AccumulateLast", err)
	if next != -1 {
		r.t.Errorf("bucket %d was never called final", next)
	}
	return loss, seen
}
