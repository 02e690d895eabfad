package pipeline

import (
	"fmt"
	"slices"

	"andrea/model"
)

// commitTask waits for an update.
type commitTask struct{ commit Commit }

// evalTask walks the validation windows.
type evalTask struct {
	eval Eval
	done Evaluated
}

// snapshotTask waits for a copy.
type snapshotTask struct{ step int64 }

// commit applies an intent, or reports again that it did. What the worker still
// computes of the step is not needed any more.
func (w *Worker) commit(m Commit) []WorkerEffect {
	if m.Step == w.step && w.applied.Step == m.Step {
		return w.reply(w.applied)
	}
	if _, leased := w.task.(*leaseTask); leased && m.Step == w.step+1 {
		w.task, w.work = nil, nil
	}
	if w.task != nil || m.Step != w.step+1 {
		return nil
	}
	held := w.holdsRoot(m)
	w.task, w.answers = &commitTask{commit: m}, nil
	switch {
	case m.Action == ActionSkip:
		return w.do(Keep{m.Step})
	case held:
		return w.do(Update{Step: m.Step, Scale: m.Scale, Hyper: m.Hyper})
	}
	return w.do(PullRoot{Step: m.Step, Digest: m.RootDigest})
}

// holdsRoot reports that slot 0 is the committed root.
func (w *Worker) holdsRoot(m Commit) bool {
	return slices.IndexFunc(w.answers, func(a Answer) bool {
		return a.Step == m.Step && a.Hi-a.Lo == w.job.Batch.Lanes && a.GradDigest == m.RootDigest
	}) == 0
}

// AwaitsRoot reports that the worker has nothing to do but to wait for the root of a step of which it has computed a
// part, and the first gradient slot that no part of it lies in.
func (w *Worker) AwaitsRoot() (step int64, slot int, waits bool) {
	n := len(w.answers)
	if w.task != nil || w.hailing || w.left || n == 0 || n == model.Slots(w.job.Batch.Lanes) {
		return 0, 0, false
	}
	whole := n == 1 && w.answers[0].Hi-w.answers[0].Lo == w.job.Batch.Lanes
	return w.step + 1, n, !whole
}

// rootPulled applies the root if it is the one that was committed.
func (w *Worker) rootPulled(e RootPulled) []WorkerEffect {
	t, ok := w.task.(*commitTask)
	if !ok {
		return nil
	}
	if e.Digest != t.commit.RootDigest {
		return w.arrivedDamaged(fmt.Errorf("applying step %d: the root that was pulled has digest %s: the committed one has %s", t.commit.Step, e.Digest, t.commit.RootDigest))
	}
	return w.do(Update{Step: t.commit.Step, Scale: t.commit.Scale, Hyper: t.commit.Hyper})
}

func (w *Worker) updated(e Updated) []WorkerEffect {
	t, ok := w.task.(*commitTask)
	if !ok {
		return nil
	}
	w.drop()
	w.eval, w.damaged = nil, 0
	w.step, w.digest = t.commit.Step, e.Digest
	w.applied = Applied{Step: w.step, Digest: w.digest}
	return w.reply(w.applied)
}

func (w *Worker) evaluate(m Eval) []WorkerEffect {
	if w.eval != nil && w.eval.Step == m.Step && w.eval.Lo == m.Lo && w.eval.Hi == m.Hi {
		return w.reply(*w.eval)
	}
	if t, busy := w.task.(*evalTask); busy && t.eval != m {
		w.task, w.work = nil, nil // asked for other windows since
	}
	if w.task != nil || m.Step != w.step || m.Lo < 0 || m.Lo >= m.Hi || m.Hi > w.job.Eval.Windows {
		return nil
	}
	w.task = &evalTask{eval: m, done: Evaluated{Step: m.Step, Lo: m.Lo, Hi: m.Hi}}
	return w.do(m.window(m.Lo))
}

// window is the work for one window.
func (m Eval) window(number int) EvalWindow {
	return EvalWindow{Window: number, Last: number == m.Hi-1}
}

func (w *Worker) windowEvaluated(e WindowEvaluated) []WorkerEffect {
	t, ok := w.task.(*evalTask)
	if !ok {
		return nil
	}
	t.done.Sums = append(t.done.Sums, Float(e.Loss.Sum))
	t.done.Tokens += e.Loss.Tokens
	if next := t.eval.Lo + len(t.done.Sums); next < t.eval.Hi {
		return w.do(t.eval.window(next))
	}
	t.done.StateDigest = e.StateDigest
	w.task, w.eval = nil, &t.done
	return w.reply(*w.eval)
}

func (w *Worker) takeSnapshot(m Snapshot) []WorkerEffect {
	if w.snapshot != nil && w.snapshot.Step == m.Step {
		return w.reply(*w.snapshot)
	}
	if w.task != nil || m.Step != w.step {
		return nil
	}
	w.task = &snapshotTask{m.Step}
	return w.do(TakeSnapshot(m))
}

func (w *Worker) snapshotCopied(e SnapshotCopied) []WorkerEffect {
	t, ok := w.task.(*snapshotTask)
	if !ok {
		return nil
	}
	w.task, w.snapshot = nil, &SnapshotTaken{Step: t.step, Digest: e.Digest}
	return w.reply(*w.snapshot)
}
