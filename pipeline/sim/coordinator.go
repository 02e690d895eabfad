package sim

import (
	"andrea/model"
	"andrea/pipeline"
)

// coordinator is a process that runs a coordinator.
type coordinator struct {
	w          *world
	generation uint64
	machine    *pipeline.Coordinator
	alive      bool
	ended      int64 // when it died
	paused     bool
	inbox      []pipeline.CoordinatorEvent // while it is paused
	fuse       int                         // effects until it dies; -1: it does not

	file    *journalFile
	journal *pipeline.Journal
	intents map[int64]pipeline.Intent // durable ones

	root      root
	reduction *pipeline.Reduce  // under way; nil: none
	overdue   *pipeline.Reduced // the result of one that was taken back, to be told during the next
	writing   *pipeline.WriteCheckpoint
	outcome   *pipeline.Outcome
	outside   map[pipeline.WorkerID]claim        // what those say that are not welcomed
	holders   map[pipeline.WorkerID]bool         // members with the state
	copies    map[pipeline.WorkerID]model.Digest // of the last copies that workers took, as they say
	lives     map[pipeline.WorkerID]string       // of the members
	asked     map[pipeline.WorkerID]*asking      // what members were asked last
	awaited   map[pipeline.WorkerID]bool         // may hold the newest state; nil: it has chosen
	greeted   int64                              // when the first hello came; 0: none has
	step      int64                              // last confirmed
	alone     int64                              // newest step in which there were fewer than two, at some time
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
	c := &coordinator{w: w, generation: w.disk.claims, alive: true, fuse: -1, intents: map[int64]pipeline.Intent{},
		outside: map[pipeline.WorkerID]claim{}, holders: map[pipeline.WorkerID]bool{}, copies: map[pipeline.WorkerID]model.Digest{},
		lives: map[pipeline.WorkerID]string{}, asked: map[pipeline.WorkerID]*asking{}, awaited: map[pipeline.WorkerID]bool{}}
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
		c.step = step
	}
	for _, r := range journal.Steps[max(0, start.Step):] {
		for _, lease := range r.Intent.Leases {
			c.awaited[pipeline.WorkerID(lease.Worker)] = true
		}
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
		effects := c.machine.Handle(e)
		c.w.judgeTwin(c, e, effects)
		c.execute(effects)
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
	c.alive, c.ended = false, c.w.clock.now
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
		if r := c.overdue; r != nil {
			c.overdue = nil
			c.later(c.w.chance.between(1, 5), *r)
		}
		c.pull(&e, 0, make([][]float32, len(e.Contributions)))
	case pipeline.CancelReduce:
		c.reduction = nil
	case pipeline.WriteIntent:
		c.writeIntent(e)
	case pipeline.WriteCommit:
		c.writeCommit(e)
	case pipeline.WriteCheckpoint:
		if c.copies[e.Worker] != e.Digest {
			c.w.failf("the checkpoint of step %d is written from a copy that %s says is another state", e.Step, e.Worker)
		}
		c.file.durable = len(c.file.data)
		c.writing = &e
		c.copy(&e, 0, saved{})
	case pipeline.Announce:
		c.announce(e.Notice)
	case pipeline.End:
		c.outcome = &e.Outcome
		c.w.tracef("coordinator %d ends with %+v", c.generation, e.Outcome)
		c.close()
	}
}

func (c *coordinator) send(e pipeline.Send) {
	c.w.tracef("coordinator %d -> %s %s/%d %T %+v", c.generation, e.Worker, e.Incarnation, e.Ticket, e.Message, e.Message)
	k := c.w.worker(e.Worker)
	c.w.judgeSend(c, e)
	received := pipeline.Received{Membership: pipeline.Membership{Generation: c.generation, Ticket: e.Ticket}, Message: e.Message}
	asked := c.ask(e)
	c.w.network.send(k, true, func() {
		if k.incarnation() == e.Incarnation {
			asked.arrive(c.w.clock.now)
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
	c.step = e.Record.Step
	c.count()
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
		c.step = n.Record.Step
	case pipeline.WorkerJoined:
		c.holders[n.Worker] = true
	case pipeline.StateChosen:
		c.w.judgeChosen(c, n)
		c.step = n.Step
	case pipeline.WorkerLeft:
		c.w.judgeLeft(c, n)
		delete(c.holders, n.Worker)
	}
	c.count()
	c.w.tracef("coordinator %d: %T %+v", c.generation, n, n)
}

// count notes when there is nobody to give a second opinion in the step in flight.
func (c *coordinator) count() {
	if len(c.holders) < 2 {
		c.alone = c.step + 1
	}
}

// close takes the outcome; the supervisor decides whether the run goes on.
func (c *coordinator) close() {
	c.w.judgeOutcome(c, *c.outcome)
	c.alive, c.ended = false, c.w.clock.now
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
