package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/wire"
)

// summation is a reduction beside the loop.
type summation struct {
	step          int64
	contributions []pipeline.Contribution
	cancel        context.CancelFunc
	done          chan struct{} // closed when the results are there
	sums          []bucketSum
	failed        *fault
}

// of reports that the summation is of these contributions. It was begun ahead, before the workers had answered:
// digests that were not known then are now. The sum does not depend on them, and they are compared in result, so
// they are left out here: else no summation that was begun ahead could be used.
func (s *summation) of(step int64, contributions []pipeline.Contribution) bool {
	return s != nil && s.step == step && slices.EqualFunc(s.contributions, contributions, func(a, b pipeline.Contribution) bool {
		a.Digest = b.Digest
		return a == b
	})
}

// sum begins to sum contributions, in place of the summation before. A patient one asks
// until it is cancelled for what is still computed.
func (c *coordinator) sum(step int64, contributions []pipeline.Contribution, patient bool) {
	c.cancelSum()
	ctx, cancel := context.WithCancel(c.background.ctx)
	s := &summation{step: step, contributions: contributions, cancel: cancel, done: make(chan struct{})}
	c.summing = s
	c.background.Go(func() {
		defer cancel()
		defer close(s.done)
		s.sums, s.failed = c.fillRoot(ctx, s, patient)
	})
}

// cancelSum takes the newest summation back.
func (c *coordinator) cancelSum() {
	if c.summing != nil {
		c.summing.cancel()
		c.summing = nil
	}
}

// anticipate sums contributions while they are computed.
func (c *coordinator) anticipate(e pipeline.Anticipate) { c.sum(e.Step, e.Contributions, true) }

// reduce tells the state machine of a summation when it has ended: of the one that was
// begun ahead, when it is of the same contributions.
func (c *coordinator) reduce(e pipeline.Reduce) {
	began := time.Now()
	if !c.summing.of(e.Step, e.Contributions) {
		c.sum(e.Step, e.Contributions, false)
	}
	s := c.summing
	c.background.Go(func() {
		<-s.done
		c.deliver(c.result(e, s, time.Since(began)))
	})
}

// result checks a summation and says what it gave. What arrived is compared with the digests of e, which are those
// that the workers have answered; the summation's own contributions may be without them.
func (c *coordinator) result(e pipeline.Reduce, s *summation, took time.Duration) pipeline.Reduced {
	result := pipeline.Reduced{Step: e.Step, Attempt: e.Attempt}
	fault := s.failed
	if fault == nil {
		fault = checkArrived(e.Contributions, s.sums)
	}
	if fault != nil {
		result.Err, result.Worker, result.Wrong = fault.err, fault.worker, fault.wrong
		return result
	}
	for _, b := range s.sums {
		result.RootDigest = result.RootDigest.Add(b.digest)
		result.SumSquares = append(result.SumSquares, b.squares)
	}
	result.Seconds = took.Seconds()
	return result
}

// fillRoot sums all buckets into the root.
func (c *coordinator) fillRoot(ctx context.Context, s *summation, patient bool) ([]bucketSum, *fault) {
	c.root.filling.Lock()
	defer c.root.filling.Unlock()
	root := c.root.begin(s.step)
	r := reducer{
		vectors: c.Vectors, layout: c.Plan.Layout, lanes: c.Plan.Spec.Batch.Lanes, first: 0, last: c.Plan.Layout.Buckets(),
		contributions: s.contributions, rooms: &c.rooms, final: c.root.reveal,
		fetch: func(ctx context.Context, from pipeline.Contribution, bucket int, dst []float32) error {
			subject := wire.WorkerGrad(c.Plan.Spec.Name, from.Worker)
			for {
				began := time.Now()
				err := c.pulls.pullGrad(ctx, subject, s.step, from.Lo, from.Hi, bucket, dst)
				if err == nil || !patient || ctx.Err() != nil {
					return err
				}
				if pause := pullStep - time.Since(began); pause > 0 && wait(ctx, pause) != nil { // after a long wait ask again at once
					return err
				}
			}
		},
	}
	sums, failed := r.sum(ctx, root)
	if failed != nil {
		c.root.drop()
	}
	return sums, failed
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
	arrived       [2][]model.Digest // of what lies in rooms
	final         func(bucket int)  // told of every bucket that is summed
	// fetch fills dst with a bucket of a contribution.
	fetch func(ctx context.Context, from pipeline.Contribution, bucket int, dst []float32) error
}

// rooms are two buckets for every contribution, used again for every bucket and step: one is summed while the
// next is fetched. Bucket n lies in rooms[n%2]: of two that follow each other one is even.
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
// each, by bucket. It begins with the last one, which a backward pass computes first. No
// fetch is under way when it returns.
func (r *reducer) sum(ctx context.Context, root []float32) (sums []bucketSum, failed *fault) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.rooms.fill(len(r.contributions), largestBucket(r.layout))
	for i := range r.arrived {
		r.arrived[i] = make([]model.Digest, len(r.contributions))
	}
	sums = make([]bucketSum, r.last-r.first)
	faults := r.begin(ctx, r.last-1)
	for bucket := r.last - 1; bucket >= r.first; bucket-- {
		for f := range faults {
			cancel() // the others are not needed any more
			if failed == nil {
				failed = f
			}
		}
		if failed != nil {
			return nil, failed
		}
		if bucket > r.first {
			faults = r.begin(ctx, bucket-1)
		}
		lo, hi := r.layout.Bucket(bucket)
		sums[bucket-r.first] = r.add(bucket, lo, root[lo:hi])
		r.final(bucket)
	}
	return sums, nil
}

// begin fetches a bucket of all contributions. The channel has what failed, and is closed when no fetch is under
// way any more: reading it to its end waits for the bucket. It has room for a fault of each, so that no fetch
// waits to be heard.
func (r *reducer) begin(ctx context.Context, bucket int) <-chan *fault {
	lo, hi := r.layout.Bucket(bucket)
	faults := make(chan *fault, len(r.contributions))
	var group sync.WaitGroup
	for i, from := range r.contributions {
		group.Go(func() {
			dst := r.rooms[bucket%2][i][:hi-lo]
			if err := r.fetch(ctx, from, bucket, dst); err != nil {
				faults <- &fault{err: err, worker: from.Worker}
				return
			}
			r.arrived[bucket%2][i] = r.vectors.DigestOf(model.Gradient, lo, dst) // while others still arrive
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
	s := bucketSum{arrived: slices.Clone(r.arrived[bucket%2])}
	parts := make([]part, len(r.contributions))
	for i, from := range r.contributions {
		parts[i] = part{lo: from.Lo, hi: from.Hi, grad: r.rooms[bucket%2][i][:len(dst)]}
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
