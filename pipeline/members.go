package pipeline

import (
	"fmt"
	"slices"

	"andrea/model"
)

// A member has three clocks, in ticks. Each begins anew with another sign and says another thing:
//
//	clock   begins anew with                counts                          at its end
//	quiet   any message of it               always, outside too             it is gone: lost after Start.Silence, and
//	                                                                        forgotten outside after outsideTicks
//	silent  the question, and its repeats   while an answer is owed         the question may be lost: it is repeated
//	                                                                        after repeatTicks
//	still   the question, and more          while an answer is owed         it lives and gets nothing done: lost
//	        progress in a heartbeat                                         after patience
//
// So quiet is the shortest one that ends a membership: heartbeats come whatever the member computes. A
// repeated question begins silent anew and not still, or a member that does nothing would be asked for ever.
// pause and pace measure still, so that patience is a multiple of what the member usually needs.

// How long a member may get nothing done while it owes an answer, in ticks.
const (
	firstTicks = 1200 // before its pace is known
	stillTicks = 120  // when it does not compute
	paceTicks  = 20   // at least, when its pace is known
	paceFactor = 6    // times the longest pause of its first leases
)

// member is a worker that has said hello.
type member struct {
	id          WorkerID
	incarnation string
	device      string
	ticket      int64   // of its welcome; 0: it waits outside
	joined      bool    // it holds the group's state; false: it loads it
	unanswered  Message // what it was asked and has not answered; nil: nothing
	silent      int     // ticks since unanswered was last sent
	quiet       int     // ticks since its last sign of life
	leaving     bool    // it wants to go
	contested   int     // ticks since another process said hello as this worker; 0: none has; -1: that is announced

	late int // states that it did not load in time, as a joiner

	held checkpoint // the state that it said it holds; step -1: none

	share         *share  // of the step in flight that it computes; nil: none
	contributions int     // of the step in flight that it has answered
	seconds       float64 // for a lane, as measured; 0: not known yet

	progress uint64 // as it last reported
	still    int    // ticks since, while it owes an answer
	pace     int    // longest such pause within a lease that it answered; 0: none yet
	pause    int    // longest one within the lease that it computes
}

// members are workers in the order in which they came.
type members []*member

func (ms members) find(id WorkerID) *member {
	for _, m := range ms {
		if m.id == id {
			return m
		}
	}
	return nil
}

// answered reports that no member with the state owes an answer.
func (ms members) answered() bool {
	return !slices.ContainsFunc(ms, func(m *member) bool { return m.joined && m.unanswered != nil })
}

// holding are those with the group's state.
func (ms members) holding() (hs members) {
	for _, m := range ms {
		if m.joined {
			hs = append(hs, m)
		}
	}
	return hs
}

// awaited reports that the next step waits for a joiner to load the state. For one that was
// late before it is awaited ever more rarely, so that a slow link holds nobody up.
func (ms members) awaited(step int64) bool {
	return slices.ContainsFunc(ms, func(m *member) bool { return !m.joined && step%(1<<min(m.late, 20)) == 0 })
}

