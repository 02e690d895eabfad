package sim

import (
	"errors"
	"fmt"

	"andrea/pipeline"
)

// pull fetches the contributions one after the other, and sums them.
func (c *coordinator) pull(e *pipeline.Reduce, i int, parts [][]float32) {
	c.w.clock.after(c.w.network.transfer(), func() {
		if !c.alive {
			return
		}
		if c.reduction != e { // it was taken back, perhaps just before it was done
			c.late(e)
			return
		}
		if c.paused {
			c.pull(e, i, parts) // the request times out and is made again
			return
		}
		from := e.Contributions[i]
		grad, err := c.contribution(e.Step, from)
		if err != nil {
			c.reduction = nil
			c.receive(pipeline.Reduced{Step: e.Step, Attempt: e.Attempt, Err: err, Worker: from.Worker, Wrong: errors.Is(err, errWrong)})
			return
		}
		parts[i] = grad
		if i+1 < len(parts) {
			c.pull(e, i+1, parts)
			return
		}
		c.reduction = nil
		c.root = root{e.Step, c.sum(e, parts, 0, c.w.job.plan.Spec.Batch.Lanes)}
		r := pipeline.Reduced{Step: e.Step, Attempt: e.Attempt, Seconds: 0.1}
		r.RootDigest, r.SumSquares = c.w.job.device.digestOf(c.root.grad)
		c.receive(r)
	})
}

// late tells of a reduction that was taken back, as it may happen: that it failed for some
// worker's sake, or that it succeeded, when the step has long been another. It does so while
// the next one is under way, or at any time.
func (c *coordinator) late(e *pipeline.Reduce) {
	r := pipeline.Reduced{Step: e.Step, Attempt: e.Attempt, Err: errTakenBack, Worker: e.Contributions[0].Worker}
	if c.w.chance.below(2) == 0 {
		r = pipeline.Reduced{Step: e.Step, Attempt: e.Attempt, RootDigest: c.w.job.want.step(e.Step).root, SumSquares: make([]pipeline.Float, c.w.job.device.buckets)}
	}
	if c.w.chance.below(2) == 0 {
		c.overdue = &r
		return
	}
	c.later(c.w.chance.between(1, 2*tick), r)
}

var (
	errWrong     = errors.New("it arrived with another digest than its worker answered")
	errTakenBack = errors.New("it was taken back")
)

// contribution asks a worker for what it answered for.
func (c *coordinator) contribution(step int64, from pipeline.Contribution) ([]float32, error) {
	k := c.w.worker(from.Worker)
	if c.failing(&c.flaws.reduce) || !c.w.network.reaches(k, c) || k.incarnation() != from.Incarnation {
		return nil, transferError{"the worker does not answer"}
	}
	for slot, p := range k.parts {
		if p != (contribution{step, from.Lo, from.Hi}) {
			continue
		}
		grad := c.w.job.device.gradient(k.engine, slot)
		if digest, _ := c.w.job.device.digestOf(grad); digest != from.Digest {
			return nil, errWrong
		}
		return grad, nil
	}
	if k.steady && k.machine.Membership().Generation == c.generation {
		c.w.failf("coordinator %d pulls lanes [%d, %d) of step %d from %s, which has it no more", c.generation, from.Lo, from.Hi, step, k.id)
	}
	return nil, transferError{"the worker has it no more"}
}

// sum adds the contributions along the tree.
func (c *coordinator) sum(e *pipeline.Reduce, parts [][]float32, lo, hi int) []float32 {
	for i, from := range e.Contributions {
		if from.Lo == lo && from.Hi == hi {
			return parts[i]
		}
	}
	if hi-lo <= 1 {
		c.w.failf("the contributions to step %d do not cover lane %d: %+v", e.Step, lo, e.Contributions)
	}
	middle := (lo + hi) / 2
	left, right := c.sum(e, parts, lo, middle), c.sum(e, parts, middle, hi)
	for i, g := range right {
		left[i] += g
	}
	return left
}

// copy reads a worker's snapshot bucket by bucket, and writes the checkpoint.
func (c *coordinator) copy(e *pipeline.WriteCheckpoint, bucket int, s saved) {
	c.w.clock.after(c.w.chance.between(5, 100), func() {
		if !c.alive || c.writing != e {
			return
		}
		if c.paused {
			c.copy(e, bucket, s)
			return
		}
		k := c.w.worker(e.Worker)
		if !c.w.network.reaches(k, c) || k.incarnation() != e.Incarnation || k.snapped != e.Step {
			c.written(e, errCopy, true)
			return
		}
		if c.failing(&c.flaws.copy) {
			if c.w.chance.below(2) == 0 {
				c.written(e, errCopy, true)
				return
			}
			flip(&k.snapshot.state[0][0], c.w.chance) // it cannot be read again
		}
		if s[0] == nil {
			for i := range s {
				s[i] = make([]float32, c.w.job.device.size())
			}
		}
		lo, hi := c.w.job.device.bounds(bucket)
		for i := range s {
			copy(s[i][lo:hi], k.snapshot.state[i][lo:hi])
		}
		if bucket+1 < c.w.job.device.buckets {
			c.copy(e, bucket+1, s)
			return
		}
		c.publish(e, s)
	})
}

// publish puts the checkpoint into its place, unless a newer coordinator owns the run.
func (c *coordinator) publish(e *pipeline.WriteCheckpoint, s saved) {
	switch {
	case c.generation != c.w.disk.claims:
		c.die("a newer coordinator has begun")
		return
	case c.w.job.device.digest(s) != e.Digest:
		c.written(e, fmt.Errorf("the copy has another digest"), true)
		return
	case c.failing(&c.flaws.checkpoint):
		c.written(e, errDisk, false)
		return
	}
	checkpoint := stored{state: s, digest: e.Digest, record: c.journal.CommitDigest(e.Step)}
	if c.failing(&c.flaws.torn) {
		checkpoint.torn = true
		c.w.disk.checkpoints[e.Step] = checkpoint
		c.die("the power failed while it wrote a checkpoint")
		return
	}
	c.w.disk.checkpoints[e.Step] = checkpoint
	c.w.judgeCheckpoint(e.Step, checkpoint)
	c.written(e, nil, false)
}

func (c *coordinator) written(e *pipeline.WriteCheckpoint, err error, copyLost bool) {
	c.writing = nil
	done := pipeline.CheckpointWritten{Step: e.Step, Worker: e.Worker, Err: err, CopyLost: copyLost}
	if err == nil {
		done.Deleted = c.w.disk.retain(e.Step, c.w.job.plan.Spec.Checkpoint.KeepLast)
	}
	c.receive(done)
}

// checkpoint is one that this process can serve.
func (c *coordinator) checkpoint(step int64) (stored, bool) {
	s, ok := c.w.disk.checkpoints[step]
	return s, ok && !s.torn && s.record == c.journal.CommitDigest(step)
}
