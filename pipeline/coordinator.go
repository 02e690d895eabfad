package pipeline

import (
	"errors"
	"fmt"
	"strings"

	"andrea/model"
)

// repeatTicks is after how many ticks without an answer a message is repeated.
const repeatTicks = 4

// CoordinatorEvent is what happens to a coordinator.
type CoordinatorEvent interface{ isCoordinatorEvent() }

// FromWorker is a message of a worker. Incarnation is the worker's present life.
type FromWorker struct {
	Worker      WorkerID
	Incarnation string
	Message     Message
}

// IntentDurable is the result of WriteIntent.
type IntentDurable struct{ Step int64 }

// CheckpointWritten is the result of WriteCheckpoint.
type CheckpointWritten struct {
	Step    int64
	Path    string // of its folder
	Deleted []int  // steps whose checkpoints went
	Err     error
}

// DiskFailed reports that the journal could not be written.
type DiskFailed struct{ Err error }

// StopRequested asks for a checkpoint of the last confirmed state and an end.
type StopRequested struct{ Reason string }

func (FromWorker) isCoordinatorEvent()        {}
func (IntentDurable) isCoordinatorEvent()     {}
func (CheckpointWritten) isCoordinatorEvent() {}
func (DiskFailed) isCoordinatorEvent()        {}
func (StopRequested) isCoordinatorEvent()     {}

// CoordinatorEffect is what a coordinator wants done.
type CoordinatorEffect interface{ isCoordinatorEffect() }

// Send sends a message to one life of a worker.
type Send struct {
	Worker      WorkerID
	Incarnation string
	Message     Message
}

// WriteIntent appends an intent to the journal and makes it durable. It comes back
// as IntentDurable or DiskFailed.
type WriteIntent struct{ Intent Intent }

// WriteCommit appends a commit record to the journal; the next WriteIntent or
// WriteCheckpoint makes it durable. The executor has the clock: it fills in Seconds
// and TokensPerSecond and announces the step. Only a failure comes back, as
// DiskFailed.
type WriteCommit struct{ Record CommitRecord }

// WriteCheckpoint makes the journal durable, then reads the worker's snapshot of
// state Step and writes the checkpoint in the background. It comes back as
// CheckpointWritten.
type WriteCheckpoint struct {
	Worker      WorkerID
	Incarnation string
	Step        int64
	Digest      model.Digest
}

// Announce tells people and logs what happened.
type Announce struct{ Notice Notice }

// End ends the run.
type End struct{ Outcome Outcome }

func (Send) isCoordinatorEffect()            {}
func (WriteIntent) isCoordinatorEffect()     {}
func (WriteCommit) isCoordinatorEffect()     {}
func (WriteCheckpoint) isCoordinatorEffect() {}
func (Announce) isCoordinatorEffect()        {}
func (End) isCoordinatorEffect()             {}

// Notice is something worth telling.
type Notice interface{ isNotice() }

// WorkerJoined says that a worker holds the group's state.
type WorkerJoined struct {
	Worker WorkerID
	Device string
	Step   int64
}

// StepDone is a confirmed step. Again marks one that an earlier run had recorded
// and that was recomputed to the same bits.
type StepDone struct {
	Record CommitRecord
	Again  bool
}

// WorkerRefused says why a worker was not admitted.
type WorkerRefused struct {
	Worker WorkerID
	Reason string
}

// CheckpointSaved says that a checkpoint lies on disk.
type CheckpointSaved struct {
	Step    int64
	Path    string // of its folder
	Deleted []int  // steps whose checkpoints went
}

func (WorkerJoined) isNotice()    {}
func (StepDone) isNotice()        {}
func (WorkerRefused) isNotice()   {}
func (CheckpointSaved) isNotice() {}

// Outcome is how a run ended.
type Outcome struct {
	Step       int64  // the last confirmed step
	Complete   bool   // all steps of the job are committed
	Checkpoint int64  // step of the newest checkpoint; -1 if there is none
	Stopped    string // why it ended early on request; empty if it did not
	Err        error  // why it failed; nil if it did not
}

// Start is the state that a coordinator begins from.
type Start struct {
	Step       int64        // of the checkpoint; 0: before training
	Digest     model.Digest // of the checkpoint's state; zero when there is no checkpoint
	Checkpoint bool         // state Step is a checkpoint on disk
	Class      string       // engine class that the run began with; empty: the first worker's
	Journal    *Journal     // what earlier runs recorded; only read
}

