package pipeline

import (
	"fmt"

	"andrea/model"
)

// WorkerEvent is what happens to a worker: a message of the coordinator, or the
// result of an effect.
type WorkerEvent interface{ isWorkerEvent() }

// Received is a message of the coordinator.
type Received struct{ Message Message }

// StateLoaded is the result of LoadState.
type StateLoaded struct{ Digest model.Digest }

// Accumulated is the result of Accumulate.
type Accumulated struct {
	Loss        model.Loss
	TokenDigest model.Digest // of the microbatch, at its place in the lane
}

// Measured is the result of Measure.
type Measured struct {
	StateDigest model.Digest
	GradDigest  model.Digest
	SumSquares  []Float
}

// RootPulled is the result of PullRoot.
type RootPulled struct{ Digest model.Digest }

// Updated is the result of Update.
type Updated struct{ Digest model.Digest }

// WindowEvaluated is the result of EvalWindow.
type WindowEvaluated struct{ Loss model.Loss }

// SnapshotCopied is the result of TakeSnapshot.
type SnapshotCopied struct{}

// WorkFailed is the result of any effect that could not be done.
type WorkFailed struct{ Err error }

func (Received) isWorkerEvent()        {}
func (StateLoaded) isWorkerEvent()     {}
func (Accumulated) isWorkerEvent()     {}
func (Measured) isWorkerEvent()        {}
func (RootPulled) isWorkerEvent()      {}
func (Updated) isWorkerEvent()         {}
func (WindowEvaluated) isWorkerEvent() {}
func (SnapshotCopied) isWorkerEvent()  {}
func (WorkFailed) isWorkerEvent()      {}

// WorkerEffect is what a worker wants done. Handle and Tick return Reply and Leave;
// Work returns the others, of which all but Zero and Fold come back as an event, or
// as WorkFailed.
type WorkerEffect interface{ isWorkerEffect() }

// Reply sends a message to the coordinator.
type Reply struct{ Message Message }

// OpenEngine allocates an engine for the job and loads state Step into it: from the
// coordinator when it is Stored there, else from the seed. It comes back as
// StateLoaded.
type OpenEngine struct {
	Job    JobSpec
	Step   int64
	Stored bool
}

// Zero sets a gradient slot to +0.
type Zero struct{ Slot int }

// Accumulate fetches the tokens of one microbatch and adds its gradient to a slot.
type Accumulate struct {
	Slot       int
	Step       int64
	Lane       int
	Microbatch int
}

// Fold adds slot Src to slot Dst.
type Fold struct{ Dst, Src int }

// Measure takes the digests of the state and of slot 0, and, with SumSquares, the
// latter's sums of squares.
type Measure struct{ SumSquares bool }

// PullRoot replaces slot 0 by the root of Step, which the coordinator has summed.
type PullRoot struct{ Step int64 }

// Update applies the root in slot 0.
type Update struct {
	Scale float32
	Hyper model.Hyper
}

// EvalWindow fetches validation window Window, a number in the evaluation's order,
// and computes its loss.
type EvalWindow struct{ Window int }

// TakeSnapshot copies the state for a checkpoint.
type TakeSnapshot struct{ Step int64 }

// Leave ends the worker: Err is nil when the run ended as it should.
type Leave struct{ Err error }

func (Reply) isWorkerEffect()        {}
func (OpenEngine) isWorkerEffect()   {}
func (Zero) isWorkerEffect()         {}
func (Accumulate) isWorkerEffect()   {}
func (Fold) isWorkerEffect()         {}
func (Measure) isWorkerEffect()      {}
func (PullRoot) isWorkerEffect()     {}
func (Update) isWorkerEffect()       {}
func (EvalWindow) isWorkerEffect()   {}
func (TakeSnapshot) isWorkerEffect() {}
func (Leave) isWorkerEffect()        {}

