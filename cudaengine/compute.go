//go:build cuda && cgo && linux

package cudaengine

import (
	"fmt"

	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
	"andrea/model"
)

// Eval returns the loss of a microbatch, forward only. All layers share the activations of the first.
func (e *engine) Eval(b model.Batch) (model.Loss, error) {
	if err := b.Check(e.config, e.options.Microbatch); err != nil {
		return model.Loss{}, err
	}
	err := e.call(func() {
		p := e.newPass(b)
		p.forward(func(int) int { return 0 })
		p.head(nil)
	})
	return e.lossOf(b, err)
}

// Accumulate adds to slot the gradient of the loss sum of a microbatch. A loss that is not finite is returned as it is;
// the slot then holds what came of it.
func (e *engine) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if err := e.checkSlot(slot); err != nil {
		return model.Loss{}, err
	}
	if err := b.Check(e.config, e.options.Microbatch); err != nil {
		return model.Loss{}, err
	}
	err := e.call(func() { e.differentiate(slot, b, nil) })
	return e.lossOf(b, err)
}

// differentiate queues what adds the gradient of a checked batch to a slot and leaves the loss on the host. Where r is
// not nil, buckets are marked in it as they become final.
func (e *engine) differentiate(slot int, b model.Batch, r *reveal) {
	p := e.newPass(b)
	p.reveal = r
	gradient := view(e.config, e.layout, e.mem.slots[slot], words)
	p.forward(func(layer int) int { return layer })
	p.head(&gradient)
	p.backward(&gradient)
}

// lossOf returns the loss that a finished pass over a batch has left, unless it failed.
func (e *engine) lossOf(b model.Batch, err error) (model.Loss, error) {
	if err != nil {
		return model.Loss{}, fmt.Errorf("computing a microbatch: %w", err)
	}
	return model.Loss{Sum: e.host.result.Doubles()[0], Tokens: int64(b.Windows * b.T)}, nil
}

// Logits runs the forward pass over all tokens and writes the logits [V] of the position into dst.
func (e *engine) Logits(tokens []uint32, position int, dst []float32) error {
	c := e.config
	if position < 0 || position >= len(tokens) || len(dst) != c.Vocab {
		return fmt.Errorf("computing logits: position %d of %d tokens into %d values: the position must be among the tokens, and the model has %d values", position, len(tokens), len(dst), c.Vocab)
	}
	inputs := append(append(make([]uint32, 0, len(tokens)+1), tokens...), 0) // the last is a target that nothing reads
	b := model.Batch{Windows: 1, T: len(tokens), Tokens: inputs}
	if err := b.Check(c, e.options.Microbatch); err != nil {
		return fmt.Errorf("computing logits: %w", err)
	}
	err := e.call(func() {
		p := e.newPass(b)
		p.forward(func(int) int { return 0 })
		p.finish()
		p.logits(element(e.mem.final, int64(position)*int64(p.d), p.bytes), 1)
		e.compute.out(e.host.logits, e.mem.logits, int64(c.Vocab)*words)
	})
	if err != nil {
		return fmt.Errorf("computing logits: %w", err)
	}
	copy(dst, e.host.logits.Floats())
	return nil
}

// Update applies AdamW to the whole replica with gradient slot·scale and returns the digest of the new state, taken in
// the same pass.
func (e *engine) Update(slot int, scale float32, h model.Hyper) (model.Digest, error) {
	if err := e.checkSlot(slot); err != nil {
		return model.Digest{}, err
	}
	size := e.layout.Size
	digest, err := e.digest(func() {
		e.compute.launch(e.kernels.adamw, kernels.Sizes{Count: size},
			e.mem.digest, e.mem.params, e.mem.m, e.mem.v, e.mem.slots[slot], e.mem.half,
			driver.Int(0), driver.Int(size), driver.Int(decayFrom(e.layout)),
			driver.Float(scale), driver.Float(h.LR), driver.Float(h.Beta1), driver.Float(h.OneMinusBeta1),
			driver.Float(h.Beta2), driver.Float(h.OneMinusBeta2), driver.Float(h.Correction1), driver.Float(h.Correction2),
			driver.Float(h.Eps), driver.Float(h.Decay))
	})
	if err != nil {
		return model.Digest{}, fmt.Errorf("updating the weights: %w", err)
	}
	return digest, nil
}

// decayFrom is the first element that weight decay applies to: it does to all tensors behind the embeddings.
func decayFrom(l model.Layout) int {
	for _, t := range l.Tensors {
		if t.Decay {
			return t.Offset
		}
	}
	return l.Size
}

// digest zeroes the device's digest, queues what adds to it and returns it.
func (e *engine) digest(add func()) (model.Digest, error) {
	err := e.call(func() {
		e.compute.zero(e.mem.digest, 2*doubles/words)
		add()
		e.compute.out(e.host.result, e.mem.digest, 2*doubles)
	})
	return model.Digest(e.host.result.Longs()[:2]), err
}

// addDigest queues the digest of a bucket of a flat vector.
func (e *engine) addDigest(kind model.Kind, flat driver.Pointer, lo, hi int) {
	e.compute.launch(e.kernels.digest, kernels.Sizes{Count: hi - lo},
		e.mem.digest, element(flat, int64(lo), words), driver.Int(hi-lo), driver.Int(lo), driver.Int(int(kind)))
}

// Zero sets a slot to +0.
func (e *engine) Zero(slot int) error {
	if err := e.checkSlot(slot); err != nil {
		return err
	}
	return e.call(func() { e.compute.zero(e.mem.slots[slot], int64(e.layout.Size)) })
}

// Fold adds slot src to slot dst; they may be the same.
func (e *engine) Fold(dst, src int) error {
	for _, slot := range [...]int{dst, src} {
		if err := e.checkSlot(slot); err != nil {
			return err
		}
	}
	size := e.layout.Size
	return e.call(func() {
		e.compute.launch(e.kernels.fold, kernels.Sizes{Count: size}, e.mem.slots[dst], e.mem.slots[src], driver.Int(size))
	})
}