// phase says what the coordinator waits for.
type phase int

const (
	waiting      phase = iota // for a member
	computing                 // Answer
	deciding                  // IntentDurable
	applying                  // Applied
	evaluating                // Evaluated
	snapshotting              // SnapshotTaken
	saving                    // CheckpointWritten, nothing else left to do
	ended
)

var phaseNames = [...]string{"waiting for a worker", "computing", "deciding", "applying", "evaluating", "copying", "writing a checkpoint", "ended"}

// String is the phase for people.
func (p phase) String() string { return phaseNames[p] }

// member is the worker that holds the group's state.
type member struct {
	id          WorkerID
	incarnation string
	device      string
	joined      bool // false: it was welcomed and loads the state
}

// Coordinator takes a job from its start state to its last step.
type Coordinator struct {
	plan  *Plan
	start Start
	class string
	job   string // resolved job spec

	recorded Journal // what earlier runs left
	member   *member
	phase    phase

	step   int64        // last confirmed
	digest model.Digest // of state step
	intent Intent       // of step+1, from its decision until it is confirmed
	state  model.Digest // reported for step+1

	saved   int64 // newest step with a checkpoint, written or being written; -1: none
	written int64 // newest step with a checkpoint on disk; -1: none
	writing bool  // a checkpoint is being written
	stopped string
	failure error

	unanswered Message
	silent     int // ticks since unanswered was sent
}

// NewCoordinator returns a coordinator that waits for a worker.
func NewCoordinator(plan *Plan, start Start) *Coordinator {
	c := &Coordinator{
		plan: plan, start: start, class: start.Class, job: string(plan.Spec.Marshal()),
		step: start.Step, digest: start.Digest, saved: -1, written: -1,
	}
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
	Phase  string
	Step   int64 // last confirmed
	Steps  int64
	Worker WorkerID // empty: none
	Device string
	Class  string // engine class of the run; empty until a worker has joined
}

// Status says where the run is.
func (c *Coordinator) Status() Status {
	s := Status{Phase: c.phase.String(), Step: c.step, Steps: c.plan.Spec.Steps, Class: c.class}
	if c.member != nil {
		s.Worker, s.Device = c.member.id, c.member.device
	}
	return s
}

// Tick passes time: a message that was not answered for some ticks is repeated.
func (c *Coordinator) Tick() []CoordinatorEffect {
	if c.unanswered == nil || c.phase == ended {
		return nil
	}
	if c.silent++; c.silent < repeatTicks {
		return nil
	}
	return []CoordinatorEffect{c.ask(c.unanswered)}
}

// ask sends a message that will be repeated until its answer arrives.
func (c *Coordinator) ask(m Message) CoordinatorEffect {
	c.unanswered, c.silent = m, 0
	return Send{Worker: c.member.id, Incarnation: c.member.incarnation, Message: m}
}

// enter waits for something else; what was asked is answered.
func (c *Coordinator) enter(p phase) {
	c.phase, c.unanswered = p, nil
}

// Handle takes one event.
func (c *Coordinator) Handle(event CoordinatorEvent) []CoordinatorEffect {
	if c.phase == ended {
		return nil
	}
	switch e := event.(type) {
	case FromWorker:
		return c.fromWorker(e)
	case IntentDurable:
		if c.phase == deciding && e.Step == c.intent.Step {
			return c.commit()
		}
	case CheckpointWritten:
		return c.checkpointWritten(e)
	case DiskFailed:
		return c.end(fmt.Errorf("writing the journal: %w", e.Err))
	case StopRequested:
		return c.stop(e.Reason)
	}
	return nil
}

func (c *Coordinator) fromWorker(e FromWorker) []CoordinatorEffect {
	if hello, ok := e.Message.(Hello); ok {
		return c.hello(e, hello)
	}
	m := c.member
	if m == nil || e.Worker != m.id || e.Incarnation != m.incarnation {
		return nil // a former life, or nobody's
	}
	switch msg := e.Message.(type) {
	case Joined:
		return c.joined(msg)
	case Answer:
		return c.answered(msg)
	case Applied:
		return c.applied(msg)
	case Evaluated:
		return c.evaluated(msg)
	case SnapshotTaken:
		return c.snapshotTaken(msg)
	case Failed:
		return c.end(fmt.Errorf("worker %s failed: %s", m.id, msg.Reason))
	}
	return nil
}