// ids are the members' names.
func (ms members) ids() (ids []WorkerID) {
	for _, m := range ms {
		ids = append(ids, m.id)
	}
	return ids
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

// outsideTicks is how long a worker that does not repeat its hello is remembered.
const outsideTicks = 4 * helloTicks

// age passes a tick for workers outside and returns those that are still there.
func (ms members) age() (rest members) {
	for _, m := range ms {
		if m.quiet++; m.quiet <= outsideTicks {
			rest = append(rest, m)
		}
	}
	return rest
}

// forgive forgets that nothing was heard.
func (ms members) forgive() {
	for _, m := range ms {
		m.quiet, m.still = 0, 0
	}
}

// ask sends a message that will be repeated until its answer arrives.
func (m *member) ask(msg Message) CoordinatorEffect {
	m.unanswered, m.silent = msg, 0
	return m.tell(msg)
}

// tell sends a message once.
func (m *member) tell(msg Message) CoordinatorEffect {
	return Send{Worker: m.id, Incarnation: m.incarnation, Ticket: m.ticket, Message: msg}
}

// settle takes the answer to what the member was asked, or does without.
func (m *member) settle() { m.unanswered, m.share, m.still, m.pause = nil, nil, 0, 0 }

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

// age passes a tick and returns why the member is given up; empty: it is not.
func (m *member) age(silence int) string {
	if m.contested > 0 {
		m.contested++
	}
	if m.quiet++; m.quiet >= silence {
		return "was lost: it has given no sign of life"
	}
	if m.unanswered == nil {
		return ""
	}
	m.still++
	m.pause = max(m.pause, m.still)
	if m.still >= m.patience() {
		return "was lost: it lives and gets nothing done"
	}
	return ""
}

// patience is how many ticks the member may get nothing done.
func (m *member) patience() int {
	switch {
	case m.share == nil:
		return stillTicks
	case m.pace == 0:
		return firstTicks
	}
	return max(paceTicks, paceFactor*m.pace)
}

// advanced takes in how much the member has got done.
func (m *member) advanced(progress uint64) {
	if progress != m.progress {
		m.progress, m.still = progress, 0
	}
}

// maxOutside is how many workers may wait until no new one is remembered. Members that begin another life
// come on top.
const maxOutside = 1 << 10

// hello takes in a worker that wants to take part, and one that has lost contact or
// begun another life.
func (c *Coordinator) hello(e FromWorker, h Hello) (effects []CoordinatorEffect) {
	m := c.members.find(e.Worker)
	switch {
	case h.Generation > c.start.Generation:
		return nil // it belongs to a later coordinator of the run
	case m == nil && c.outside.find(e.Worker) == nil && len(c.outside) >= maxOutside:
		return nil // it is new, and enough wait
	}
	if m != nil {
		switch {
		case !m.outOfTouch(e.Incarnation, h, c.start.Generation):
			return nil // sent before it was welcomed; an unanswered welcome is repeated
		case e.Incarnation != m.incarnation && m.quiet < restartTicks:
			return c.contest(m, e)
		}
		effects = c.lost(m, "was lost: it has lost contact, or was started again")
		if c.phase == ended {
			return effects
		}
	}
	if reason := c.refusal(h); reason != "" {
		return append(effects,
			Send{Worker: e.Worker, Incarnation: e.Incarnation, Message: Refuse{reason}},
			Announce{WorkerRefused{Worker: e.Worker, Reason: reason}})
	}
	c.class = h.Class
	m = &member{id: e.Worker, incarnation: e.Incarnation, device: h.Device, held: checkpoint{step: -1}}
	if h.Holds {
		m.held = checkpoint{h.Step, h.Digest}
	}
	c.outside = append(c.outside.without(c.outside.find(e.Worker)), m)
	effects = append(effects, c.gather()...)
	effects = append(effects, c.admit()...)
	if c.outside.find(m.id) == m && c.phase != ended {
		effects = append(effects, m.tell(Wait{c.whyWait()}))
	}
	return effects
}

// contest lets a process wait that says hello as a worker of which another process gives signs of
// life. That one may just have ended, and be silent soon; when both live, each would else end the
// other's membership for ever.
func (c *Coordinator) contest(m *member, e FromWorker) []CoordinatorEffect {
	reason := fmt.Sprintf("another process takes part as worker %s: if both shall, give each an id of its own", m.id)
	effects := []CoordinatorEffect{Send{Worker: e.Worker, Incarnation: e.Incarnation, Message: Wait{reason}}}
	switch {
	case m.contested == 0:
		m.contested = 1
	case m.contested > contestTicks:
		m.contested = -1
		effects = append(effects, Announce{WorkerRefused{Worker: e.Worker, Reason: reason}})
	}
	return effects
}

// outOfTouch reports that a hello was sent by another life of the member, or after it
// was welcomed under its ticket.
func (m *member) outOfTouch(incarnation string, h Hello, generation uint64) bool {
	return incarnation != m.incarnation || h.Generation == generation && h.Ticket == m.ticket
}

// refusal is why a worker cannot take part.
func (c *Coordinator) refusal(h Hello) string {
	wanted, precision := c.plan.Spec.Engine, c.plan.Spec.Precision
	switch {
	case h.Protocol != Protocol:
		return fmt.Sprintf("it speaks protocol %d: this coordinator speaks %d: use one version for both", h.Protocol, Protocol)
	case !model.ClassFits(h.Class, wanted):
		return fmt.Sprintf("its engine class is %s: the job asks for %s", h.Class, wanted)
	case model.ClassPrecision(h.Class) != precision:
		return fmt.Sprintf("its engine class is %s: the job's precision is %s", h.Class, precision)
	case c.class != "" && c.class != h.Class:
		return fmt.Sprintf("its engine class is %s: the run began with %s: another class computes other bits", h.Class, c.class)
	}
	return ""
}

// whyWait is what a worker outside is told.
func (c *Coordinator) whyWait() string {
	switch {
	case c.phase == gathering:
		return "the coordinator gathers the workers that were there before"
	case len(c.members) >= c.room():
		return fmt.Sprintf("the run has as many workers as it can use: %d lanes and one to spare", c.plan.Spec.Batch.Lanes)
	}
	return "the next step has to be confirmed first"
}

// room is how many members there may be: one for every lane, and one that can take
// over from a lost one at once.
func (c *Coordinator) room() int { return c.plan.Spec.Batch.Lanes + 1 }

// admit welcomes workers from outside. It can be done while a state is frozen: before
// the next step is decided.
func (c *Coordinator) admit() (effects []CoordinatorEffect) {
	if c.phase != waiting && c.phase != computing && c.phase != reducing {
		return nil
	}
	for _, m := range slices.Clone(c.outside) {
		if len(c.members) >= c.room() || !c.loadable(m) {
			continue
		}
		c.outside = c.outside.without(m)
		c.members = append(c.members, m)
		m.quiet = 0
		effects = append(effects, c.welcome(m))
	}
	return effects
}

// loadable reports that a worker can get at the state to join.
func (c *Coordinator) loadable(m *member) bool {
	return c.step == 0 || c.stored() || len(c.members.holding()) > 0 || m.held == checkpoint{c.step, c.digest}
}

// stored reports that the state to join is a checkpoint.
func (c *Coordinator) stored() bool { return c.written.step == c.step && c.step >= 0 }

// welcome gives a member a new ticket and the state to hold.
func (c *Coordinator) welcome(m *member) CoordinatorEffect {
	c.tickets++
	m.ticket, m.joined = c.tickets, false
	m.settle()
	w := Welcome{Job: c.job, Step: c.step, Digest: c.digest, Holders: c.members.holding().ids(), Stored: c.stored()}
	if c.step == 0 && !w.Stored {
		w.Holders = nil // computing it is faster than pulling it
	}
	return m.ask(w)
}

// loads reports that the member was welcomed to state step.
func (m *member) loads(step int64) bool {
	w, ok := m.unanswered.(Welcome)
	return ok && w.Step == step
}

// joined takes in a member that holds the state. One that is too late for the step that
// is being decided is welcomed again after it.
func (c *Coordinator) joined(m *member, msg Joined) []CoordinatorEffect {
	if m.joined || m.unanswered == nil {
		return nil
	}
	if c.phase > reducing {
		m.still = 0 // it has got done what it was asked to
		return nil
	}
	// State 0 has no digest before the first worker has computed it from the seed.
	if msg.Step != c.step || c.digest != (model.Digest{}) && c.digest != msg.Digest {
		return c.wrongStart(m, msg)
	}
	m.settle()
	m.joined, c.digest, c.nobody = true, msg.Digest, ""
	effects := []CoordinatorEffect{Announce{WorkerJoined{Worker: m.id, Device: m.device, Step: c.step}}}
	effects = append(effects, c.admit()...) // others may load from it
	switch c.phase {
	case waiting:
		return append(effects, c.begin()...)
	case computing:
		return append(effects, c.assign()...)
	}
	return append(effects, c.decide()...)
}

// wrongStart expels a joiner with another state than the group's. When two differ about the
// state before training nobody knows which one is right.
func (c *Coordinator) wrongStart(m *member, msg Joined) []CoordinatorEffect {
	what := fmt.Sprintf("loaded state %d with digest %s: the run has state %d with digest %s", msg.Step, msg.Digest, c.step, c.digest)
	if c.step == 0 && !c.stored() && c.phase == waiting && len(c.members.holding()) < 2 {
		return c.end(fmt.Errorf("worker %s %s", m.id, what))
	}
	return c.expel(m, what)
}

// leaving lets a member go once it owes nothing.
func (c *Coordinator) leaving(m *member, msg Leaving) []CoordinatorEffect {
	m.leaving = true
	others := len(c.members.holding()) > 1
	if !m.joined || c.phase <= computing && others && m.share == nil && m.contributions == 0 {
		return c.dismiss(m, "left", released, false)
	}
	return nil // at the end of the step
}

// released lets a member go that wants to.
var released = Rejoin{"released"}

// lost gives a worker up; what says what became of it. It is told in case it lives.
func (c *Coordinator) lost(m *member, what string) []CoordinatorEffect {
	return c.dismiss(m, what, Rejoin{what}, false)
}

// expel ends the part of a worker that computed something wrong.
func (c *Coordinator) expel(m *member, what string) []CoordinatorEffect {
	return c.dismiss(m, what, Refuse{fmt.Sprintf("worker %s %s", m.id, what)}, true)
}

// dismiss takes a member out of the group, with what it computed of the step in flight, and
// goes on with the others. When nobody is left who holds the group's state all are gathered anew, to go on from
// the highest state that one of them or a checkpoint has, unless there is none to be lost.
func (c *Coordinator) dismiss(m *member, what string, last Message, expelled bool) (effects []CoordinatorEffect) {
	if last != nil {
		effects = append(effects, m.tell(last))
	}
	effects = append(effects, Announce{WorkerLeft{Worker: m.id, Reason: what, Expelled: expelled}})
	c.members = c.members.without(m)
	if m.joined && !expelled && !m.leaving {
		c.expect(m.id)
	}
	counted := c.withdraw(m)
	switch {
	case len(c.members.holding()) > 0, // they hold the state
		c.phase == gathering,                        // no state is chosen yet
		c.phase == saving && c.saved.step == c.step: // it was copied, and is being written
		return append(effects, c.goOnWithout(counted)...)
	case c.phase == waiting && slices.ContainsFunc(c.members, c.loadable):
		return effects // those that are to load it need nobody for it: it is the seed's, a checkpoint, or what they hold
	}
	return append(effects, c.regather()...)
}

// goOnWithout is what follows the loss of a member while others hold the state; counted
// says that something of it counted in the step in flight.
func (c *Coordinator) goOnWithout(counted bool) []CoordinatorEffect {
	switch c.phase {
	case waiting:
		return c.begin()
	case computing:
		return c.assign()
	case reducing:
		if c.reduced == nil && counted {
			return c.resum()
		}
		return c.decide()
	case applying:
		return c.allApplied()
	case evaluating:
		return c.evaluate() // its windows go to the others
	case snapshotting, saving:
		return c.next()
	}
	return nil
}
