package runner

import (
	"fmt"
	"sync"
	"time"

	"andrea/model"
	"andrea/pipeline/wire"
)

// root is the gradient of a step, kept until the next one for members to pull, who may have each bucket as soon as it is
// summed.
//
// Three locks are taken in this order:
//
//	filling  whoever sums
//	reading  shared: whoever reads a bucket that is summed, beside the one who sums others; alone: who lets the root
//	         before go, and so waits for its readers
//	mu       what is there, for a moment: nothing is summed, read or locked under it
type root struct {
	layout  model.Layout
	lanes   int
	filling sync.Mutex
	reading sync.RWMutex

	mu      sync.Mutex
	step    int64         // 0: there is none
	final   int           // buckets from this one on are summed
	grad    []float32     // flat vector; nil before the first sum
	changed chan struct{} // closed when there is more to read, or less
}

// newRoot is none yet.
func newRoot(layout model.Layout, lanes int) *root {
	return &root{layout: layout, lanes: lanes, changed: make(chan struct{})}
}

// begin lets the root before go and returns the room for that of a step, when nobody reads it any more.
func (r *root) begin(step int64) []float32 {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grad == nil {
		r.grad = make([]float32, r.layout.Size)
	}
	r.set(step, r.layout.Buckets())
	return r.grad
}

// set says what is there and wakes who waits for it; with r.mu held.
func (r *root) set(step int64, final int) {
	r.step, r.final = step, final
	close(r.changed)
	r.changed = make(chan struct{})
}

// reveal says that the buckets from this one on are summed.
func (r *root) reveal(bucket int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(r.step, bucket)
}

// drop says that the sum has failed. Who reads a bucket of it learns of that by its digest.
func (r *root) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(0, r.layout.Buckets())
}

// find is the bucket of a request, or a channel that is closed when there is something else.
func (r *root) find(request wire.GradRequest) (bucket []float32, later <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.Step != r.step || request.Lo != 0 || request.Hi != r.lanes {
		return nil, nil, fmt.Errorf("the sum of lanes [%d, %d) of step %d is not here: the newest is the root of step %d", request.Lo, request.Hi, request.Step, r.step)
	}
	if request.Bucket < r.final {
		return nil, r.changed, nil
	}
	lo, hi := r.layout.Bucket(request.Bucket)
	return r.grad[lo:hi], nil, nil
}

// await is a gradSource that waits until the bucket is summed.
func (r *root) await(request wire.GradRequest, use func(bucket []float32) error) error {
	timer := time.NewTimer(gradPatience)
	defer timer.Stop()
	for {
		later, err := r.read(request, use)
		if later == nil {
			return err
		}
		select {
		case <-later:
		case <-timer.C:
			return fmt.Errorf("bucket %d of the root of step %d is not summed yet", request.Bucket, request.Step)
		}
	}
}

// read lets use have a bucket, which stays as it is meanwhile.
func (r *root) read(request wire.GradRequest, use func(bucket []float32) error) (later <-chan struct{}, err error) {
	r.reading.RLock()
	defer r.reading.RUnlock()
	bucket, later, err := r.find(request)
	if err != nil || later != nil {
		return later, err
	}
	return nil, use(bucket)
}
