package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"andrea/model"
)

// Times in ticks, each half a second.
const (
	// LostTicks is how long a worker may give no sign of life, three heartbeats, before it
	// is lost.
	LostTicks = 4
	// restartTicks is how long a worker may give no sign of life until another process can take its
	// place.
	restartTicks = 2
	// contestTicks is how long two processes may want to be one worker before it is announced.
	contestTicks = 8
	// repeatTicks is after how long without an answer a message is repeated.
	repeatTicks = 3
	// gatherTicks is how long a coordinator waits for the workers that may hold a newer
	// state than the newest checkpoint, from the first hello on.
	gatherTicks = 6
	// momentTicks is how long it waits at least when nobody holds the newest state.
	momentTicks = 2
	// beginTicks is how long the first members wait for the others to begin with.
	beginTicks = 60
	// joinTicks is how long a step that is ready to be decided waits for joiners to finish
	// loading the state before it.
	joinTicks = 120
)

// phase says what the coordinator waits for.
type phase int

const (
	gathering    phase = iota // hellos, to choose the state to go on from
	waiting                   // workers to load it
	computing                 // Answers
	reducing                  // Reduced, and joiners that load the state before the step
	deciding                  // IntentDurable
	applying                  // Applied
	evaluating                // Evaluated
	snapshotting              // SnapshotTaken
	saving                    // CheckpointWritten, nothing else left to do
	ended
)

var phaseNames = [...]string{"waiting for workers", "loading", "computing", "summing gradients", "deciding", "applying", "evaluating", "copying", "writing a checkpoint", "ended"}

// String is the phase for people.
func (p phase) String() string { return phaseNames[p] }

// Coordinator takes a job from its start state to its last step.
type Coordinator struct {
	plan  *Plan
	start Start
	class string
	job   string // resolved job spec

	recorded Journal // all that the run has recorded, durable when it is acted on
	phase    phase
	members  members // welcomed, in the order in which they came
	outside  members // said hello and wait
	tickets  int64   // given so far

	begun    bool       // the first members have been waited for
	expected []WorkerID // may hold the newest state, while gathering
	waited   int        // ticks in this phase, while gathering and waiting, and for joiners
	wanted   int        // members to begin with, while waiting
	complete bool       // state step was decided, and is to be confirmed and recorded yet

	step   int64        // last confirmed
	digest model.Digest // of state step

	round       int      // of the leases of step+1
	shares      []*share // of step+1, by lane
	attempt     int      // of all reductions
	anticipated bool     // the executor knows which contributions to expect
	reduced     *Reduced // of step+1
	doubted     int64    // step whose gradient norm was no number, and that was computed twice
	whole       int64    // step that is computed as one lease, by two or three: nobody had room to judge its parts
	leftOut     int      // audits that there was nobody for, or no room
	exchange    exchange // what the transport costs

	intent   Intent       // of step+1, from its decision until it is confirmed
	state    model.Digest // that most members report for step+1, once all have
	reported []report     // for step+1
	losses   []Float      // of the validation windows in state step+1, in window order

	saved   checkpoint // newest with a checkpoint, written or being written
	written checkpoint // newest with a checkpoint on disk
	writing bool       // a checkpoint is being written
	faults  int        // workers that failed since the last confirmed step
	nobody  string     // why no worker will come any more; empty: some may
	stopped string
	failure error
}

// checkpoint is a state that is on disk; step -1: there is none.
type checkpoint struct {
	step   int64
	digest model.Digest
}

// report is one member's digest of a new state.
type report struct {
	member *member
	digest model.Digest
}

// NewCoordinator returns a coordinator that gathers workers.
func NewCoordinator(plan *Plan, start Start) *Coordinator {
	c := &Coordinator{
		plan: plan, start: start, class: start.Class, job: string(plan.Spec.Marshal()),
		step: start.Step, digest: start.Digest, saved: checkpoint{step: -1}, written: checkpoint{step: -1},
	}
	c.start.Workers = max(1, start.Workers)
	if c.start.Silence == 0 {
		c.start.Silence = LostTicks
	}
	if start.Journal != nil {
		c.recorded = *start.Journal
		c.recorded.Steps = slices.Clone(start.Journal.Steps) // the executor appends to its own
	}
	if start.Checkpoint {
		c.written = checkpoint{start.Step, start.Digest}
		c.saved = c.written
	}
	for step := start.Step + 1; step <= c.recorded.Last() && !start.Alone; step++ { // any of them may have recomputed the newest
		for _, l := range c.recorded.Step(step).Intent.Leases {
			c.expect(WorkerID(l.Worker))
		}
	}
	return c
}

// expect waits for a worker while gathering.
func (c *Coordinator) expect(id WorkerID) {
	if !slices.Contains(c.expected, id) {
		c.expected = append(c.expected, id)
	}
}