// hello admits the first worker that fits; a repeated hello is answered again.
func (c *Coordinator) hello(e FromWorker, h Hello) []CoordinatorEffect {
	if reason := c.refusal(e, h); reason != "" {
		return []CoordinatorEffect{
			Send{Worker: e.Worker, Incarnation: e.Incarnation, Message: Refuse{reason}},
			Announce{WorkerRefused{Worker: e.Worker, Reason: reason}},
		}
	}
	if c.member == nil {
		c.class = h.Class
		c.member = &member{id: e.Worker, incarnation: e.Incarnation, device: h.Device}
	}
	if c.member.joined {
		return nil
	}
	return []CoordinatorEffect{c.ask(Welcome{Job: c.job, Step: c.step, Digest: c.digest})}
}

func (c *Coordinator) refusal(e FromWorker, h Hello) string {
	wanted := c.plan.Spec.Engine
	switch {
	case h.Protocol != Protocol:
		return fmt.Sprintf("it speaks protocol %d: this coordinator speaks %d: use one version for both", h.Protocol, Protocol)
	case wanted != "auto" && wanted != h.Class && !strings.HasPrefix(h.Class, wanted+"-"):
		return fmt.Sprintf("its engine class is %s: the job asks for %s", h.Class, wanted)
	case c.class != "" && c.class != h.Class:
		return fmt.Sprintf("its engine class is %s: the run began with %s: another class computes other bits", h.Class, c.class)
	case c.member != nil && (c.member.id != e.Worker || c.member.incarnation != e.Incarnation):
		return fmt.Sprintf("worker %s trains this run already", c.member.id)
	}
	return ""
}

func (c *Coordinator) joined(m Joined) []CoordinatorEffect {
	if c.phase != waiting || c.member.joined {
		return nil
	}
	if m.Step != c.step || c.digest != (model.Digest{}) && c.digest != m.Digest {
		return c.end(fmt.Errorf("worker %s loaded state %d with digest %s: the coordinator has state %d with digest %s", c.member.id, m.Step, m.Digest, c.step, c.digest))
	}
	c.member.joined, c.digest = true, m.Digest
	joined := Announce{WorkerJoined{Worker: c.member.id, Device: c.member.device, Step: c.step}}
	return append([]CoordinatorEffect{joined}, c.next()...)
}

// next decides what follows a confirmed state.
func (c *Coordinator) next() []CoordinatorEffect {
	switch {
	case c.checkpointDue() && c.writing:
		c.enter(saving) // one checkpoint at a time: wait for the one before
		return nil
	case c.checkpointDue():
		c.enter(snapshotting)
		return []CoordinatorEffect{c.ask(Snapshot{c.step})}
	case c.finishing() && c.writing:
		c.enter(saving)
		return nil
	case c.finishing():
		return c.end(nil)
	}
	c.enter(computing)
	return []CoordinatorEffect{c.ask(Lease{Step: c.step + 1, Lo: 0, Hi: c.plan.Spec.Batch.Lanes})}
}

// finishing reports that no further step will be computed.
func (c *Coordinator) finishing() bool {
	return c.stopped != "" || c.failure != nil || c.step >= c.plan.Spec.Steps
}

// checkpointDue reports that the confirmed state is to be written and is not.
func (c *Coordinator) checkpointDue() bool {
	if c.saved == c.step {
		return false
	}
	return c.finishing() || c.step > c.start.Step && c.step%c.plan.Spec.Checkpoint.Every == 0
}

// answered decides the step.
func (c *Coordinator) answered(a Answer) []CoordinatorEffect {
	if c.phase != computing || a.Step != c.step+1 {
		return nil
	}
	if err := c.checkAnswer(a); err != nil {
		return c.end(err)
	}
	intent, err := c.decide(a)
	if err != nil {
		return c.abandon(err)
	}
	c.intent = intent
	c.enter(deciding)
	if r := c.recorded.Step(intent.Step); r != nil {
		if d := intent.difference(r.Intent); d != "" {
			return c.end(fmt.Errorf("recomputing step %d: it differs from its record in the journal: %s: the engine, the dataset or the journal has changed", intent.Step, d))
		}
		return c.commit() // durable since an earlier run
	}
	return []CoordinatorEffect{WriteIntent{intent}}
}