// Worker computes leases on one replica. It has one task at a time; the coordinator
// may repeat a message, and a finished task is answered again from memory.
//
// Its loop is: Handle every message that has arrived, then execute what Work
// returns and Handle the result, and so on. So a message waits for one microbatch
// at most, and a cancelled task leaves nothing behind.
type Worker struct {
	hello Hello
	job   JobSpec

	microbatches int // of a lane

	opened bool // an engine was asked for
	joined bool // the engine holds state step
	step   int64
	digest model.Digest

	task     task           // nil: idle
	answer   *Answer        // of step+1, kept until it is committed or cancelled
	applied  Applied        // of step; the zero value before the first update
	eval     *Evaluated     // of step
	snapshot *SnapshotTaken // the newest
	left     bool

	work []WorkerEffect // of the task, to be executed next
}

// task is what the engine is busy with.
type task interface{ isTask() }

// leaseTask walks the microbatches of a lease's lanes in order.
type leaseTask struct {
	lease      Lease
	stack      int // slots in use below the lane's
	microbatch int
	lanes      []LaneResult
	current    LaneResult
}

// commitTask waits for an update.
type commitTask struct{ commit Commit }

// evalTask walks the validation windows.
type evalTask struct {
	eval Eval
	done Evaluated
}

// snapshotTask waits for a copy.
type snapshotTask struct{ step int64 }

func (*leaseTask) isTask()    {}
func (*commitTask) isTask()   {}
func (*evalTask) isTask()     {}
func (*snapshotTask) isTask() {}

// NewWorker returns a worker that says hello with its first tick.
func NewWorker(class, device string) *Worker {
	return &Worker{hello: Hello{Protocol: Protocol, Class: class, Device: device}}
}

// Tick repeats the hello until the worker is welcomed.
func (w *Worker) Tick() []WorkerEffect {
	if w.opened || w.left {
		return nil
	}
	return []WorkerEffect{Reply{w.hello}}
}

// Handle takes one event.
func (w *Worker) Handle(event WorkerEvent) []WorkerEffect {
	if w.left {
		return nil
	}
	switch e := event.(type) {
	case Received:
		return w.receive(e.Message)
	case StateLoaded:
		return w.stateLoaded(e)
	case Accumulated:
		return w.accumulated(e)
	case Measured:
		return w.measured(e)
	case RootPulled:
		return w.rootPulled(e)
	case Updated:
		return w.updated(e)
	case WindowEvaluated:
		return w.windowEvaluated(e)
	case SnapshotCopied:
		return w.snapshotCopied()
	case WorkFailed:
		return w.fail(e.Err)
	}
	return nil
}

// Work returns what the engine shall do next; nothing when the worker is idle.
func (w *Worker) Work() []WorkerEffect {
	work := w.work
	w.work = nil
	return work
}

// do makes effects the next work.
func (w *Worker) do(effects ...WorkerEffect) []WorkerEffect {
	w.work = effects
	return nil
}

// fail tells the coordinator and leaves.
func (w *Worker) fail(err error) []WorkerEffect {
	w.left, w.work = true, nil
	return []WorkerEffect{Reply{Failed{Reason: err.Error()}}, Leave{Err: err}}
}

func (w *Worker) receive(m Message) []WorkerEffect {
	switch m := m.(type) {
	case Welcome:
		return w.welcomed(m)
	case Refuse:
		w.left, w.work = true, nil
		return []WorkerEffect{Leave{Err: fmt.Errorf("joining the run: the coordinator refused: %s", m.Reason)}}
	case Finish:
		w.left, w.work = true, nil
		return []WorkerEffect{Leave{Err: finishError(m)}}
	}
	if !w.joined {
		return nil // a message to a former life
	}
	switch m := m.(type) {
	case Lease:
		return w.lease(m)
	case Cancel:
		w.cancel(m)
	case Commit:
		return w.commit(m)
	case Eval:
		return w.evaluate(m)
	case Snapshot:
		return w.takeSnapshot(m)
	}
	return nil
}

// ErrStopped is why a worker leaves a run that ended before its last step.
type ErrStopped struct{ Reason string }

// Error implements error.
func (e ErrStopped) Error() string { return "the run ended early: " + e.Reason }

func finishError(m Finish) error {
	if m.Complete {
		return nil
	}
	return ErrStopped{m.Reason}
}

