package sim

import (
	"errors"
	"fmt"

	"andrea/model"
	"andrea/pipeline"
)

// How many signs of life may stay without an answer, and how many when nobody listens any
// more, which the network tells at once.
const (
	unheardTicks = 20
	nobodyTicks  = 3
)

// worker is a place where a worker runs, one life after the other.
type worker struct {
	w   *world
	id  pipeline.WorkerID
	cut cut

	life    int // counts its processes
	machine *pipeline.Worker
	alive   bool
	paused  bool // it stands still, as a whole
	hung    bool // its engine does; the rest goes on
	slow    int64
	inbox   []pipeline.WorkerEvent
	resume  func() // what happens when it stands still no more

	work     []pipeline.WorkerEffect // being executed
	busy     bool
	doing    activity
	progress uint64
	unheard  int // signs of life without an answer
	nobody   int // of which nobody listened
	leaving  bool
	hailed   pipeline.Membership // that it had when it said hello last; the zero value: it has not
	steady   bool                // it has hailed no more since it joined: it has what it answered for

	engine   model.Engine
	state    int64 // that the engine holds; -1: none
	parts    []contribution
	snapshot stored
	snapped  int64 // step of snapshot

	flaws  flaws
	mute   int64 // step of which its answers are lost; 0: none
	guilty bool  // something of it has been wrong in this life
	uneasy bool  // something has kept it from work in this life
}

// contribution is what a slot holds for others to pull; step 0: nothing.
type contribution struct {
	step   int64
	lo, hi int
}

// flaws are what is wrong with a worker's device.
type flaws struct {
	transfer bool // its next transfer fails
	garbled  bool // its next transfer arrives damaged
	device   bool // its next work fails
	loss     bool // its next loss is no number
	gradient bool // its next contribution is wrong
	patient  bool // not its next one, but the next of lanes that another worker computes as well
	infinite bool // its next contribution has no finite norm
	spoiled  bool // a contribution has been, after it was measured
}

func (k *worker) incarnation() string { return fmt.Sprintf("life-%d", k.life) }

// begin starts a new process.
func (k *worker) begin() {
	k.life++
	k.machine = pipeline.NewWorker(class, "a simulation")
	k.alive, k.paused, k.hung, k.slow, k.leaving = true, false, false, 1, false
	k.inbox, k.resume, k.work, k.busy, k.doing = nil, nil, nil, false, idle
	k.engine, k.state, k.parts, k.snapped, k.flaws = nil, -1, nil, -1, flaws{}
	k.progress, k.unheard, k.nobody, k.guilty, k.uneasy = 0, 0, 0, false, false
	k.steady, k.mute, k.hailed = false, 0, pipeline.Membership{}
	k.w.tracef("%s begins life %d", k.id, k.life)
	life := k.life
	k.w.clock.after(k.w.chance.between(1, tick), func() { k.beat(life) })
}

// end ends the process. The supervisor starts another.
func (k *worker) end(why string) {
	if !k.alive {
		return
	}
	k.w.tracef("%s ends: %s", k.id, why)
	k.alive, k.engine, k.resume = false, nil, nil
	if c := k.w.current(); k.w.tells && c != nil {
		k.w.clock.after(k.w.chance.between(1, 2*tick), func() {
			c.receive(pipeline.WorkerLost{Worker: k.id, Reason: why})
		})
	}
	k.w.clock.after(k.w.chance.between(tick, 20*tick), func() {
		if !k.alive {
			k.begin()
		}
	})
}

// beat is a tick of the process: a sign of life, whatever it does, and a tick of the
// machine when it is idle.
func (k *worker) beat(life int) {
	if !k.alive || k.life != life {
		return
	}
	k.w.clock.after(tick, func() { k.beat(life) })
	if k.paused {
		return
	}
	if m := k.machine.Membership(); m.Ticket > 0 && !k.machine.Hailing() {
		if c := k.w.coordinator(m.Generation); !c.alive && !k.cut.toCoordinator && !k.cut.toWorker {
			k.nobody++
		}
		if k.unheard++; k.unheard > unheardTicks || k.nobody >= nobodyTicks {
			k.unheard, k.nobody = 0, 0
			k.inbox = append(k.inbox, pipeline.Unheard{Membership: m})
		}
		k.send(pipeline.Reply{Membership: m, Message: pipeline.Heartbeat{Progress: k.progress}})
	}
	if !k.busy {
		k.reply(k.machine.Tick())
		k.pump()
	}
}

// twinLife is the incarnation of a twin.
const twinLife = "a-twin"

