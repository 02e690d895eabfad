package cpuengine

import (
	"fmt"

	"andrea/model"
)

var _ model.Revealer = (*Engine)(nil)

// reveal hands out the buckets of a gradient while the backward pass still computes: it
// finishes the flat vector from its end to its beginning.
type reveal struct {
	engine *Engine
	final  func(bucket int) // nil: nobody waits for buckets
	slot   int              // that is accumulated
	folds  int              // how often it is folded into the slot below
	bucket int              // the next one; those after it are final
}

// AccumulateLast implements model.Revealer.
func (e *Engine) AccumulateLast(slot, folds int, b model.Batch, final func(bucket int)) (model.Loss, error) {
	if err := e.checkSlot(slot); err != nil {
		return model.Loss{}, err
	}
	if folds < 0 || folds > slot {
		return model.Loss{}, fmt.Errorf("folding gradient slot %d down %d times: there are %d slots below it", slot, folds, slot)
	}
	if err := e.checkBatch(b); err != nil {
		return model.Loss{}, err
	}
	for below := slot - folds; below < slot; below++ {
		e.settle(below)
	}
	e.reveal = reveal{engine: e, final: final, slot: slot, folds: folds, bucket: e.layout.Buckets() - 1}
	defer func() { e.reveal = reveal{} }()
	return e.differentiate(&e.slots[slot], b), nil
}

// down takes in that the gradient is complete from an offset of the flat vector on.
func (r *reveal) down(offset int) {
	if r.final == nil {
		return
	}
	for ; r.bucket >= 0; r.bucket-- {
		lo, hi := r.engine.layout.Bucket(r.bucket)
		if lo < offset {
			return
		}
		for i := range r.folds {
			r.engine.foldRange(r.slot-i-1, r.slot-i, lo, hi)
		}
		r.final(r.bucket)
	}
}
