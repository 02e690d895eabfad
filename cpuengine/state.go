package cpuengine

import (
	"fmt"

	"andrea/model"
)

// Load sets a bucket's weights and moments. Without slots the moments are not looked at
// and may be nil.
func (e *Engine) Load(bucket int, params, m, v []float32) error {
	if !e.options.trains() {
		lo, _, err := e.checkBucket(bucket, params)
		if err != nil {
			return err
		}
		copy(e.params.flat[lo:], params)
		return nil
	}
	lo, _, err := e.checkBucket(bucket, params, m, v)
	if err != nil {
		return err
	}
	copy(e.params.flat[lo:], params)
	copy(e.m[lo:], m)
	copy(e.v[lo:], v)
	return nil
}

// Save copies a bucket's weights and moments into the caller's slices. Without slots
// there are no moments to save, which is an error.
func (e *Engine) Save(bucket int, params, m, v []float32) error {
	lo, _, err := e.checkState("saving the state", bucket, params, m, v)
	if err != nil {
		return err
	}
	copy(params, e.params.flat[lo:])
	copy(m, e.m[lo:])
	copy(v, e.v[lo:])
	return nil
}

// checkState is checkBucket for what needs a bucket's moments.
func (e *Engine) checkState(what string, bucket int, slices ...[]float32) (lo, hi int, err error) {
	if lo, hi, err = e.checkBucket(bucket, slices...); err == nil && !e.options.trains() {
		err = errInference(fmt.Sprintf("%s of bucket %d", what, bucket))
	}
	return lo, hi, err
}

// gradient returns a bucket of a slot.
func (e *Engine) gradient(slot, bucket int, slices ...[]float32) (flat []float32, start int, err error) {
	if err := e.checkSlot(slot); err != nil {
		return nil, 0, err
	}
	lo, hi, err := e.checkBucket(bucket, slices...)
	if err != nil {
		return nil, 0, err
	}
	e.settle(slot)
	return e.slots[slot].flat[lo:hi], lo, nil
}

// ReadGrad copies a bucket of a slot into the caller's slice.
func (e *Engine) ReadGrad(slot, bucket int, dst []float32) error {
	flat, _, err := e.gradient(slot, bucket, dst)
	if err != nil {
		return err
	}
	copy(dst, flat)
	return nil
}

// WriteGrad sets a bucket of a slot.
func (e *Engine) WriteGrad(slot, bucket int, src []float32) error {
	flat, _, err := e.gradient(slot, bucket, src)
	if err != nil {
		return err
	}
	copy(flat, src)
	return nil
}

// SumSquares sets sums to the sums of squares of the buckets of a slot. Each is one chain, so that threads share
// the buckets.
func (e *Engine) SumSquares(slot int, sums []float64) error {
	if err := e.checkSlot(slot); err != nil {
		return err
	}
	if len(sums) != e.layout.Buckets() {
		return fmt.Errorf("adding the squares of a gradient: the slice has %d elements: one for each of %d buckets is needed", len(sums), e.layout.Buckets())
	}
	e.settle(slot)
	e.optimizer.src, e.optimizer.sums = e.slots[slot].flat, sums
	e.pool.Each(len(sums), e.optimizer.squareTask)
	e.optimizer.sums = nil
	return nil
}

// GradDigest returns the digest of a bucket of a slot.
func (e *Engine) GradDigest(slot, bucket int) (model.Digest, error) {
	flat, lo, err := e.gradient(slot, bucket)
	if err != nil {
		return model.Digest{}, err
	}
	e.optimizer.src = e.slots[slot].flat
	return e.optimizer.bucketDigest(lo, lo+len(flat), e.optimizer.gradTask), nil
}

// StateDigest returns the digest of a bucket's weights and moments.
func (e *Engine) StateDigest(bucket int) (model.Digest, error) {
	lo, hi, err := e.checkState("taking the digest of the state", bucket)
	if err != nil {
		return model.Digest{}, err
	}
	return e.optimizer.bucketDigest(lo, hi, e.optimizer.stateTask), nil
}
