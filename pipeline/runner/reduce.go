package runner

import (
	"fmt"
	"sync"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/wire"
)

// root is the gradient of a whole step, kept until the next one for members to pull.
type root struct {
	mu   sync.Mutex
	step int64       // 0: there is none yet
	grad []float32   // flat vector
	room [][]float32 // a bucket for each contribution, used again for every bucket and step
}

// allocate makes room for a root of so many elements and its contributions.
func (r *root) allocate(size, contributions int) {
	if r.grad == nil {
		r.grad = make([]float32, size)
	}
	for len(r.room) < contributions {
		r.room = append(r.room, make([]float32, min(size, model.BucketSize)))
	}
}

// bucket is a stateSource.
func (r *root) bucket(layout model.Layout) stateSource {
	return func(step int64, bucket int) (state, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if step != r.step {
			return state{}, fmt.Errorf("the root of step %d is not here: the newest is of step %d", step, r.step)
		}
		lo, hi := layout.Bucket(bucket)
		return state{r.grad[lo:hi]}, nil
	}
}

// startReduce sums contributions beside the loop.
func (c *coordinator) startReduce(e pipeline.Reduce) {
	c.background.Go(func() {
		r := pipeline.Reduced{Step: e.Step}
		r.RootDigest, r.SumSquares, r.Err = c.reduce(e)
		c.deliver(r)
	})
}

// reduce pulls the contributions bucket by bucket, sums them along the tree into the
// root, and checks that what arrived is what the workers answered for.
func (c *coordinator) reduce(e pipeline.Reduce) (digest model.Digest, sums []pipeline.Float, err error) {
	c.root.mu.Lock()
	defer c.root.mu.Unlock()
	c.root.step = 0
	c.root.allocate(c.Plan.Layout.Size, len(e.Contributions))
	arrived := make([]model.Digest, len(e.Contributions))
	for bucket := range c.Plan.Layout.Buckets() {
		lo, hi := c.Plan.Layout.Bucket(bucket)
		parts := make([]part, len(e.Contributions))
		for i, from := range e.Contributions {
			parts[i] = part{lo: from.Lo, hi: from.Hi, grad: c.root.room[i][:hi-lo]}
			subject := wire.WorkerGrad(c.Plan.Spec.Name, from.Worker)
			if err := pullPart(c.background.ctx, c.Bulk, subject, e.Step, bucket, 0, parts[i].grad); err != nil {
				return digest, nil, err
			}
			arrived[i] = arrived[i].Add(model.DigestOf(model.Gradient, lo, parts[i].grad))
		}
		copy(c.root.grad[lo:hi], sumTree(parts, 0, c.Plan.Spec.Batch.Lanes))
		digest = digest.Add(model.DigestOf(model.Gradient, lo, c.root.grad[lo:hi]))
		sums = append(sums, pipeline.Float(model.SumSquares(c.root.grad[lo:hi])))
	}
	for i, from := range e.Contributions {
		if arrived[i] != from.Digest {
			return digest, nil, fmt.Errorf("the contribution of worker %s for lanes [%d, %d) arrived with digest %s: it had answered %s", from.Worker, from.Lo, from.Hi, arrived[i], from.Digest)
		}
	}
	c.root.step = e.Step
	return digest, sums, nil
}

// part is one bucket of the sum of lanes [lo, hi).
type part struct {
	lo, hi int
	grad   []float32
}

// sumTree adds parts that cover the lanes [lo, hi) along the reduction tree. It
// overwrites the parts and returns one of them.
func sumTree(parts []part, lo, hi int) []float32 {
	for _, p := range parts {
		if p.lo == lo && p.hi == hi {
			return p.grad
		}
	}
	middle := (lo + hi) / 2
	left, right := sumTree(parts, lo, middle), sumTree(parts, middle, hi)
	for i, r := range right {
		left[i] += r
	}
	return left
}
