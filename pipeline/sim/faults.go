package sim

// fault is a kind of trouble.
type fault int

const (
	loss      fault = iota // of a message
	duplicate              // message
	delayed                // message, which is overtaken by later ones

	cutBoth  // nothing passes between a worker and the coordinators
	cutUp    // nothing passes from a worker
	cutDown  // nothing passes to a worker
	cutPeers // a worker reaches no other worker

	joinWorker     // a worker comes
	crashWorker    // its process ends; another life follows
	pauseWorker    // its process stands still
	hangWorker     // its engine does
	slowWorker     // its engine is ten times slower
	leaveWorker    // it is asked to go
	twinWorker     // another process says hello as this worker, and then nothing
	failTransfer   // its next transfer fails
	garbleTransfer // its next transfer arrives with another bit, and right checksums
	failDevice     // its engine fails
	damageState    // a bit of its state flips
	spoilGradient  // a bit of what it answered for flips
	wrongGradient  // a bit flips before it answers
	nonFinite      // a loss of its is no number, or an element of a gradient

	crashCoordinator   // between two effects
	pauseCoordinator   // it stands still
	replaceCoordinator // it stands still, another begins, and it wakes up
	failJournal        // the disk refuses a line of the journal
	failCheckpoint     // the disk refuses a checkpoint
	tornCheckpoint     // the power fails while it is written
	loseCopy           // the worker's copy cannot be read
	failReduce         // a contribution does not arrive
	stopCoordinator    // it is asked to stop
	faults
)

var faultNames = [faults]string{
	"loss", "duplicate", "delayed", "cut", "cut-up", "cut-down", "cut-peers", "join", "crash", "pause", "hang", "slow", "leave", "twin",
	"fail-transfer", "garble-transfer", "fail-device", "damage-state", "spoil-gradient", "wrong-gradient", "non-finite",
	"crash-coordinator", "pause-coordinator", "replace-coordinator", "fail-journal", "fail-checkpoint", "torn-checkpoint",
	"lose-copy", "fail-reduce", "stop",
}

// strike is a fault that waits for its moment.
type strike struct {
	fault    fault
	step     int64    // it waits until this step is confirmed
	phase    int      // then for this phase of the coordinator; -1: any
	activity activity // and for a worker that does this; activities: any
	patience int64    // but no longer than that, in units of time
	until    int64    // when that is; 0: its step is not confirmed yet
}

// drawFaults chooses what will befall the world.
func (w *world) drawFaults(c *chance) {
	n := &w.network
	n.loss, n.doubled = pick(c, 0, 0.01, 0.05, 0.2), pick(c, 0, 0.01, 0.1)
	n.late, n.bulk = pick(c, 0, 0.01, 0.05), pick(c, 0, 0, 0.005, 0.02)
	n.heavy = pick[int64](c, 1, 1, 40)
	steps := w.job.plan.Spec.Steps
	for range c.between(1, 9) {
		w.strikes = append(w.strikes, newStrike(c, drawFault(c), steps-1))
	}
	for range c.between(1, 2) {
		w.strikes = append(w.strikes, newStrike(c, pick(c, crashCoordinator, crashCoordinator, replaceCoordinator), steps/2))
	}
	for range w.workers[w.together:] {
		w.strikes = append(w.strikes, newStrike(c, joinWorker, steps-2))
	}
	if f := w.drawFlaw(c); f != faults {
		w.strikes = append(w.strikes, newStrike(c, f, steps-1))
	}
}

// newStrike draws the moment: after at most so many steps.
func newStrike(c *chance, f fault, steps int64) strike {
	s := strike{fault: f, step: c.between(0, steps), phase: -1, activity: activities, patience: c.between(tick, 30*tick)}
	switch c.below(4) {
	case 0, 1:
		if s.phase = c.below(len(phaseNames)); s.phase == len(phaseNames)-1 { // it comes at the end, and is short
			s.step, s.patience = steps, 30*tick
		}
	case 2:
		s.activity = activity(c.below(int(activities)))
	}
	return s
}

// drawFault chooses a fault that leaves all bits alone.
func drawFault(c *chance) fault {
	for {
		f := fault(int(cutBoth) + c.below(int(faults-cutBoth)))
		if f < damageState || f > nonFinite {
			return f
		}
	}
}

// drawFlaw chooses what goes wrong with a worker's bits; faults: nothing. A wrong gradient is
// found only where a second worker computes it, else it is never answered for, and a loss that is
// no number only where there is one to compute it again.
func (w *world) drawFlaw(c *chance) fault {
	switch audited, many := w.job.plan.Spec.Audit == 1, len(w.workers) >= 4; {
	case !many && c.below(8) > 0:
		return faults
	case audited:
		return pick(c, damageState, spoilGradient, spoilGradient, wrongGradient, wrongGradient, wrongGradient, nonFinite)
	}
	return pick(c, damageState, damageState, spoilGradient, spoilGradient, spoilGradient, nonFinite, wrongGradient)
}
