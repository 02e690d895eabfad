package pipeline

import (
	"math/bits"
	"slices"

	"andrea/model"
)

// leaseTask walks the microbatches of a lease's lanes in order.
type leaseTask struct {
	lease      Lease
	base       int // slot in which the contribution ends
	stack      int // slots in use from base on, below the lane's
	microbatch int
	lanes      []LaneResult
	current    LaneResult
	seconds    float64
}

// lease starts a lease, or answers it again. One of a later round begins the step anew.
func (w *Worker) lease(m Lease) []WorkerEffect {
	if m.Step != w.step+1 || m.Round < w.round || !m.subtree(w.job.Batch.Lanes) {
		return nil
	}
	if _, busy := w.task.(*leaseTask); m.Round > w.round && (busy || w.task == nil) {
		w.drop()
		w.round = m.Round
	}
	if i := slices.IndexFunc(w.answers, func(a Answer) bool { return a.Lo == m.Lo && a.Hi == m.Hi }); i >= 0 {
		return w.reply(w.answers[i])
	}
	if w.task != nil || !fits(len(w.answers), m.Hi-m.Lo, w.job.Batch.Lanes) {
		return nil // busy, or without room
	}
	t := &leaseTask{lease: m, base: len(w.answers)}
	w.task = t
	return w.do(Zero{t.slot()}, t.next(w.microbatches, w.job.Batch.Lanes))
}

// fits reports that a worker which holds so many contributions has slots left to compute
// a lease of size lanes: it needs one for every level of the lease's tree.
func fits(held, size, lanes int) bool { return held+model.Slots(size) <= model.Slots(lanes) }

// subtree reports that the lease is a whole subtree of the reduction tree over lanes:
// an aligned range whose size is a power of two. The lanes of any other have no sum.
func (m Lease) subtree(lanes int) bool {
	size := m.Hi - m.Lo
	return m.Lo >= 0 && m.Lo < m.Hi && m.Hi <= lanes && bits.OnesCount(uint(size)) == 1 && m.Lo%size == 0
}

// slot is where the current lane accumulates.
func (t *leaseTask) slot() int { return t.base + t.stack }

// lane is the number of the current lane.
func (t *leaseTask) lane() int { return t.lease.Lo + len(t.lanes) }

// next is the next microbatch of the lease; microbatches is how many a lane has, lanes how
// many the job has.
func (t *leaseTask) next(microbatches, lanes int) WorkerEffect {
	l := t.lease
	a := Accumulate{Slot: t.slot(), Step: l.Step, Lane: t.lane(), Microbatch: t.microbatch}
	if t.microbatch+1 < microbatches || t.lane()+1 < l.Hi {
		return a
	}
	return Conclude{Accumulate: a, Folds: t.slot() - t.base, Lo: l.Lo, Hi: l.Hi, SumSquares: l.Hi-l.Lo == lanes}
}

// add takes in the result of a microbatch.
func (t *leaseTask) add(e Accumulated) {
	t.current.LossSum += Float(e.Loss.Sum)
	t.current.Tokens += e.Loss.Tokens
	t.current.TokenDigest = t.current.TokenDigest.Add(e.TokenDigest)
	t.seconds += e.Seconds
	t.microbatch++
}

func (w *Worker) accumulated(e Accumulated) []WorkerEffect {
	t, ok := w.task.(*leaseTask)
	if !ok {
		return nil
	}
	t.add(e)
	var effects []WorkerEffect
	if t.microbatch == w.microbatches {
		effects = append(t.laneDone(), Zero{t.slot()})
	}
	return w.do(append(effects, t.next(w.microbatches, w.job.Batch.Lanes))...)
}

// laneDone folds the finished lane into the tree: a binary counter of slots, in
// which slot i holds a complete subtree to the left of slot i+1's.
func (t *leaseTask) laneDone() (effects []WorkerEffect) {
	t.lanes = append(t.lanes, t.current)
	t.current, t.microbatch = LaneResult{}, 0
	t.stack++
	for n := len(t.lanes); n%2 == 0; n /= 2 {
		t.stack--
		effects = append(effects, Fold{Dst: t.slot() - 1, Src: t.slot()})
	}
	return effects
}

// concluded answers the lease.
func (w *Worker) concluded(e Concluded) []WorkerEffect {
	t, ok := w.task.(*leaseTask)
	if !ok {
		return nil
	}
	t.add(e.Accumulated)
	w.task = nil
	a := Answer{
		Step: t.lease.Step, Round: t.lease.Round, Lo: t.lease.Lo, Hi: t.lease.Hi, Lanes: append(t.lanes, t.current),
		StateDigest: e.StateDigest, GradDigest: e.GradDigest, SumSquares: e.SumSquares, Seconds: t.seconds,
	}
	w.answers = append(w.answers, a)
	return w.reply(a)
}

// cancel forgets the leases of a step, running or answered.
func (w *Worker) cancel(m Cancel) {
	if _, leased := w.task.(*leaseTask); m.Step == w.step+1 && (leased || w.task == nil) {
		w.drop()
	}
}
