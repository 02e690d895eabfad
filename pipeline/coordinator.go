package pipeline

import (
	"fmt"

	"andrea/model"
)

// repeatTicks is after how many ticks without an answer a message is repeated.
const repeatTicks = 4

// lostTicks is after how many ticks without a sign of life a worker is given up.
const lostTicks = 20

// phase says what the coordinator waits for.
type phase int

const (
	waiting      phase = iota // for workers
	computing                 // Answers
	reducing                  // Reduced
	deciding                  // IntentDurable
	applying                  // Applied
	evaluating                // Evaluated
	snapshotting              // SnapshotTaken
	saving                    // CheckpointWritten, nothing else left to do
	ended
)

var phaseNames = [...]string{"waiting for workers", "computing", "summing gradients", "deciding", "applying", "evaluating", "copying", "writing a checkpoint", "ended"}

// String is the phase for people.
func (p phase) String() string { return phaseNames[p] }

// Coordinator takes a job from its start state to its last step.
type Coordinator struct {
	plan  *Plan
	start Start
	class string
	job   string // resolved job spec

	recorded Journal // what earlier runs left
	members  members
	phase    phase

	step   int64        // last confirmed
	digest model.Digest // of state step

	answers  []answered   // for step+1, by lane once all are in
	intent   Intent       // of step+1, from its decision until it is confirmed
	state    model.Digest // reported for step+1
	reporter WorkerID     // of state, first
	losses   []Float      // of the validation windows in state step+1, in window order

	saved   int64 // newest step with a checkpoint, written or being written; -1: none
	written int64 // newest step with a checkpoint on disk; -1: none
	writing bool  // a checkpoint is being written
	stopped string
	failure error
}

// NewCoordinator returns a coordinator that waits for workers.
func NewCoordinator(plan *Plan, start Start) *Coordinator {
	c := &Coordinator{
		plan: plan, start: start, class: start.Class, job: string(plan.Spec.Marshal()),
		step: start.Step, digest: start.Digest, saved: -1, written: -1,
	}
	c.start.Workers = max(1, start.Workers)
	if start.Journal != nil {
		c.recorded = *start.Journal // the executor appends to its own
	}
	if start.Checkpoint {
		c.saved, c.written = start.Step, start.Step
	}
	return c
}

// Status is a coordinator at a glance.
type Status struct {
	Phase   string
	Step    int64 // last confirmed
	Steps   int64
	Workers []WorkerStatus // in the order in which they came
	Class   string         // engine class of the run; empty until a worker has come
}

// WorkerStatus is a worker at a glance.
type WorkerStatus struct {
	Worker WorkerID
	Device string
	Joined bool // it holds the group's state
}

// Status says where the run is.
func (c *Coordinator) Status() Status {
	s := Status{Phase: c.phase.String(), Step: c.step, Steps: c.plan.Spec.Steps, Class: c.class}
	for _, m := range c.members {
		s.Workers = append(s.Workers, WorkerStatus{Worker: m.id, Device: m.device, Joined: m.joined})
	}
	return s
}

// Tick passes time: messages that were not answered for some ticks are repeated, and
// workers that gave no sign of life for many are given up.
func (c *Coordinator) Tick() (effects []CoordinatorEffect) {
	if c.phase == ended {
		return nil
	}
	for _, m := range c.members {
		if m.quiet++; m.quiet >= lostTicks {
			return c.lost(m, "was lost: it has given no sign of life")
		}
	}
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

// enter waits for something else.
func (c *Coordinator) enter(p phase) {
	c.phase = p
	for _, m := range c.members {
		m.unanswered = nil
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
		return c.reduced(e)
	case IntentDurable:
		if c.phase == deciding && e.Step == c.intent.Step {
			return c.commit()
		}
	case CheckpointWritten:
		return c.checkpointWritten(e)
	case DiskFailed:
		return c.end(fmt.Errorf("writing the journal: %w", e.Err))
	case WorkerLost:
		if m := c.members.find(e.Worker); m != nil {
			return c.lost(m, "was lost: "+e.Reason)
		}
		return c.failEarly(fmt.Errorf("worker %s was lost before it joined: %s", e.Worker, e.Reason))
	case StopRequested:
		return c.stop(e.Reason)
	}
	return nil
}

func (c *Coordinator) fromWorker(e FromWorker) []CoordinatorEffect {
	if hello, ok := e.Message.(Hello); ok {
		return c.hello(e, hello)
	}
	m := c.members.find(e.Worker)
	if m == nil || e.Incarnation != m.incarnation {
		return nil // a former life, or nobody's
	}
	m.quiet = 0
	switch msg := e.Message.(type) {
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
	case Failed:
		return c.lost(m, "failed: "+msg.Reason)
	}
	return nil
}