// checkAnswer refuses what no correct worker sends.
func (c *Coordinator) checkAnswer(a Answer) error {
	lanes := c.plan.Spec.Batch.Lanes
	switch {
	case a.Lo != 0 || a.Hi != lanes || len(a.Lanes) != lanes:
		return fmt.Errorf("worker %s answered lanes [%d, %d) with %d losses for step %d: its lease was [0, %d)", c.member.id, a.Lo, a.Hi, len(a.Lanes), a.Step, lanes)
	case len(a.SumSquares) != c.plan.Layout.Buckets():
		return fmt.Errorf("worker %s reported %d sums of squares for step %d: the model has %d buckets", c.member.id, len(a.SumSquares), a.Step, c.plan.Layout.Buckets())
	case a.StateDigest != c.digest:
		return fmt.Errorf("worker %s computed step %d from a state with digest %s: the group's is %s: its memory or device is faulty", c.member.id, a.Step, a.StateDigest, c.digest)
	}
	perLane := int64(c.plan.Spec.Batch.TokensPerStep / lanes)
	for i, l := range a.Lanes {
		if l.Tokens != perLane {
			return fmt.Errorf("worker %s trained on %d tokens in lane %d of step %d: the lane has %d", c.member.id, l.Tokens, i, a.Step, perLane)
		}
	}
	return nil
}

// decide settles every number of the step. The error is the policy for values that
// are not finite.
func (c *Coordinator) decide(a Answer) (Intent, error) {
	spec := c.plan.Spec
	i := Intent{
		Step: a.Step, Action: ActionApply, RootDigest: a.GradDigest,
		Epoch: c.plan.Sampler.Epoch(uint64(a.Step)), LR: spec.hyper(a.Step).LR,
	}
	lease := LeaseRecord{Lo: a.Lo, Hi: a.Hi, Worker: string(c.member.id), GradDigest: a.GradDigest}
	var faulty []int
	for lane, l := range a.Lanes {
		i.LossSum += l.LossSum
		i.Tokens += l.Tokens
		lease.LossSums = append(lease.LossSums, l.LossSum)
		lease.TokenDigests = append(lease.TokenDigests, l.TokenDigest)
		if !l.LossSum.finite() {
			faulty = append(faulty, lane)
		}
	}
	i.Leases = []LeaseRecord{lease}
	norm := gradNorm(a.SumSquares, i.Tokens)
	i.GradNorm = Float(norm)
	if i.LossSum.finite() && i.GradNorm.finite() {
		i.Scale = spec.scale(norm, i.Tokens)
		return i, nil
	}
	if spec.OnNonfinite == OnNonfiniteStop {
		return Intent{}, fmt.Errorf("step %d is not finite: loss sum %v (lanes %v), gradient norm %v: the state before it is kept: lower optimizer.lr, or set on_nonfinite: skip", i.Step, i.LossSum, faulty, i.GradNorm)
	}
	i.Action = ActionSkip
	return i, nil
}

// commit orders the update that the durable intent describes.
func (c *Coordinator) commit() []CoordinatorEffect {
	c.enter(applying)
	i := c.intent
	return []CoordinatorEffect{c.ask(Commit{Step: i.Step, Action: i.Action, RootDigest: i.RootDigest, Scale: i.Scale, Hyper: c.plan.Spec.hyper(i.Step)})}
}

func (c *Coordinator) applied(m Applied) []CoordinatorEffect {
	if c.phase != applying || m.Step != c.intent.Step {
		return nil
	}
	if c.intent.Action == ActionSkip && m.Digest != c.digest {
		return c.end(fmt.Errorf("worker %s reports a state with digest %s after step %d, which was skipped: the state before has %s: its memory or device is faulty", c.member.id, m.Digest, m.Step, c.digest))
	}
	c.state = m.Digest
	if c.evalDue(m.Step) {
		c.enter(evaluating)
		return []CoordinatorEffect{c.ask(Eval{Step: m.Step, Windows: len(c.plan.ValidationWindows)})}
	}
	return c.confirm(nil)
}

// evalDue reports that step's record carries a validation loss.
func (c *Coordinator) evalDue(step int64) bool {
	every := c.plan.Spec.Eval.Every
	return len(c.plan.ValidationWindows) > 0 && (step%every == 0 || step == c.plan.Spec.Steps)
}

