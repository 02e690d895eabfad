package pipeline

import (
	"errors"
	"fmt"
)

// next decides what follows a confirmed state.
func (c *Coordinator) next() []CoordinatorEffect {
	due, ending := c.checkpointDue(), c.finishing() || c.allLeaving()
	switch {
	case due && len(c.members.holding()) == 0:
		return c.regather()
	case c.writing && (due || ending):
		c.enter(saving) // one checkpoint at a time: wait for the one before
		return nil
	case due:
		c.enter(snapshotting)
		return []CoordinatorEffect{c.holder().ask(Snapshot{c.step})}
	case c.finishing():
		return c.end(nil)
	}
	effects := c.releaseLeaving()
	if len(c.members.holding()) == 0 {
		return append(effects, c.regather()...)
	}
	for _, m := range c.members {
		if !m.joined && !m.loads(c.step) { // the state that it loads is gone
			m.late++
			effects = append(effects, c.welcome(m))
		}
	}
	return append(effects, c.compute()...)
}

// holder is the member whose copy becomes the checkpoint.
func (c *Coordinator) holder() *member {
	holding := c.members.holding()
	if stay := holding.staying(); len(stay) > 0 {
		return stay[0]
	}
	return holding[0]
}

// allLeaving reports that nobody stays who holds the state.
func (c *Coordinator) allLeaving() bool {
	holding := c.members.holding()
	return len(holding) > 0 && len(holding.staying()) == 0
}

// releaseLeaving lets go who wants to. The last ones go only when the state is on disk.
func (c *Coordinator) releaseLeaving() (effects []CoordinatorEffect) {
	for _, m := range c.members.holding() {
		if m.leaving {
			c.members = c.members.without(m)
			effects = append(effects, m.tell(released), Announce{WorkerLeft{Worker: m.id, Reason: "left"}})
		}
	}
	return effects
}

// finishing reports that no further step will be computed.
func (c *Coordinator) finishing() bool {
	return c.stopped != "" || c.failure != nil || c.step >= c.plan.Spec.Steps
}

// checkpointDue reports that the confirmed state is to be written and is not.
func (c *Coordinator) checkpointDue() bool {
	if c.saved.step == c.step {
		return false
	}
	return c.finishing() || c.allLeaving() && c.step > 0 || c.step > c.start.Step && c.step%c.plan.Spec.Checkpoint.Every == 0
}

func (c *Coordinator) snapshotTaken(m *member, msg SnapshotTaken) []CoordinatorEffect {
	if _, asked := m.unanswered.(Snapshot); c.phase != snapshotting || !asked || msg.Step != c.step {
		return nil
	}
	if msg.Digest != c.digest {
		return c.expel(m, fmt.Sprintf("copied state %d with digest %s: the group's is %s: its memory or device is faulty", msg.Step, msg.Digest, c.digest))
	}
	m.settle()
	c.saved, c.writing = checkpoint{c.step, c.digest}, true
	write := WriteCheckpoint{Worker: m.id, Incarnation: m.incarnation, Step: c.step, Digest: c.digest}
	return append([]CoordinatorEffect{write}, c.next()...)
}

func (c *Coordinator) checkpointWritten(e CheckpointWritten) []CoordinatorEffect {
	c.writing = false
	if e.Err != nil {
		return c.checkpointFailed(e)
	}
	if c.saved.step > c.written.step { // one is written at a time
		c.written = c.saved
	}
	effects := []CoordinatorEffect{Announce{CheckpointSaved{Step: e.Step, Path: e.Path, Deleted: e.Deleted}}}
	if c.phase == saving {
		return append(effects, c.next()...)
	}
	return effects
}

// checkpointFailed ends the coordinator when the disk is at fault. When the copy could not be read
// the worker is, or was, lost: another one holds the state and saves it.
func (c *Coordinator) checkpointFailed(e CheckpointWritten) []CoordinatorEffect {
	what := fmt.Sprintf("writing the checkpoint of step %d", e.Step)
	if !e.CopyLost {
		return c.interrupt("its disk failed", fmt.Errorf("%s: %w", what, e.Err))
	}
	c.saved = c.written
	if m := c.members.find(e.Worker); m != nil {
		return c.lost(m, fmt.Sprintf("was lost: %s: %v", what, e.Err))
	}
	if c.phase == saving {
		return c.next()
	}
	return nil // the state in flight is saved once it is confirmed
}

// stop ends the run at the last confirmed state: a step in flight whose intent is
// not decided is given up, a decided one is finished first.
func (c *Coordinator) stop(reason string) []CoordinatorEffect {
	if c.stopped != "" {
		return nil
	}
	c.stopped = reason
	switch c.phase {
	case gathering, waiting:
		return c.end(nil) // nothing is under way
	case computing, reducing:
		return c.giveUp()
	}
	return nil
}

// abandon ends the run with an error, after a checkpoint of the state before it.
func (c *Coordinator) abandon(err error) []CoordinatorEffect {
	c.fail(err)
	return c.giveUp()
}

// fail makes the run end with an error, the first one: what follows comes of it.
func (c *Coordinator) fail(err error) {
	if c.failure == nil {
		c.failure = err
	}
}

// giveUp forgets the step in flight and does what follows the last confirmed state.
func (c *Coordinator) giveUp() []CoordinatorEffect {
	effects := append(c.forget(), c.members.tellAll(Cancel{c.step + 1})...)
	return append(effects, c.next()...)
}

// end ends the run now.
func (c *Coordinator) end(err error) []CoordinatorEffect {
	o := c.close(err)
	last := Finish{Complete: o.Complete, Reason: o.Reason()}
	return append(append(c.members.tellAll(last), c.outside.tellAll(last)...), End{o})
}

// interrupt ends this coordinator and not the run: its members keep their state, for a later one to go on from.
func (c *Coordinator) interrupt(why string, err error) []CoordinatorEffect {
	o := c.close(err)
	return append(c.members.tellAll(Rejoin{why}), End{o})
}

// close ends the coordinator.
func (c *Coordinator) close(err error) Outcome {
	c.enter(ended)
	err = errors.Join(c.failure, err)
	return Outcome{Step: c.step, Complete: err == nil && c.step >= c.plan.Spec.Steps && c.written.step == c.step, Checkpoint: c.written.step, Stopped: c.stopped, Err: err}
}

// Reason is why the run ended before its last step; empty: it did not.
func (o Outcome) Reason() string {
	if o.Err != nil {
		return o.Err.Error()
	}
	return o.Stopped
}
