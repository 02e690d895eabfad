package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/wire"
)

// root is the gradient of a whole step, kept until the next one for members to pull.
type root struct {
	mu   sync.Mutex
	step int64     // 0: there is none yet
	grad []float32 // flat vector
}

// source is a gradSource.
func (r *root) source(layout model.Layout, lanes int) gradSource {
	return func(request wire.GradRequest) ([]float32, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if request.Step != r.step || request.Lo != 0 || request.Hi != lanes {
			return nil, fmt.Errorf("the sum of lanes [%d, %d) of step %d is not here: the newest is the root of step %d", request.Lo, request.Hi, request.Step, r.step)
		}
		lo, hi := layout.Bucket(request.Bucket)
		return r.grad[lo:hi], nil
	}
}

// startReduce sums contributions beside the loop, in place of the reduction before.
func (c *coordinator) startReduce(e pipeline.Reduce) {
	c.cancelReduce()
	ctx, cancel := context.WithCancel(c.background.ctx)
	c.cancelReduce = cancel
	c.background.Go(func() {
		defer cancel()
		c.deliver(c.reduce(ctx, e))
	})
}

// reduce sums all buckets into the root and lets members pull it.
func (c *coordinator) reduce(ctx context.Context, e pipeline.Reduce) pipeline.Reduced {
	began := time.Now()
	result := pipeline.Reduced{Step: e.Step, Attempt: e.Attempt}
	c.root.mu.Lock()
	defer c.root.mu.Unlock()
	c.root.step = 0
	if c.root.grad == nil {
		c.root.grad = make([]float32, c.Plan.Layout.Size)
	}
	r := reducer{
		vectors: c.Vectors, layout: c.Plan.Layout, lanes: c.Plan.Spec.Batch.Lanes, first: 0, last: c.Plan.Layout.Buckets(),
		contributions: e.Contributions, rooms: &c.rooms,
		fetch: func(ctx context.Context, from pipeline.Contribution, bucket int, dst []float32) error {
			subject := wire.WorkerGrad(c.Plan.Spec.Name, from.Worker)
			return pullGrad(ctx, c.Bulk, subject, e.Step, from.Lo, from.Hi, bucket, dst)
		},
	}
	sums, fault := r.sum(ctx, c.root.grad)
	if fault == nil {
		fault = checkArrived(e.Contributions, sums)
	}
	if fault != nil {
		result.Err, result.Worker, result.Wrong = fault.err, fault.worker, fault.wrong
		return result
	}
	for _, s := range sums {
		result.RootDigest = result.RootDigest.Add(s.digest)
		result.SumSquares = append(result.SumSquares, s.squares)
	}
	c.root.step, result.Seconds = e.Step, time.Since(began).Seconds()
	return result
}

// checkArrived compares what arrived of each contribution with what its worker answered.
func checkArrived(contributions []pipeline.Contribution, sums []bucketSum) *fault {
	for i, from := range contributions {
		var arrived model.Digest
		for _, s := range sums {
			arrived = arrived.Add(s.arrived[i])
		}
		if arrived != from.Digest {
			err := fmt.Errorf("the contribution of worker %s for lanes [%d, %d) arrived with digest %s: it had answered %s", from.Worker, from.Lo, from.Hi, arrived, from.Digest)
			return &fault{err: err, worker: from.Worker, wrong: true}
		}
	}
	return nil
}

// fault is why a reduction failed, and whose contribution is the reason.
type fault struct {
	err    error
	worker pipeline.WorkerID
	wrong  bool // it is not what the worker answered
}

// bucketSum is what is known of one bucket of the root.
type bucketSum struct {
	digest  model.Digest
	squares pipeline.Float
	arrived []model.Digest // of each contribution's bucket
}

// reducer sums the contributions of a step along the reduction tree, for the buckets
// [first, last). Several reducers with ranges of their own give the same bits as one.
type reducer struct {
	vectors       model.Vectors
	layout        model.Layout
	lanes         int
	first, last   int
	contributions []pipeline.Contribution // which cover the lanes
	rooms         *rooms
	// fetch fills dst with a bucket of a contribution.
	fetch func(ctx context.Context, from pipeline.Contribution, bucket int, dst []float32) error
}

// rooms are two buckets for every contribution, used again for every bucket and step:
// one is summed while the next is fetched.
type rooms [2][][]float32

// fill makes room for so many contributions of size elements.
func (r *rooms) fill(contributions, size int) {
	for i := range r {
		for len(r[i]) < contributions {
			r[i] = append(r[i], make([]float32, size))
		}
	}
}

// sum writes the buckets into root, the whole flat vector, and returns what is known of
// each. No fetch is under way when it returns.
func (r *reducer) sum(ctx context.Context, root []float32) (sums []bucketSum, failed *fault) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.rooms.fill(len(r.contributions), largestBucket(r.layout))
	faults := r.begin(ctx, r.first)
	for bucket := r.first; bucket < r.last; bucket++ {
		for f := range faults {
			cancel() // the others are not needed any more
			if failed == nil {
				failed = f
			}
		}
		if failed != nil {
			return nil, failed
		}
		if bucket+1 < r.last {
			faults = r.begin(ctx, bucket+1)
		}
		lo, hi := r.layout.Bucket(bucket)
		sums = append(sums, r.add(bucket, lo, root[lo:hi]))
	}
	return sums, nil
}

// begin fetches a bucket of all contributions. The channel has what failed, and is closed
// when all is done.
func (r *reducer) begin(ctx context.Context, bucket int) <-chan *fault {
	lo, hi := r.layout.Bucket(bucket)
	faults := make(chan *fault, len(r.contributions))
	var group sync.WaitGroup
	for i, from := range r.contributions {
		group.Go(func() {
			if err := r.fetch(ctx, from, bucket, r.rooms[bucket%2][i][:hi-lo]); err != nil {
				faults <- &fault{err: err, worker: from.Worker}
			}
		})
	}
	go func() {
		group.Wait()
		close(faults)
	}()
	return faults
}

// add sums one fetched bucket into dst.
func (r *reducer) add(bucket, lo int, dst []float32) bucketSum {
	s := bucketSum{arrived: make([]model.Digest, len(r.contributions))}
	parts := make([]part, len(r.contributions))
	for i, from := range r.contributions {
		parts[i] = part{lo: from.Lo, hi: from.Hi, grad: r.rooms[bucket%2][i][:len(dst)]}
		s.arrived[i] = r.vectors.DigestOf(model.Gradient, lo, parts[i].grad)
	}
	copy(dst, sumTree(r.vectors, parts, 0, r.lanes))
	s.digest = r.vectors.DigestOf(model.Gradient, lo, dst)
	s.squares = pipeline.Float(r.vectors.SumSquares(dst))
	return s
}

// part is one bucket of the sum of lanes [lo, hi).
type part struct {
	lo, hi int
	grad   []float32
}

// sumTree adds parts that cover the lanes [lo, hi) along the reduction tree. It
// overwrites the parts and returns one of them.
func sumTree(v model.Vectors, parts []part, lo, hi int) []float32 {
	for _, p := range parts {
		if p.lo == lo && p.hi == hi {
			return p.grad
		}
	}
	middle := (lo + hi) / 2
	left, right := sumTree(v, parts, lo, middle), sumTree(v, parts, middle, hi)
	v.Add(left, right)
	return left
}
