package sim

import (
	"slices"

	"andrea/pipeline"
)

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

	joinWorker    // a worker comes
	crashWorker   // its process ends; another life follows
	pauseWorker   // its process stands still
	hangWorker    // its engine does
	slowWorker    // its engine is ten times slower
	leaveWorker   // it is asked to go
	failTransfer  // its next transfer fails
	failDevice    // its engine fails
	damageState   // a bit of its state flips
	spoilGradient // a bit of what it answered for flips
	wrongGradient // a bit flips before it answers
	nonFinite     // one of its losses is no number

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
	"loss", "duplicate", "delayed", "cut", "cut-up", "cut-down", "cut-peers", "join", "crash", "pause", "hang", "slow", "leave",
	"fail-transfer", "fail-device", "damage-state", "spoil-gradient", "wrong-gradient", "non-finite",
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
		s.phase = c.below(len(phaseNames))
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
// found only where a second worker computes it, and a loss that is no number only where
// there is one to compute it again.
func (w *world) drawFlaw(c *chance) fault {
	switch audited, many := w.job.plan.Spec.Audit == 1, len(w.workers) >= 4; {
	case !many && c.below(8) > 0 || c.below(3) == 0:
		return faults
	case audited:
		return pick(c, damageState, spoilGradient, wrongGradient, wrongGradient, nonFinite)
	}
	return pick(c, damageState, spoilGradient, nonFinite)
}

// befall lets the strikes happen whose moments have come, and ends the faults after the last.
func (w *world) befall() {
	if w.calm {
		if w.clock.now > w.patience {
			w.failf("the faults ended at tick %d, and the job is not done at tick %d: %s", w.patience/tick-boundTicks, w.clock.now/tick, w.state())
		}
		return
	}
	for i := 0; i < len(w.strikes); i++ {
		s := &w.strikes[i]
		if w.confirmed < s.step {
			continue
		}
		if s.until == 0 {
			s.until = w.clock.now + s.patience
		}
		if victim, now := w.meets(s); now || w.clock.now >= s.until {
			f := s.fault
			w.strikes = slices.Delete(w.strikes, i, i+1)
			w.strike(f, victim)
			break
		}
	}
	if len(w.strikes) > 0 && w.clock.now < maxTicks*tick {
		return
	}
	if w.patience == 0 {
		w.patience = w.clock.now + w.chance.between(0, 60)*tick
	}
	if w.clock.now >= w.patience {
		w.calmDown()
	}
}

// meets reports that the moment of a strike has come, and for whom.
func (w *world) meets(s *strike) (victim *worker, now bool) {
	first := int(w.clock.now) % len(w.workers)
	matches := false
	for i := range w.workers {
		k := w.workers[(first+i)%len(w.workers)]
		switch {
		case s.fault == joinWorker && k.life == 0:
			return k, w.inPhase(s.phase) && (s.activity == activities || w.doing(s.activity))
		case s.fault == joinWorker || !k.alive:
		case victim == nil || !matches && k.doing == s.activity:
			victim, matches = k, k.doing == s.activity
		}
	}
	return victim, w.inPhase(s.phase) && (s.activity == activities || matches)
}

func (w *world) doing(a activity) bool {
	for _, k := range w.workers {
		if k.alive && k.doing == a {
			return true
		}
	}
	return false
}

func (w *world) inPhase(phase int) bool {
	if phase < 0 {
		return true
	}
	c := w.current()
	return c != nil && c.machine.Phase() == phaseNames[phase]
}

// strike lets a fault happen. Some need a worker.
func (w *world) strike(f fault, k *worker) {
	if f >= crashCoordinator {
		if c := w.current(); c != nil {
			w.tracef("STRIKE %s", faultNames[f])
			w.cover(f, nil)
			w.strikeCoordinator(f, c)
		}
		return
	}
	if k == nil || f == damageState && k.engine == nil || f == spoilGradient && w.spoilable(k) < 0 {
		return
	}
	w.tracef("STRIKE %s on %s, which is %s", faultNames[f], k.id, activityNames[k.doing])
	if f == joinWorker {
		w.cover(f, nil)
	} else {
		w.cover(f, k)
	}
	w.strikeWorker(f, k)
}

