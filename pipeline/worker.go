package pipeline

import (
	"fmt"

	"andrea/model"
)

// Membership names one admission of a worker to a run: by which coordinator, and the
// how manieth of that coordinator. All messages between the two carry it, so that what
// was sent under another one is known to be out of date.
type Membership struct {
	Generation uint64 // of the coordinator; 0: none
	Ticket     int64  // counts admissions, from 1
}

// Follows reports that m was given after o.
func (m Membership) Follows(o Membership) bool {
	return m.Generation > o.Generation || m.Generation == o.Generation && m.Ticket > o.Ticket
}

// helloTicks is how often a worker that was told to wait asks again.
const helloTicks = 4

// Worker computes leases on one replica. It has one task at a time; the coordinator
// may repeat a message, and a finished task is answered again from memory.
//
// It hails until a coordinator welcomes it, then it is a member. When it hears nothing
// of the coordinator any more it hails again and keeps its state, which the next
// coordinator may go on from.
//
// Its loop is: Handle every message that has arrived, then execute what Work
// returns and Handle the result, and so on. So a message waits for one microbatch
// at most, and a cancelled task leaves nothing behind.
type Worker struct {
	hello   Hello
	job     JobSpec
	jobText string // as it was welcomed with

	membership Membership // the newest
	over       bool       // the coordinator has ended it
	hailing    bool       // it looks for a coordinator
	patience   int        // ticks until the next hello
	leaving    string     // why it wants to go; empty: it stays

	microbatches int // of a lane
	buckets      int // of the state; 0: there is no engine yet

	damaged int // states and roots that arrived with a wrong digest since the newest update

	holds  bool // the engine holds state step
	step   int64
	digest model.Digest

	task     task           // nil: idle
	round    int            // of the leases of step+1
	answers  []Answer       // of step+1: the contribution of answers[i] is in slot i
	applied  Applied        // of step; the zero value before the first update
	eval     *Evaluated     // of step
	snapshot *SnapshotTaken // the newest
	left     bool

	work []WorkerEffect // of the task, to be executed next
}

// task is what the engine is busy with.
type task interface{ isTask() }

func (*loadTask) isTask()     {}
func (*leaseTask) isTask()    {}
func (*commitTask) isTask()   {}
func (*evalTask) isTask()     {}
func (*snapshotTask) isTask() {}

// NewWorker returns a worker that says hello with its first tick.
func NewWorker(class, device string) *Worker {
	return &Worker{hello: Hello{Protocol: Protocol, Class: class, Device: device}, hailing: true}
}

// Membership is the one that the worker works under, or had last.
func (w *Worker) Membership() Membership { return w.membership }

// Hailing reports that the worker looks for a coordinator.
func (w *Worker) Hailing() bool { return w.hailing }

// Tick repeats what the coordinator may have missed: the hello until the worker is
// welcomed, and that it wants to leave.
func (w *Worker) Tick() []WorkerEffect {
	switch {
	case w.left:
		return nil
	case w.hailing:
		if w.patience--; w.patience >= 0 {
			return nil
		}
		w.patience = 0
		return []WorkerEffect{Reply{Message: w.hail()}}
	case w.leaving != "":
		return w.reply(Leaving{w.leaving})
	}
	return nil
}

// hail is the hello with what the worker holds now.
func (w *Worker) hail() Hello {
	h := w.hello
	h.Holds, h.Step, h.Digest = w.holds, w.step, w.digest
	h.Generation, h.Ticket = w.membership.Generation, w.membership.Ticket
	return h
}

// reply answers under the present membership.
func (w *Worker) reply(m Message) []WorkerEffect {
	return []WorkerEffect{Reply{Membership: w.membership, Message: m}}
}

