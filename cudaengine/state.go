//go:build cuda && cgo && linux

package cudaengine

import (
	"fmt"

	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
	"andrea/model"
)

// errInference answers what needs gradients or moments when the engine has none.
func errInference(what string) error {
	return fmt.Errorf("%s: the engine was opened with 0 slots, for inference alone, and has neither gradients nor moments: open it with a slot or more", what)
}

func (e *engine) checkSlot(slot int) error {
	if !e.options.trains() {
		return errInference(fmt.Sprintf("choosing gradient slot %d", slot))
	}
	if slot < 0 || slot >= e.options.Slots {
		return fmt.Errorf("choosing a gradient slot: slot %d: the engine has slots 0 to %d", slot, e.options.Slots-1)
	}
	return nil
}

// checkBucket returns the range of a bucket after checking that every slice has its length.
func (e *engine) checkBucket(bucket int, slices ...[]float32) (lo, hi int, err error) {
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

// checkGradient checks a slot and a bucket.
func (e *engine) checkGradient(slot, bucket int, slices ...[]float32) (lo, hi int, err error) {
	if err := e.checkSlot(slot); err != nil {
		return 0, 0, err
	}
	return e.checkBucket(bucket, slices...)
}

// piece is a range of a flat vector on the device, and the host's copy of it.
type piece struct {
	flat driver.Pointer
	host []float32
}

// load copies pieces to the device, each from element lo on. The compute stream waits for them.
func (e *engine) load(lo int, pieces ...piece) {
	for i, p := range pieces {
		n := copy(e.host.bucket[i].Floats(), p.host)
		e.copies.in(element(p.flat, int64(lo), words), e.host.bucket[i], int64(n)*words)
	}
	e.computeAfterCopies()
}

// computeAfterCopies makes the kernels that are queued from now on wait for the copies that are queued now.
func (e *engine) computeAfterCopies() {
	e.copies.issue(func() error { return e.copies.stream.Record(e.copied) })
	e.compute.issue(func() error {
		err := e.copies.err
		e.copies.err = nil
		return err
	})
	e.compute.issue(func() error { return e.compute.stream.Wait(e.copied) })
}

// save copies pieces from the device, each from element lo on.
func (e *engine) save(lo int, pieces ...piece) error {
	err := e.call(func() {
		for i, p := range pieces {
			e.compute.out(e.host.bucket[i], element(p.flat, int64(lo), words), int64(len(p.host))*words)
		}
	})
	if err != nil {
		return err
	}
	for i, p := range pieces {
		copy(p.host, e.host.bucket[i].Floats())
	}
	return nil
}

// Load sets a bucket's weights and moments. Without slots the moments are not looked at and may be nil.
func (e *engine) Load(bucket int, params, m, v []float32) error {
	pieces := []piece{{e.mem.params, params}}
	slices := [][]float32{params}
	if e.options.trains() {
		pieces = append(pieces, piece{e.mem.m, m}, piece{e.mem.v, v})
		slices = append(slices, m, v)
	}
	lo, hi, err := e.checkBucket(bucket, slices...)
	if err != nil {
		return err
	}
	return e.call(func() {
		e.load(lo, pieces...)
		if e.mem.half != 0 {
			e.compute.launch(e.kernels.narrow, kernels.Sizes{Count: hi - lo},
				element(e.mem.half, int64(lo), elementBytes(BF16)), element(e.mem.params, int64(lo), words), driver.Int(hi-lo))
		}
	})
}

// Save copies a bucket's weights and moments into the caller's slices. Without slots there are no moments to save,
// which is an error.
func (e *engine) Save(bucket int, params, m, v []float32) error {
	lo, _, err := e.checkBucket(bucket, params, m, v)
	if err == nil && !e.options.trains() {
		err = errInference(fmt.Sprintf("saving the state of bucket %d", bucket))
	}
	if err != nil {
		return err
	}
	return e.save(lo, piece{e.mem.params, params}, piece{e.mem.m, m}, piece{e.mem.v, v})
}

// ReadGrad copies a bucket of a slot into the caller's slice, past what AccumulateLast has queued meanwhile.
func (e *engine) ReadGrad(slot, bucket int, dst []float32) error {
	lo, _, err := e.checkGradient(slot, bucket, dst)
	if err != nil {
		return err
	}
	return e.do(func() error {
		e.copies.out(e.host.bucket[0], element(e.mem.slots[slot], int64(lo), words), int64(len(dst))*words)
		err := e.copies.finish()
		if err == nil {
			copy(dst, e.host.bucket[0].Floats())
		}
		return err
	})
}

// WriteGrad sets a bucket of a slot.
func (e *engine) WriteGrad(slot, bucket int, src []float32) error {
	lo, _, err := e.checkGradient(slot, bucket, src)
	if err != nil {
		return err
	}
	return e.call(func() { e.load(lo, piece{e.mem.slots[slot], src}) })
}

// GradDigest returns the digest of a bucket of a slot.
func (e *engine) GradDigest(slot, bucket int) (model.Digest, error) {
	lo, hi, err := e.checkGradient(slot, bucket)
	if err != nil {
		return model.Digest{}, err
	}
	return e.digest(func() { e.addDigest(model.Gradient, e.mem.slots[slot], lo, hi) })
}

// StateDigest returns the digest of a bucket's weights and moments.
func (e *engine) StateDigest(bucket int) (model.Digest, error) {
	lo, hi, err := e.checkBucket(bucket)
	if err == nil && !e.options.trains() {
		err = errInference(fmt.Sprintf("taking the digest of the state of bucket %d", bucket))
	}
	if err != nil {
		return model.Digest{}, err
	}
	return e.digest(func() {
		e.addDigest(model.Weight, e.mem.params, lo, hi)
		e.addDigest(model.FirstMoment, e.mem.m, lo, hi)
		e.addDigest(model.SecondMoment, e.mem.v, lo, hi)
	})
}

// SumSquares sets sums to the sums of squares of the buckets of a slot. The order of a sum makes a bucket one long chain, so
// all are computed at once.
func (e *engine) SumSquares(slot int, sums []float64) error {
	if err := e.checkSlot(slot); err != nil {
		return err
	}
	if len(sums) != e.layout.Buckets() {
		return fmt.Errorf("adding up the squares of a gradient: the slice has %d elements: one for each of %d buckets is needed", len(sums), e.layout.Buckets())
	}
	err := e.call(func() {
		e.compute.launch(e.kernels.sumSquares, kernels.Sizes{Buckets: len(sums)}, e.mem.sums, e.mem.slots[slot], driver.Int(e.layout.Size))
		e.compute.out(e.host.sums, e.mem.sums, int64(len(sums))*doubles)
	})
	if err != nil {
		return fmt.Errorf("adding up the squares of a gradient: %w", err)
	}
	copy(sums, e.host.sums.Doubles())
	return nil
}
