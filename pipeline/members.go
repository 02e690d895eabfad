package pipeline

import (
	"fmt"
	"strings"

	"andrea/model"
)

// member is a worker that the coordinator has admitted.
type member struct {
	id          WorkerID
	incarnation string
	device      string
	joined      bool    // it holds the group's state; false: it loads it
	unanswered  Message // what it was asked and has not answered; nil: nothing
	silent      int     // ticks since unanswered was sent
	quiet       int     // ticks since its last sign of life
}

// members are the admitted workers in the order in which they came.
type members []*member

func (ms members) find(id WorkerID) *member {
	for _, m := range ms {
		if m.id == id {
			return m
		}
	}
	return nil
}

// answered reports that nobody owes an answer.
func (ms members) answered() bool {
	for _, m := range ms {
		if m.unanswered != nil {
			return false
		}
	}
	return true
}

// joined counts those that hold the group's state.
func (ms members) joined() (n int) {
	for _, m := range ms {
		if m.joined {
			n++
		}
	}
	return n
}

// without is ms except one.
func (ms members) without(gone *member) (rest members) {
	for _, m := range ms {
		if m != gone {
			rest = append(rest, m)
		}
	}
	return rest
}

// ask sends a message that will be repeated until its answer arrives.
func (m *member) ask(msg Message) CoordinatorEffect {
	m.unanswered, m.silent = msg, 0
	return m.tell(msg)
}

// tell sends a message once.
func (m *member) tell(msg Message) CoordinatorEffect {
	return Send{Worker: m.id, Incarnation: m.incarnation, Message: msg}
}

// tellAll sends a message to every member once.
func (ms members) tellAll(msg Message) (effects []CoordinatorEffect) {
	for _, m := range ms {
		effects = append(effects, m.tell(msg))
	}
	return effects
}

// askAll asks every member the same.
func (ms members) askAll(msg Message) (effects []CoordinatorEffect) {
	for _, m := range ms {
		effects = append(effects, m.ask(msg))
	}
	return effects
}

// hello admits workers that fit until the run has as many as it wants; a repeated
// hello is answered again.
func (c *Coordinator) hello(e FromWorker, h Hello) []CoordinatorEffect {
	m := c.members.find(e.Worker)
	if m != nil && m.incarnation != e.Incarnation {
		return c.lost(m, "was lost: it came back as another process, without its state")
	}
	if reason := c.refusal(m, h); reason != "" {
		return []CoordinatorEffect{
			Send{Worker: e.Worker, Incarnation: e.Incarnation, Message: Refuse{reason}},
			Announce{WorkerRefused{Worker: e.Worker, Reason: reason}},
		}
	}
	if m == nil {
		c.class = h.Class
		m = &member{id: e.Worker, incarnation: e.Incarnation, device: h.Device}
		c.members = append(c.members, m)
	}
	m.quiet = 0
	if m.joined {
		return nil
	}
	return []CoordinatorEffect{m.ask(Welcome{Job: c.job, Step: c.step, Stored: c.start.Checkpoint, Digest: c.digest})}
}

// refusal is why a worker cannot take part; m is nil when it is new.
func (c *Coordinator) refusal(m *member, h Hello) string {
	wanted := c.plan.Spec.Engine
	switch {
	case h.Protocol != Protocol:
		return fmt.Sprintf("it speaks protocol %d: this coordinator speaks %d: use one version for both", h.Protocol, Protocol)
	case wanted != "auto" && wanted != h.Class && !strings.HasPrefix(h.Class, wanted+"-"):
		return fmt.Sprintf("its engine class is %s: the job asks for %s", h.Class, wanted)
	case c.class != "" && c.class != h.Class:
		return fmt.Sprintf("its engine class is %s: the run began with %s: another class computes other bits", h.Class, c.class)
	case m == nil && len(c.members) == c.start.Workers:
		return fmt.Sprintf("the run has its %d workers already", c.start.Workers)
	case m == nil && c.phase != waiting:
		return "the run has lost a worker and is ending: start the worker again when the run is resumed"
	}
	return ""
}

func (c *Coordinator) joined(m *member, msg Joined) []CoordinatorEffect {
	if c.phase != waiting || m.joined {
		return nil
	}
	// State 0 has no digest before the first worker has computed it from the seed.
	if msg.Step != c.step || c.digest != (model.Digest{}) && c.digest != msg.Digest {
		return c.end(fmt.Errorf("worker %s loaded state %d with digest %s: the run has state %d with digest %s", m.id, msg.Step, msg.Digest, c.step, c.digest))
	}
	m.joined, m.unanswered, c.digest = true, nil, msg.Digest
	effects := []CoordinatorEffect{Announce{WorkerJoined{Worker: m.id, Device: m.device, Step: c.step}}}
	if c.members.joined() < c.start.Workers {
		return effects
	}
	return append(effects, c.next()...)
}

// lost gives a worker up; what says what became of it. The run ends with an error, after a checkpoint by one of
// those that are left. The worker is told in case it lives.
func (c *Coordinator) lost(m *member, what string) []CoordinatorEffect {
	err := fmt.Errorf("worker %s %s", m.id, what)
	c.members = c.members.without(m)
	c.fail(err)
	return append([]CoordinatorEffect{m.tell(Finish{Reason: err.Error()})}, c.goOnWithout()...)
}

// goOnWithout is what follows the loss of a member.
func (c *Coordinator) goOnWithout() []CoordinatorEffect {
	if c.phase == waiting || c.members.joined() == 0 {
		return c.end(nil) // nothing has been trained, or nobody holds it
	}
	switch c.phase {
	case computing, reducing:
		return c.giveUp()
	case applying:
		return c.allApplied()
	case evaluating:
		return c.evaluate() // its windows go to the others
	case snapshotting, saving:
		return c.next()
	}
	return nil
}

// failEarly ends a run that cannot begin.
func (c *Coordinator) failEarly(err error) []CoordinatorEffect {
	if c.phase != waiting {
		return nil
	}
	return c.end(err)
}