func (w *Worker) welcomed(m Welcome) []WorkerEffect {
	if w.joined {
		return []WorkerEffect{Reply{Joined{w.step, w.digest}}}
	}
	if w.opened {
		return nil // still loading
	}
	job, err := ParseJobSpec([]byte(m.Job))
	if err != nil {
		return w.fail(fmt.Errorf("joining the run: its job spec cannot be read: %w", err))
	}
	if w.microbatches, err = job.microbatchesPerLane(); err != nil {
		return w.fail(fmt.Errorf("joining the run: %w", err))
	}
	w.job, w.opened, w.step, w.digest = job, true, m.Step, m.Digest
	return w.do(OpenEngine{Job: job, Step: m.Step, Stored: m.Stored})
}

func (w *Worker) stateLoaded(e StateLoaded) []WorkerEffect {
	if known := w.digest != (model.Digest{}); known && w.digest != e.Digest {
		return w.fail(fmt.Errorf("loading state %d: its digest is %s: the coordinator said %s: the transfer or the checkpoint is damaged", w.step, e.Digest, w.digest))
	}
	w.digest, w.joined = e.Digest, true
	return []WorkerEffect{Reply{Joined{w.step, w.digest}}}
}

// lease starts a lease, or answers it again.
func (w *Worker) lease(m Lease) []WorkerEffect {
	if w.answer != nil && w.answer.Step == m.Step && w.answer.Lo == m.Lo && w.answer.Hi == m.Hi {
		return []WorkerEffect{Reply{*w.answer}}
	}
	if w.task != nil || m.Step != w.step+1 || !m.subtree(w.job.Batch.Lanes) {
		return nil // busy with it already, or out of place
	}
	t := &leaseTask{lease: m}
	w.task = t
	return w.do(Zero{0}, t.next())
}

// subtree reports that the lease is a whole subtree of the reduction tree over lanes:
// an aligned range whose size is a power of two. The lanes of any other have no sum.
func (m Lease) subtree(lanes int) bool {
	size := m.Hi - m.Lo
	return m.Lo >= 0 && m.Lo < m.Hi && m.Hi <= lanes && size&(size-1) == 0 && m.Lo%size == 0
}

// whole reports that the lease is the whole tree: its contribution is the root.
func (m Lease) whole(lanes int) bool { return m.Lo == 0 && m.Hi == lanes }

// slot is where the current lane accumulates.
func (t *leaseTask) slot() int { return t.stack }

// lane is the number of the current lane.
func (t *leaseTask) lane() int { return t.lease.Lo + len(t.lanes) }

func (t *leaseTask) next() WorkerEffect {
	return Accumulate{Slot: t.slot(), Step: t.lease.Step, Lane: t.lane(), Microbatch: t.microbatch}
}

func (w *Worker) accumulated(e Accumulated) []WorkerEffect {
	t, ok := w.task.(*leaseTask)
	if !ok {
		return nil
	}
	t.current.LossSum += Float(e.Loss.Sum)
	t.current.Tokens += e.Loss.Tokens
	t.current.TokenDigest = t.current.TokenDigest.Add(e.TokenDigest)
	t.microbatch++
	if t.microbatch < w.microbatches {
		return w.do(t.next())
	}
	return w.do(t.laneDone(w.job.Batch.Lanes)...)
}

// laneDone folds the finished lane into the tree: a binary counter of slots, in
// which slot i holds a complete subtree to the left of slot i+1's.
func (t *leaseTask) laneDone(lanes int) (effects []WorkerEffect) {
	t.lanes = append(t.lanes, t.current)
	t.current, t.microbatch = LaneResult{}, 0
	t.stack++
	for n := len(t.lanes); n%2 == 0; n /= 2 {
		t.stack--
		effects = append(effects, Fold{Dst: t.stack - 1, Src: t.stack})
	}
	if t.lane() == t.lease.Hi {
		return append(effects, Measure{SumSquares: t.lease.whole(lanes)})
	}
	return append(effects, Zero{t.slot()}, t.next())
}

func (w *Worker) measured(e Measured) []WorkerEffect {
	t, ok := w.task.(*leaseTask)
	if !ok {
		return nil
	}
	w.task = nil
	w.answer = &Answer{
		Step: t.lease.Step, Lo: t.lease.Lo, Hi: t.lease.Hi, Lanes: t.lanes,
		StateDigest: e.StateDigest, GradDigest: e.GradDigest, SumSquares: e.SumSquares,
	}
	return []WorkerEffect{Reply{*w.answer}}
}