func (c *Coordinator) evaluated(m Evaluated) []CoordinatorEffect {
	if c.phase != evaluating || m.Step != c.intent.Step {
		return nil
	}
	windows := len(c.plan.ValidationWindows)
	if tokens := int64(windows) * int64(c.plan.Model.Context); len(m.Sums) != windows || m.Tokens != tokens {
		return c.end(fmt.Errorf("worker %s evaluated %d windows of %d tokens in all for step %d: it was asked for %d of %d", c.member.id, len(m.Sums), m.Tokens, m.Step, windows, tokens))
	}
	var sum Float
	for _, s := range m.Sums {
		sum += s
	}
	mean := sum / Float(m.Tokens)
	return c.confirm(&mean)
}

// confirm closes the step: its record follows, or is compared with the one that an
// earlier run left.
func (c *Coordinator) confirm(valLoss *Float) []CoordinatorEffect {
	i := c.intent
	record := CommitRecord{
		Kind: kindCommit, Step: i.Step, Loss: i.LossSum / Float(i.Tokens), ValLoss: valLoss,
		GradNorm: i.GradNorm, LR: i.LR, Tokens: i.Tokens, Epoch: i.Epoch, StateDigest: c.state,
	}
	closing := CoordinatorEffect(WriteCommit{Record: record})
	if r := c.recorded.Step(i.Step); r != nil && r.Commit != nil {
		if d := record.difference(*r.Commit); d != "" {
			return c.end(fmt.Errorf("recomputing step %d: it differs from its record in the journal: %s: the engine, the dataset or the journal has changed", i.Step, d))
		}
		closing = Announce{StepDone{Record: *r.Commit, Again: true}}
	}
	c.step, c.digest = i.Step, c.state
	return append([]CoordinatorEffect{closing}, c.next()...)
}

func (c *Coordinator) snapshotTaken(m SnapshotTaken) []CoordinatorEffect {
	if c.phase != snapshotting || m.Step != c.step {
		return nil
	}
	if m.Digest != c.digest {
		return c.end(fmt.Errorf("worker %s copied state %d with digest %s: the group's is %s: its memory or device is faulty", c.member.id, m.Step, m.Digest, c.digest))
	}
	c.saved, c.writing = c.step, true
	write := WriteCheckpoint{Worker: c.member.id, Incarnation: c.member.incarnation, Step: c.step, Digest: c.digest}
	return append([]CoordinatorEffect{write}, c.next()...)
}

func (c *Coordinator) checkpointWritten(e CheckpointWritten) []CoordinatorEffect {
	c.writing = false
	if e.Err != nil {
		return c.end(fmt.Errorf("writing the checkpoint of step %d: %w", e.Step, e.Err))
	}
	c.written = max(c.written, e.Step)
	effects := []CoordinatorEffect{Announce{CheckpointSaved{Step: e.Step, Path: e.Path, Deleted: e.Deleted}}}
	if c.phase == saving {
		return append(effects, c.next()...)
	}
	return effects
}

// stop ends the run at the last confirmed state: a step in flight whose intent is
// not decided is given up, a decided one is finished first.
func (c *Coordinator) stop(reason string) []CoordinatorEffect {
	if c.stopped != "" {
		return nil
	}
	c.stopped = reason
	switch c.phase {
	case waiting:
		return c.end(nil) // nobody holds a state that could be written
	case computing:
		return append([]CoordinatorEffect{c.cancel()}, c.next()...)
	}
	return nil
}

func (c *Coordinator) cancel() CoordinatorEffect {
	return Send{Worker: c.member.id, Incarnation: c.member.incarnation, Message: Cancel{c.step + 1}}
}

// abandon ends the run with an error, after a checkpoint of the state before it.
func (c *Coordinator) abandon(err error) []CoordinatorEffect {
	c.failure = err
	return append([]CoordinatorEffect{c.cancel()}, c.next()...)
}

// end ends the run now.
func (c *Coordinator) end(err error) []CoordinatorEffect {
	c.enter(ended)
	err = errors.Join(c.failure, err)
	o := Outcome{Step: c.step, Complete: err == nil && c.step >= c.plan.Spec.Steps, Checkpoint: c.written, Stopped: c.stopped, Err: err}
	var effects []CoordinatorEffect
	if c.member != nil {
		effects = append(effects, Send{Worker: c.member.id, Incarnation: c.member.incarnation, Message: Finish{Complete: o.Complete, Reason: o.reason()}})
	}
	return append(effects, End{o})
}

func (o Outcome) reason() string {
	if o.Err != nil {
		return o.Err.Error()
	}
	return o.Stopped
}
