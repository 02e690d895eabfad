package pipeline

import (
	"fmt"
	"slices"
)

// regather begins anew when no member holds the state: the workers may come back with
// it, else the run goes on from the newest checkpoint.
func (c *Coordinator) regather() []CoordinatorEffect {
	if c.stopped != "" || c.failure != nil {
		return c.end(nil) // nobody is left to save the state
	}
	effects := c.forget()
	for _, m := range c.members { // it loads what nobody can give it any more, and will say what it holds
		effects = append(effects, m.tell(Rejoin{"the members that held the state are gone"}))
		c.expect(m.id)
	}
	c.members, c.complete = nil, false
	c.enter(gathering)
	return append(effects, c.gather()...)
}

// gather chooses the state to go on from once all workers are there that may hold the
// newest one, or have been waited for. A worker that stood by holds it, too, and is in no
// record: when nobody has it others get a moment to say so.
func (c *Coordinator) gather() []CoordinatorEffect {
	if c.phase != gathering || len(c.outside) == 0 {
		return nil
	}
	missing := slices.ContainsFunc(c.expected, func(id WorkerID) bool { return c.outside.find(id) == nil })
	if missing && c.waited < gatherTicks {
		return nil
	}
	alone := c.start.Alone && !c.begun
	if best, _, err := c.highest(); !alone && err == nil && best.step+1 < c.recorded.Last() && c.waited < momentTicks {
		return nil
	}
	return c.choose()
}

// choose settles the state to go on from: the highest that a worker holds and the
// records confirm, which is never beyond the last intent; else the newest checkpoint.
func (c *Coordinator) choose() []CoordinatorEffect {
	best, holders, err := c.highest()
	if err != nil {
		return c.end(err)
	}
	c.step, c.digest = best.step, best.digest
	c.complete = c.step > 0 && c.recorded.Step(c.step).Commit == nil
	if c.complete {
		c.intent, c.state = c.recorded.Step(c.step).Intent, best.digest
	}
	again := c.begun || c.recorded.Last() > 0
	c.begun = c.begun || holders > 0 // the run is under way: others may join later
	c.wanted = max(1, holders)
	if !c.begun {
		c.wanted = c.start.Workers
	}
	c.expected = nil
	c.enter(waiting)
	effects := c.admit()
	if again {
		effects = append([]CoordinatorEffect{Announce{StateChosen{Step: c.step, Holders: holders}}}, effects...)
	}
	return effects
}

// highest is the newest state that can be gone on from, and how many workers hold it.
func (c *Coordinator) highest() (best checkpoint, holders int, err error) {
	best = checkpoint{step: max(0, c.written.step), digest: c.written.digest}
	for _, m := range c.outside {
		if m.held.step < best.step || !c.plausible(m.held) {
			continue
		}
		switch {
		case m.held == best:
			holders++
		case m.held.step > best.step:
			best, holders = m.held, 1
		default:
			return best, 0, fmt.Errorf("workers hold state %d with digests %s and %s: the memory or device of one of them is faulty: end both workers, then resume from the checkpoint", best.step, best.digest, m.held.digest)
		}
	}
	return best, holders, nil
}

// plausible reports that the records do not contradict a state that a worker holds. Of the
// state before training there is none.
func (c *Coordinator) plausible(held checkpoint) bool {
	r := c.recorded.Step(held.step)
	if r == nil {
		return false // beyond the last intent, or before the first
	}
	return r.Commit == nil || r.Commit.StateDigest == held.digest
}

// begin goes on from the chosen state when enough members hold it, or the others have
// been waited for.
func (c *Coordinator) begin() []CoordinatorEffect {
	holding, wanted := len(c.members.holding()), min(c.wanted, c.room())
	if c.begun {
		wanted = min(wanted, len(c.members)) // one may have been lost since
	}
	if c.phase != waiting || holding == 0 || holding < wanted && c.waited < beginTicks {
		return nil
	}
	c.begun = true
	if !c.complete {
		return c.next()
	}
	c.complete = false // its step was decided before the members were gone
	c.enter(applying)
	return c.allConfirmed()
}