// Tick passes time: messages that were not answered for some ticks are repeated, and
// workers that gave no sign of life, or get nothing done, are given up.
func (c *Coordinator) Tick() (effects []CoordinatorEffect) {
	if c.phase == ended {
		return nil
	}
	c.outside = c.outside.age()
	for _, m := range slices.Clone(c.members) {
		if c.members.find(m.id) != m {
			continue // it went with another one
		}
		if reason := m.age(c.start.Silence); reason != "" {
			effects = append(effects, c.lost(m, reason)...)
		}
		if c.phase == ended {
			return effects
		}
	}
	if effects = append(effects, c.deserted()...); c.phase == ended {
		return effects
	}
	c.waited++
	effects = append(effects, c.onTime()...)
	for _, m := range c.members {
		if m.unanswered == nil {
			continue
		}
		if m.silent++; m.silent >= repeatTicks {
			effects = append(effects, m.ask(m.unanswered))
		}
	}
	return effects
}

// onTime does what becomes due by waiting.
func (c *Coordinator) onTime() []CoordinatorEffect {
	switch c.phase {
	case gathering:
		if len(c.outside) == 0 {
			c.waited = 0 // the time counts from the first hello
		}
		return c.gather()
	case waiting:
		return c.begin()
	case computing:
		for _, s := range c.shares {
			s.since++
		}
		return c.assign()
	case reducing:
		return c.decide()
	}
	return nil
}

// enter waits for something else. What members still compute of the step goes on while it is
// summed: it takes room of theirs, and may differ from what counts.
func (c *Coordinator) enter(p phase) {
	c.phase, c.waited = p, 0
	for _, m := range c.members {
		if m.joined && (m.share == nil || p != computing && p != reducing) {
			m.settle()
		}
	}
}

// Handle takes one event.
func (c *Coordinator) Handle(event CoordinatorEvent) []CoordinatorEffect {
	if c.phase == ended {
		return nil
	}
	switch e := event.(type) {
	case FromWorker:
		return c.fromWorker(e)
	case Reduced:
		return c.summed(e)
	case IntentDurable:
		if c.phase == deciding && e.Step == c.intent.Step {
			return c.commit()
		}
	case CheckpointWritten:
		return c.checkpointWritten(e)
	case DiskFailed:
		return c.interrupt("its disk failed", fmt.Errorf("writing the journal: %w", e.Err))
	case Superseded:
		return c.interrupt("a later coordinator has taken the run over", e.Err)
	case WorkerLost:
		return c.processEnded(e)
	case NobodyComes:
		c.nobody = e.Reason
		return c.deserted()
	case StopRequested:
		return c.stop(e.Reason)
	case Paused:
		c.members.forgive()
		c.outside.forgive()
	}
	return nil
}

func (c *Coordinator) fromWorker(e FromWorker) []CoordinatorEffect {
	if hello, ok := e.Message.(Hello); ok {
		return c.hello(e, hello)
	}
	m := c.members.find(e.Worker)
	if m == nil || e.Incarnation != m.incarnation || e.Ticket != m.ticket {
		return c.stranger(e)
	}
	m.quiet = 0
	switch msg := e.Message.(type) {
	case Heartbeat:
		m.advanced(msg.Progress)
	case Joined:
		return c.joined(m, msg)
	case Answer:
		return c.answer(m, msg)
	case Applied:
		return c.applied(m, msg)
	case Evaluated:
		return c.evaluated(m, msg)
	case SnapshotTaken:
		return c.snapshotTaken(m, msg)
	case Leaving:
		return c.leaving(m, msg)
	case Failed:
		return c.failed(m, msg)
	}
	return nil
}

// stranger tells a worker whose membership has ended, and who seems not to know, to say
// hello again.
func (c *Coordinator) stranger(e FromWorker) []CoordinatorEffect {
	if _, alive := e.Message.(Heartbeat); !alive {
		return nil
	}
	return []CoordinatorEffect{Send{Worker: e.Worker, Incarnation: e.Incarnation, Ticket: e.Ticket, Message: Rejoin{"the coordinator had lost it"}}}
}

// failed takes the leave of a worker that cannot go on. A fault that follows the job, not the
// worker, would go round for ever.
func (c *Coordinator) failed(m *member, msg Failed) []CoordinatorEffect {
	effects := c.dismiss(m, "failed: "+msg.Reason, nil, false)
	const maxFaults = 8
	if c.faults++; c.faults >= maxFaults && c.phase != ended {
		return append(effects, c.end(fmt.Errorf("%d workers failed in step %d, the last one, %s: %s", c.faults, c.step+1, m.id, msg.Reason))...)
	}
	return effects
}

// processEnded takes in that a worker's process is known to have ended.
func (c *Coordinator) processEnded(e WorkerLost) []CoordinatorEffect {
	c.outside = c.outside.without(c.outside.find(e.Worker))
	if e.GivenUp && !c.begun { // the others need not wait for it
		c.start.Workers = max(1, c.start.Workers-1)
		c.wanted = min(c.wanted, c.start.Workers)
	}
	if m := c.members.find(e.Worker); m != nil {
		return c.lost(m, "was lost: "+e.Reason)
	}
	return c.begin()
}

// deserted ends a run that has no workers left and will have none. A hello that one of them said
// before it ended may still be remembered; one that joins all the same is of somebody else.
func (c *Coordinator) deserted() []CoordinatorEffect {
	if c.nobody == "" || len(c.members)+len(c.outside) > 0 {
		return nil
	}
	return c.end(errors.New(c.nobody))
}