// twin has another process say hello as this worker until a time, or until the faults are over.
// Whatever it is told, it does nothing else.
func (k *worker) twin(until int64) {
	if k.w.calm || k.w.clock.now > until {
		return
	}
	hello := pipeline.Reply{Message: pipeline.Hello{Protocol: pipeline.Protocol, Class: class, Device: "a twin"}}
	for _, c := range k.w.coordinators {
		k.w.network.send(k, false, func() { c.hear(k, twinLife, hello) })
	}
	k.w.clock.after(tick, func() { k.twin(until) })
}

// heard takes the answer to a sign of life.
func (k *worker) heard(m pipeline.Membership) {
	if k.alive && m == k.machine.Membership() {
		k.unheard, k.nobody = 0, 0
	}
}

// receive takes an event from outside.
func (k *worker) receive(e pipeline.WorkerEvent) {
	if !k.alive {
		return
	}
	k.inbox = append(k.inbox, e)
	k.pump()
}

// pump handles what has arrived, and then works.
func (k *worker) pump() {
	for k.alive && !k.paused && !k.busy {
		if len(k.inbox) > 0 {
			e := k.inbox[0]
			k.inbox = k.inbox[1:]
			k.w.tracef("%s <- %T %+v", k.id, e, e)
			before := k.machine.Membership()
			k.reply(k.machine.Handle(e))
			if now := k.machine.Membership(); before != now && !now.Follows(before) {
				k.w.failf("%s goes back from membership %+v to %+v", k.id, before, now)
			}
			continue
		}
		if k.work = k.machine.Work(); len(k.work) == 0 {
			k.doing = idle
			if k.machine.Hailing() {
				k.doing = hailing
			}
			return
		}
		k.start()
	}
}

// start begins the next piece of work; it is done when its time is over.
func (k *worker) start() {
	effect := k.work[0]
	k.work = k.work[1:]
	k.busy, k.doing = true, activityOf(effect)
	if slot, overwritten := overwrites(effect); overwritten && slot < len(k.parts) {
		k.parts[slot] = contribution{}
	}
	if load, ok := effect.(pipeline.LoadBucket); ok && load.Bucket == 0 {
		k.state = -1
	}
	life := k.life
	k.w.clock.after(k.cost(effect), func() {
		if k.alive && k.life == life {
			k.whenAwake(func() { k.finish(effect) })
		}
	})
}

// whenAwake does something now, or when the process or its engine goes on.
func (k *worker) whenAwake(do func()) {
	if k.paused || k.hung {
		k.resume = do
		return
	}
	do()
}

// wake lets the process and its engine go on.
func (k *worker) wake() {
	k.paused, k.hung = false, false
	if do := k.resume; do != nil && k.alive {
		k.resume = nil
		do()
	}
	k.pump()
}

// finish takes the result of a piece of work.
func (k *worker) finish(effect pipeline.WorkerEffect) {
	event, err := k.execute(effect)
	k.busy = false
	k.progress++
	var transfer transferError
	switch {
	case errors.As(err, &transfer):
		event = pipeline.TransferFailed{Err: err}
	case err != nil:
		event = pipeline.WorkFailed{Err: err}
	}
	if event != nil {
		k.work = nil
		k.w.tracef("%s did %+v: %+v", k.id, effect, event)
		k.reply(k.machine.Handle(event))
	}
	if k.alive && len(k.work) > 0 {
		k.start()
		return
	}
	k.pump()
}

// reply executes what Handle and Tick return.
func (k *worker) reply(effects []pipeline.WorkerEffect) {
	if k.machine.Hailing() {
		k.steady = false
	}
	for _, effect := range effects {
		switch e := effect.(type) {
		case pipeline.Reply:
			switch m := e.Message.(type) {
			case pipeline.Joined:
				k.steady, k.state = true, m.Step
			case pipeline.Answer:
				if m.Step == k.mute {
					continue
				}
			}
			k.send(e)
		case pipeline.Leave:
			k.w.judgeLeave(k, e.Err)
			k.end(fmt.Sprintf("it leaves: %v", e.Err))
		}
	}
}

// send sends a message to the coordinator of its membership, a hello to all.
func (k *worker) send(e pipeline.Reply) {
	incarnation := k.incarnation()
	_, hello := e.Message.(pipeline.Hello)
	if hello {
		k.hailed = k.machine.Membership()
	}
	for _, c := range k.w.coordinators {
		if !hello && c.generation != e.Membership.Generation {
			continue
		}
		c.answers(k, e)
		k.w.network.send(k, false, func() { c.hear(k, incarnation, e) })
	}
}

// transferError marks what could not be got from another process.
type transferError struct{ what string }

func (e transferError) Error() string { return e.what }
