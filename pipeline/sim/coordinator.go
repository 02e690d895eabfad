package sim

import (
	"errors"
	"fmt"

	"andrea/pipeline"
)

// coordinator is a process that runs a coordinator.
type coordinator struct {
	w          *world
	generation uint64
	machine    *pipeline.Coordinator
	alive      bool
	paused     bool
	inbox      []pipeline.CoordinatorEvent // while it is paused
	fuse       int                         // effects until it dies; -1: it does not

	file    *journalFile
	journal *pipeline.Journal
	intents map[int64]pipeline.Intent // durable ones

	root      root
	reduction *pipeline.Reduce // under way; nil: none
	writing   *pipeline.WriteCheckpoint
	outcome   *pipeline.Outcome
	flaws     coordinatorFlaws
}

// root is the newest sum of a step's gradients.
type root struct {
	step int64
	grad []float32
}

// coordinatorFlaws are what will go wrong next.
type coordinatorFlaws struct {
	journal    bool // the journal cannot be written
	checkpoint bool // the checkpoint cannot be written
	torn       bool // it is damaged while it is written, and the process dies
	copy       bool // the worker's copy cannot be read
	reduce     bool // a contribution does not arrive
}

// startCoordinator starts the process on the disk, under the next generation.
func (w *world) startCoordinator() {
	w.disk.claims++
	c := &coordinator{w: w, generation: w.disk.claims, alive: true, fuse: -1, intents: map[int64]pipeline.Intent{}}
	journal, err := w.disk.reopen()
	if err != nil {
		w.failf("the journal cannot be read after a crash: %v", err)
	}
	c.file, c.journal = w.disk.journal, journal
	for _, r := range journal.Steps {
		c.intents[r.Intent.Step] = r.Intent
	}
	start := pipeline.Start{Journal: journal, Workers: w.together, Generation: c.generation}
	if journal.Last() > 0 {
		start.Class = class
	}
	if step, s := w.disk.newest(journal); step >= 0 {
		start.Step, start.Digest, start.Checkpoint = step, s.digest, true
	}
	w.tracef("coordinator %d begins: checkpoint %d (%v), %d steps in the journal", c.generation, start.Step, start.Checkpoint, journal.Last())
	c.machine = pipeline.NewCoordinator(w.job.plan, start)
	w.coordinators = append(w.coordinators, c)
	w.clock.after(w.chance.between(1, tick), c.beat)
}

// beat is a tick.
func (c *coordinator) beat() {
	if !c.alive {
		return
	}
	c.w.clock.after(tick, c.beat)
	if !c.paused {
		c.execute(c.machine.Tick())
	}
}

// hear takes a message of a worker.
func (c *coordinator) hear(k *worker, incarnation string, e pipeline.Reply) {
	if !c.alive {
		return
	}
	if _, sign := e.Message.(pipeline.Heartbeat); sign && !c.paused {
		c.w.network.send(k, true, func() { k.heard(e.Membership) })
	}
	c.receive(pipeline.FromWorker{Worker: k.id, Incarnation: incarnation, Ticket: e.Membership.Ticket, Message: e.Message})
}

// receive takes an event.
func (c *coordinator) receive(e pipeline.CoordinatorEvent) {
	switch {
	case !c.alive:
	case c.paused:
		c.inbox = append(c.inbox, e)
	default:
		c.trace(e)
		c.w.judgeHeard(c, e)
		c.execute(c.machine.Handle(e))
	}
}

func (c *coordinator) trace(e pipeline.CoordinatorEvent) {
	if from, ok := e.(pipeline.FromWorker); ok {
		if _, beat := from.Message.(pipeline.Heartbeat); beat {
			return
		}
		c.w.tracef("coordinator %d (%s) <- %s %s/%d %T %+v", c.generation, c.machine.Phase(), from.Worker, from.Incarnation, from.Ticket, from.Message, from.Message)
		return
	}
	c.w.tracef("coordinator %d (%s) <- %T %+v", c.generation, c.machine.Phase(), e, e)
}

// wake lets a process go on that stood still.
func (c *coordinator) wake() {
	if !c.alive || !c.paused {
		return
	}
	c.w.tracef("coordinator %d wakes up", c.generation)
	c.paused = false
	inbox := append([]pipeline.CoordinatorEvent{pipeline.Paused{}}, c.inbox...)
	c.inbox = nil
	for _, e := range inbox {
		c.receive(e)
	}
}

// die ends the process without notice. The supervisor starts another.
func (c *coordinator) die(why string) {
	if !c.alive {
		return
	}
	c.w.tracef("coordinator %d ends: %s", c.generation, why)
	c.alive = false
	c.file.crash(c.w.chance)
	if c == c.w.newest() {
		c.w.clock.after(c.w.chance.between(tick/2, 8*tick), c.w.supervise)
	}
}

