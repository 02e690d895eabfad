package cpuengine

import (
	"errors"
	"fmt"

	"andrea/model"
)

// errClosed answers every call after Close.
var errClosed = errors.New("calling the CPU engine: it is closed: open another")

// errInference answers what needs gradients or moments when the engine has none.
func errInference(what string) error {
	return fmt.Errorf("%s: the engine was opened with 0 slots, for inference alone, and has neither gradients nor moments: open it with a slot or more", what)
}

// Eval returns the loss of a microbatch, forward only.
func (e *Engine) Eval(b model.Batch) (model.Loss, error) {
	if err := e.checkBatch(b); err != nil {
		return model.Loss{}, err
	}
	return e.evaluate(b), nil
}

// Accumulate adds to slot the gradient of the loss sum of a microbatch. A loss that
// is not finite is returned as it is; the slot then holds what came of it.
func (e *Engine) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if err := e.checkSlot(slot); err != nil {
		return model.Loss{}, err
	}
	if err := e.checkBatch(b); err != nil {
		return model.Loss{}, err
	}
	return e.differentiate(&e.slots[slot], b), nil
}

// Logits runs the forward pass over all tokens and writes the logits [V] of the
// position into dst.
func (e *Engine) Logits(tokens []uint32, position int, dst []float32) error {
	if e.closed {
		return errClosed
	}
	c := e.config
	if len(tokens) < 1 || len(tokens) > c.Context || position < 0 || position >= len(tokens) || len(dst) != c.Vocab {
		return fmt.Errorf("computing logits: position %d of %d tokens into %d values: the engine takes 1 to %d tokens, a position among them and %d values", position, len(tokens), len(dst), c.Context, c.Vocab)
	}
	for i, id := range tokens {
		if int64(id) >= int64(c.Vocab) {
			return fmt.Errorf("computing logits: token %d has id %d: the model has %d ids: the text was encoded for another model", i, id, c.Vocab)
		}
	}
	e.logits(tokens, position, dst)
	return nil
}

func (e *Engine) checkBatch(b model.Batch) error {
	if e.closed {
		return errClosed
	}
	return b.Check(e.config, e.options.Microbatch)
}

func (e *Engine) checkSlot(slot int) error {
	if e.closed {
		return errClosed
	}
	if !e.options.trains() {
		return errInference(fmt.Sprintf("choosing gradient slot %d", slot))
	}
	if slot < 0 || slot >= len(e.slots) {
		return fmt.Errorf("choosing a gradient slot: slot %d: the engine has slots 0 to %d", slot, len(e.slots)-1)
	}
	return nil
}

// checkBucket returns the range of a bucket after checking that every slice has its length.
func (e *Engine) checkBucket(bucket int, slices ...[]float32) (lo, hi int, err error) {
	if e.closed {
		return 0, 0, errClosed
	}
	if bucket < 0 || bucket >= e.layout.Buckets() {
		return 0, 0, fmt.Errorf("choosing a bucket: bucket %d: the model has buckets 0 to %d", bucket, e.layout.Buckets()-1)
	}
	lo, hi = e.layout.Bucket(bucket)
	for _, s := range slices {
		if len(s) != hi-lo {
			return 0, 0, fmt.Errorf("copying bucket %d: a slice has %d elements: the bucket has %d", bucket, len(s), hi-lo)
		}
	}
	return lo, hi, nil
}