// Handle takes one event.
func (w *Worker) Handle(event WorkerEvent) []WorkerEffect {
	if w.left {
		return nil
	}
	switch e := event.(type) {
	case Received:
		return w.receive(e)
	case Unheard:
		if e.Membership == w.membership {
			return w.hailAgain()
		}
	case LeaveRequested:
		return w.leaveRequested(e)
	case EngineOpened:
		return w.engineOpened(e)
	case BucketLoaded:
		return w.bucketLoaded(e)
	case Accumulated:
		return w.accumulated(e)
	case Concluded:
		return w.concluded(e)
	case RootPulled:
		return w.rootPulled(e)
	case Updated:
		return w.updated(e)
	case WindowEvaluated:
		return w.windowEvaluated(e)
	case SnapshotCopied:
		return w.snapshotCopied(e)
	case TransferFailed:
		return w.hailAgain() // the coordinator knows who is there now
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

// drop forgets the task and what was answered, not the state.
func (w *Worker) drop() {
	w.task, w.work, w.answers, w.round = nil, nil, nil, 0
}

// hailAgain looks for a coordinator, from the next tick on. A worker that wants to go
// needs none.
func (w *Worker) hailAgain() []WorkerEffect {
	if w.leaving != "" {
		return w.leave(ErrLeft{w.leaving})
	}
	w.drop()
	w.hailing, w.patience = true, 0
	return nil
}

// leave ends the worker.
func (w *Worker) leave(err error) []WorkerEffect {
	w.left, w.work = true, nil
	return []WorkerEffect{Leave{Err: err}}
}

// fail tells the coordinator and leaves.
func (w *Worker) fail(err error) []WorkerEffect {
	return append(w.reply(Failed{Reason: err.Error()}), w.leave(err)...)
}

// receive takes a message if it is of the present membership, or begins a newer one.
func (w *Worker) receive(e Received) []WorkerEffect {
	if welcome, ok := e.Message.(Welcome); ok {
		return w.welcomed(e.Membership, welcome)
	}
	if w.hailing && e.Membership.Ticket == 0 && e.Membership.Generation >= w.membership.Generation {
		return w.turnedAway(e.Membership, e.Message)
	}
	if e.Membership != w.membership || e.Membership.Ticket == 0 || w.over {
		return nil
	}
	switch m := e.Message.(type) {
	case Finish:
		return w.finish(e.Membership, m)
	case Refuse:
		return w.leave(fmt.Errorf("the coordinator expelled this worker: %s", m.Reason))
	case Rejoin:
		w.over = true
		return w.hailAgain()
	}
	if !w.holds {
		return nil // it came before the state
	}
	w.hailing = false // the coordinator is there after all
	return w.command(e.Message)
}

// command takes what a member is asked to do.
func (w *Worker) command(m Message) []WorkerEffect {
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

// turnedAway takes the answer to a hello that is no welcome.
func (w *Worker) turnedAway(by Membership, m Message) []WorkerEffect {
	switch m := m.(type) {
	case Refuse:
		return w.leave(ErrRefused(m))
	case Finish:
		return w.finish(by, m)
	case Wait:
		w.patience = helloTicks
	}
	return nil
}

// leaveRequested takes its leave of the coordinator, or goes at once when there is none.
func (w *Worker) leaveRequested(e LeaveRequested) []WorkerEffect {
	w.leaving = e.Reason
	if w.hailing {
		return w.leave(ErrLeft(e))
	}
	return w.reply(Leaving(e))
}

// ErrStopped is why a worker leaves a run that ended before its last step.
type ErrStopped struct{ Reason string }

// Error implements error.
func (e ErrStopped) Error() string { return "the run ended early: " + e.Reason }

// ErrRefused is why a worker was not let into a run: it is of another kind than the run's workers.
type ErrRefused struct{ Reason string }

// Error implements error.
func (e ErrRefused) Error() string { return "joining the run: the coordinator refused: " + e.Reason }

// ErrLeft is why a worker leaves a run that goes on without it.
type ErrLeft struct{ Reason string }

// Error implements error.
func (e ErrLeft) Error() string { return "the worker left the run: " + e.Reason }

// finish says that the worker knows of the run's end, and leaves.
func (w *Worker) finish(by Membership, m Finish) []WorkerEffect {
	return append([]WorkerEffect{Reply{Membership: by, Message: Leaving{"the run has ended"}}}, w.leave(finishError(m))...)
}

func finishError(m Finish) error {
	if m.Complete {
		return nil
	}
	return ErrStopped{m.Reason}
}