// execute does what the machine wants, in order.
func (c *coordinator) execute(effects []pipeline.CoordinatorEffect) {
	for _, effect := range effects {
		if c.fuse == 0 {
			c.die("killed between two effects")
		}
		if !c.alive {
			return
		}
		if c.fuse > 0 {
			c.fuse--
		}
		c.do(effect)
	}
}

func (c *coordinator) do(effect pipeline.CoordinatorEffect) {
	switch e := effect.(type) {
	case pipeline.Send:
		c.send(e)
		return
	case pipeline.Reduce:
		c.w.judgeReduce(c, e)
		c.reduction = &e
		c.pull(&e, 0, make([][]float32, len(e.Contributions)))
	case pipeline.CancelReduce:
		c.reduction = nil
	case pipeline.WriteIntent:
		c.writeIntent(e)
	case pipeline.WriteCommit:
		c.writeCommit(e)
	case pipeline.WriteCheckpoint:
		c.file.durable = len(c.file.data)
		c.writing = &e
		c.copy(&e, 0, saved{})
	case pipeline.Announce:
		c.announce(e.Notice)
	case pipeline.End:
		c.outcome = &e.Outcome
		c.w.tracef("coordinator %d ends with %+v", c.generation, e.Outcome)
		c.ended()
	}
}

func (c *coordinator) send(e pipeline.Send) {
	c.w.tracef("coordinator %d -> %s %s/%d %T %+v", c.generation, e.Worker, e.Incarnation, e.Ticket, e.Message, e.Message)
	k := c.w.worker(e.Worker)
	c.w.judgeSend(c, e)
	received := pipeline.Received{Membership: pipeline.Membership{Generation: c.generation, Ticket: e.Ticket}, Message: e.Message}
	c.w.network.send(k, true, func() {
		if k.incarnation() == e.Incarnation {
			k.receive(received)
		}
	})
}

func (c *coordinator) writeIntent(e pipeline.WriteIntent) {
	c.w.judgeIntent(c, e.Intent)
	line, err := c.journal.AppendIntent(e.Intent)
	if err != nil {
		c.w.failf("step %d is written out of turn: %v", e.Intent.Step, err)
	}
	if c.failing(&c.flaws.journal) {
		c.later(1, pipeline.DiskFailed{Err: errDisk})
		return
	}
	c.file.data = append(c.file.data, line...)
	durable := len(c.file.data)
	c.w.clock.after(c.w.chance.between(1, 60), func() {
		if !c.alive {
			return
		}
		c.file.durable = max(c.file.durable, durable)
		c.intents[e.Intent.Step] = e.Intent
		c.receive(pipeline.IntentDurable{Step: e.Intent.Step})
	})
}

// failing reports that a flaw strikes, once.
func (c *coordinator) failing(flaw *bool) bool {
	strikes := *flaw
	*flaw = false
	return strikes
}

// later is the result of an effect.
func (c *coordinator) later(delay int64, e pipeline.CoordinatorEvent) {
	c.w.clock.after(delay, func() { c.receive(e) })
}

func (c *coordinator) writeCommit(e pipeline.WriteCommit) {
	e.Record.Seconds = float64(c.w.clock.now) / (2 * tick)
	e.Record.TokensPerSecond = 1
	line, err := c.journal.AppendCommit(e.Record)
	if err != nil {
		c.w.failf("the record of step %d is written out of turn: %v", e.Record.Step, err)
	}
	c.w.judgeCommit(c, e.Record)
	if c.failing(&c.flaws.journal) {
		c.later(1, pipeline.DiskFailed{Err: errDisk})
		return
	}
	c.file.data = append(c.file.data, line...)
}

func (c *coordinator) announce(n pipeline.Notice) {
	switch n := n.(type) {
	case pipeline.StepDone:
		c.w.judgeCommit(c, n.Record)
	case pipeline.WorkerLeft:
		c.w.judgeLeft(c, n)
	}
	c.w.tracef("coordinator %d: %T %+v", c.generation, n, n)
}

// pull fetches the contributions one after the other, and sums them.
func (c *coordinator) pull(e *pipeline.Reduce, i int, parts [][]float32) {
	c.w.clock.after(c.w.chance.between(5, 50), func() {
		if !c.alive || c.reduction != e {
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

var errWrong = errors.New("it arrived with another digest than its worker answered")

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
		if c.failing(&c.flaws.copy) || !c.w.network.reaches(k, c) || k.incarnation() != e.Incarnation || k.snapped != e.Step {
			c.written(e, errCopy, true)
			return
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

// ended takes the outcome; the supervisor decides whether the run goes on.
func (c *coordinator) ended() {
	c.w.judgeOutcome(c, *c.outcome)
	c.alive = false
	if c.outcome.Err == nil {
		c.file.durable = len(c.file.data)
	}
	if c.outcome.Complete && c == c.w.newest() {
		c.w.complete = true
		return
	}
	if c == c.w.newest() {
		c.w.clock.after(c.w.chance.between(tick/2, 8*tick), c.w.supervise)
	}
}