func (w *world) strikeWorker(f fault, k *worker) {
	life := k.life
	wake := func() {
		if k.life == life {
			k.wake()
		}
	}
	switch f {
	case cutBoth, cutUp, cutDown, cutPeers:
		k.cut = cut{toCoordinator: f == cutBoth || f == cutUp, toWorker: f == cutBoth || f == cutDown, toPeers: f == cutPeers}
		w.clock.after(w.chance.between(tick/2, 30*tick), func() { k.cut = cut{} })
	case joinWorker:
		k.begin()
	case crashWorker:
		k.end("it was killed")
	case pauseWorker:
		k.paused = true
		w.clock.after(w.chance.between(tick/2, 20*tick), wake)
	case hangWorker:
		k.hung = true
		w.clock.after(w.chance.between(tick, 200*tick), wake)
	case slowWorker:
		k.slow = 10
		w.clock.after(60*tick, func() { k.slow = 1 })
	case leaveWorker:
		k.leaving = true
		k.receive(pipeline.LeaveRequested{Reason: "it was asked to"})
	case failTransfer:
		k.flaws.transfer = true
	case failDevice:
		k.flaws.device = true
	case damageState:
		k.guilty = true
		k.damage()
	case spoilGradient:
		k.guilty, k.flaws.spoiled = true, true
		k.spoil(w.spoilable(k))
	case wrongGradient:
		k.guilty, k.flaws.gradient = true, true
	case nonFinite:
		k.guilty, k.flaws.loss = true, true
	}
}

// spoilable is a slot with something to be pulled; -1: none.
func (w *world) spoilable(k *worker) int {
	for slot, p := range k.parts {
		if p.step > 0 {
			return slot
		}
	}
	return -1
}

func (w *world) strikeCoordinator(f fault, c *coordinator) {
	switch f {
	case crashCoordinator:
		c.fuse = w.chance.below(12)
		w.clock.after(tick, func() { c.die("killed") })
	case pauseCoordinator:
		c.paused = true
		w.clock.after(w.chance.between(tick/2, 15*tick), c.wake)
	case replaceCoordinator:
		c.paused = true
		w.clock.after(w.chance.between(tick/2, 3*tick), func() {
			if !w.complete && c == w.newest() {
				w.startCoordinator()
			}
		})
		w.clock.after(w.chance.between(3*tick, 20*tick), c.wake)
		w.clock.after(w.chance.between(30*tick, 80*tick), func() { c.die("it was old") })
	case failJournal:
		c.flaws.journal = true
	case failCheckpoint:
		c.flaws.checkpoint = true
	case tornCheckpoint:
		c.flaws.torn = true
	case loseCopy:
		c.flaws.copy = true
	case failReduce:
		c.flaws.reduce = true
	case stopCoordinator:
		c.receive(pipeline.StopRequested{Reason: "it was asked to"})
	}
}

// calmDown ends all faults.
func (w *world) calmDown() {
	w.tracef("the faults are over")
	w.calm, w.patience = true, w.clock.now+boundTicks*tick
	w.network.loss, w.network.doubled, w.network.late, w.network.bulk = 0, 0, 0, 0
	for _, c := range w.coordinators {
		c.flaws, c.fuse = coordinatorFlaws{}, -1
		if c != w.newest() {
			c.die("the faults are over")
		}
	}
	w.newest().wake()
	for _, k := range w.workers {
		k.cut = cut{}
		k.flaws.transfer, k.flaws.device, k.flaws.loss, k.flaws.gradient = false, false, false, false
		switch {
		case k.life == 0:
			k.begin()
		case k.alive:
			k.slow = 1
			k.wake()
		}
	}
}
