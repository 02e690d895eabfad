//go:build cuda && cgo && linux

package cudaengine

import (
	"fmt"

	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
	"andrea/model"
)

var _ model.Revealer = (*engine)(nil)

// reveal is what becomes final while a gradient is computed: the backward pass finishes the flat vector from its end to
// its beginning.
type reveal struct {
	slot  int // that is accumulated
	folds int // how often it is folded into the slot below
	next  int // buckets from this one on have a mark
	marks []mark
}

// mark is a place in the compute stream behind which the buckets [lo, hi) of the lowest slot are final.
type mark struct {
	passed *driver.Event
	lo, hi int
}

// marks is how many marks a pass can set: behind the head, every layer and the embeddings, each with a bucket at
// least.
func (o Options) marks(c model.Config) int {
	if !o.trains() {
		return 0
	}
	return min(c.NLayer+2, model.NewLayout(c).Buckets())
}

// AccumulateLast implements model.Revealer. A bucket that is read meanwhile waits for at most one layer.
func (e *engine) AccumulateLast(slot, folds int, b model.Batch, final func(bucket int)) (model.Loss, error) {
	if err := e.checkSlot(slot); err != nil {
		return model.Loss{}, err
	}
	if folds < 0 || folds > slot {
		return model.Loss{}, fmt.Errorf("folding gradient slot %d down %d times: there are %d slots below it", slot, folds, slot)
	}
	if err := b.Check(e.config, e.options.Microbatch); err != nil {
		return model.Loss{}, err
	}
	r := reveal{slot: slot, folds: folds, next: e.layout.Buckets()}
	err := e.do(func() error {
		e.differentiate(slot, b, &r)
		return e.compute.err // which stays with the queue until it is finished
	})
	for _, m := range r.marks {
		if err == nil {
			err = e.do(m.passed.Synchronize)
		}
		for bucket := m.hi - 1; bucket >= m.lo && err == nil; bucket-- {
			final(bucket)
		}
	}
	if finished := e.call(func() {}); err == nil {
		err = finished
	}
	return e.lossOf(b, err)
}

// final takes in that the gradient is complete from an offset of the flat vector on: it folds and marks the buckets that
// lie behind it.
func (p *pass) final(offset int) {
	r := p.reveal
	if r == nil {
		return
	}
	m := mark{lo: r.next, hi: r.next}
	for m.lo > 0 {
		if lo, _ := p.layout.Bucket(m.lo - 1); lo < offset {
			break
		}
		m.lo--
	}
	if m.lo == m.hi {
		return
	}
	first, _ := p.layout.Bucket(m.lo)
	_, end := p.layout.Bucket(m.hi - 1)
	for i := range r.folds {
		dst, src := p.mem.slots[r.slot-i-1], p.mem.slots[r.slot-i]
		p.compute.launch(p.kernels.fold, kernels.Sizes{Count: end - first},
			element(dst, int64(first), words), element(src, int64(first), words), driver.Int(end-first))
	}
	m.passed = p.passed[len(r.marks)]
	p.compute.issue(func() error { return p.compute.stream.Record(m.passed) })
	r.next, r.marks = m.lo, append(r.marks, m)
}
