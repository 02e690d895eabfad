package sim

import (
	"slices"

	"andrea/pipeline"
)

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
		case s.fault == joinWorker || !k.alive || !w.befallable(s.fault, k):
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
	return c != nil && c.phase() == phaseNames[phase]
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
	if k == nil {
		return
	}
	victims := []*worker{k}
	if f != joinWorker && f < twinWorker && w.chance.below(4) == 0 { // a host or a switch, with several workers
		for _, o := range w.workers {
			if o != k && o.alive && w.chance.below(2) == 0 {
				victims = append(victims, o)
			}
		}
	}
	for _, v := range victims {
		w.tracef("STRIKE %s on %s, which is %s", faultNames[f], v.id, activityNames[v.doing])
		if f == joinWorker {
			w.cover(f, nil)
		} else {
			w.cover(f, v)
		}
		w.strikeWorker(f, v)
	}
}

func (w *world) strikeWorker(f fault, k *worker) {
	life := k.life
	wake := func() {
		if k.life == life {
			k.wake()
		}
	}
	k.uneasy = k.uneasy || f != joinWorker && f <= failDevice
	switch f {
	case cutBoth, cutUp, cutDown, cutPeers:
		k.cut = cut{toCoordinator: f == cutBoth || f == cutUp, toWorker: f == cutBoth || f == cutDown, toPeers: f == cutPeers}
		w.clock.after(w.chance.between(tick/2, 30*tick), func() { k.cut = cut{} })
	case joinWorker:
		k.begin()
		if w.chance.below(4) == 0 { // it loads for longer than others wait for it
			k.slow, k.uneasy = 1500, true
			w.clock.after(200*tick, func() { k.slow = 1 })
		}
	case crashWorker:
		k.end("it was killed")
	case pauseWorker:
		k.paused = true
		w.clock.after(w.chance.between(tick/2, 20*tick), wake)
	case hangWorker:
		k.hung = true
		w.clock.after(w.chance.between(tick, 200*tick), wake)
	case slowWorker:
		k.slowDown(pick[int64](w.chance, 10, 10, 60, 400))
	case leaveWorker:
		k.leaving = true
		k.receive(pipeline.LeaveRequested{Reason: "it was asked to"})
	case twinWorker:
		k.twin(w.clock.now + w.chance.between(tick, 30*tick))
	case failTransfer:
		k.flaws.transfer = true
	case garbleTransfer:
		k.flaws.garbled = true
	case failDevice:
		k.flaws.device = true
	case damageState:
		k.guilty = true
		k.damage()
		if c := w.current(); c != nil && w.chance.below(3) == 0 { // the next one may be told of two states
			w.clock.after(w.chance.between(1, 200), func() { c.die("killed") })
		}
	case spoilGradient:
		k.guilty, k.flaws.spoiled = true, true
		k.spoil(k.measured())
	case wrongGradient:
		k.guilty, k.flaws.gradient, k.flaws.patient = true, true, w.chance.below(3) == 0
		if k.flaws.patient {
			w.delay(k)
		}
	case nonFinite:
		k.guilty, k.flaws.loss = true, w.chance.below(2) == 0
		k.flaws.infinite = !k.flaws.loss
	}
}

// delay makes another worker slow, so that this one may do its work as well.
func (w *world) delay(k *worker) {
	for _, o := range w.workers {
		if o != k && o.alive && o.doing == leasing {
			o.slowDown(pick[int64](w.chance, 10, 30))
			return
		}
	}
}

// slowDown makes a worker's engine so many times slower for a while.
func (k *worker) slowDown(times int64) {
	k.slow, k.uneasy = times, true
	k.w.clock.after(60*tick, func() { k.slow = 1 })
}

// befallable reports that a fault makes sense for a worker: some damage needs something
// to be damaged.
func (w *world) befallable(f fault, k *worker) bool {
	switch f {
	case damageState:
		return k.engine != nil
	case spoilGradient:
		return k.measured() >= 0
	}
	return true
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
	w.network.loss, w.network.doubled, w.network.late, w.network.bulk, w.network.heavy = 0, 0, 0, 0, 1
	for _, c := range w.coordinators {
		c.flaws, c.fuse = coordinatorFlaws{}, -1
		if c != w.newest() {
			c.die("the faults are over")
		}
	}
	w.newest().wake()
	for _, k := range w.workers {
		k.cut = cut{}
		k.flaws = flaws{spoiled: k.flaws.spoiled} // what is damaged stays
		switch {
		case k.life == 0:
			k.begin()
		case k.alive:
			k.slow, k.mute = 1, 0
			k.wake()
		}
	}
}