// cancel forgets the lease of a step, running or answered.
func (w *Worker) cancel(m Cancel) {
	if t, ok := w.task.(*leaseTask); ok && t.lease.Step == m.Step {
		w.task, w.work = nil, nil
	}
	if w.answer != nil && w.answer.Step == m.Step {
		w.answer = nil
	}
}

// commit applies an intent, or reports again that it did.
func (w *Worker) commit(m Commit) []WorkerEffect {
	if m.Step == w.step && w.applied.Step == m.Step {
		return []WorkerEffect{Reply{w.applied}}
	}
	if w.task != nil || m.Step != w.step+1 {
		return nil
	}
	a := w.answer
	root := a != nil && a.Step == m.Step && a.Lo == 0 && a.Hi == w.job.Batch.Lanes
	if root && a.GradDigest != m.RootDigest {
		return w.fail(fmt.Errorf("applying step %d: the root with digest %s is not held here", m.Step, m.RootDigest))
	}
	w.task = &commitTask{m}
	switch {
	case m.Action == ActionSkip:
		return w.updated(Updated{w.digest})
	case root:
		return w.do(Update{Scale: m.Scale, Hyper: m.Hyper})
	}
	return w.do(PullRoot{m.Step})
}

// rootPulled applies the root if it is the one that was committed.
func (w *Worker) rootPulled(e RootPulled) []WorkerEffect {
	t, ok := w.task.(*commitTask)
	if !ok {
		return nil
	}
	if e.Digest != t.commit.RootDigest {
		return w.fail(fmt.Errorf("applying step %d: the root that was pulled has digest %s: the committed one has %s", t.commit.Step, e.Digest, t.commit.RootDigest))
	}
	return w.do(Update{Scale: t.commit.Scale, Hyper: t.commit.Hyper})
}

func (w *Worker) updated(e Updated) []WorkerEffect {
	t, ok := w.task.(*commitTask)
	if !ok {
		return nil
	}
	w.task, w.answer, w.eval = nil, nil, nil
	w.step, w.digest = t.commit.Step, e.Digest
	w.applied = Applied{Step: w.step, Digest: w.digest}
	return []WorkerEffect{Reply{w.applied}}
}

func (w *Worker) evaluate(m Eval) []WorkerEffect {
	if w.eval != nil && w.eval.Step == m.Step && w.eval.Lo == m.Lo && w.eval.Hi == m.Hi {
		return []WorkerEffect{Reply{*w.eval}}
	}
	if t, busy := w.task.(*evalTask); busy && t.eval != m {
		w.task, w.work = nil, nil // asked for other windows since
	}
	if w.task != nil || m.Step != w.step || m.Lo < 0 || m.Lo >= m.Hi || m.Hi > w.job.Eval.Windows {
		return nil
	}
	w.task = &evalTask{eval: m, done: Evaluated{Step: m.Step, Lo: m.Lo, Hi: m.Hi}}
	return w.do(EvalWindow{m.Lo})
}

func (w *Worker) windowEvaluated(e WindowEvaluated) []WorkerEffect {
	t, ok := w.task.(*evalTask)
	if !ok {
		return nil
	}
	t.done.Sums = append(t.done.Sums, Float(e.Loss.Sum))
	t.done.Tokens += e.Loss.Tokens
	if next := t.eval.Lo + len(t.done.Sums); next < t.eval.Hi {
		return w.do(EvalWindow{next})
	}
	w.task, w.eval = nil, &t.done
	return []WorkerEffect{Reply{*w.eval}}
}

func (w *Worker) takeSnapshot(m Snapshot) []WorkerEffect {
	if w.snapshot != nil && w.snapshot.Step == m.Step {
		return []WorkerEffect{Reply{*w.snapshot}}
	}
	if w.task != nil || m.Step != w.step {
		return nil
	}
	w.task = &snapshotTask{m.Step}
	return w.do(TakeSnapshot(m))
}

func (w *Worker) snapshotCopied() []WorkerEffect {
	t, ok := w.task.(*snapshotTask)
	if !ok {
		return nil
	}
	w.task, w.snapshot = nil, &SnapshotTaken{Step: t.step, Digest: w.digest}
	return []WorkerEffect{Reply{*w.snapshot}}
}
