package runner

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// WorkerOptions is everything a worker works with. The connections stay the
// caller's; the engine is opened and closed by Work.
type WorkerOptions struct {
	Run         string
	ID          pipeline.WorkerID
	Incarnation string // of this life of the worker, made of a-z, 0-9 and -
	Control     transport.Bus
	Bulk        transport.Bus
	Class       string // engine class of OpenEngine's engines
	Device      string // for people
	// OpenEngine allocates an engine for microbatches of so many windows and so many
	// gradient slots.
	OpenEngine func(c model.Config, microbatch, slots int) (model.Engine, error)
	Vectors    model.Vectors // passes over gradients; nil: in plain Go
	// Leave is closed when the worker shall go as soon as it owes nothing; nil: it stays.
	Leave <-chan struct{}
	Log   *zap.Logger
}

// worker is the running loop.
type worker struct {
	WorkerOptions
	ctx     context.Context // done when the worker shall leave at once; the cause says why
	machine *pipeline.Worker
	inbox   chan pipeline.WorkerEvent

	silence  atomic.Int64          // ticks of hailing since the last message
	waiting  string                // why it was told to wait, last; only for receive
	pulls    atomic.Pointer[pulls] // of the present membership
	puller   puller
	progress atomic.Uint64 // counts what was got done

	job      pipeline.JobSpec
	config   model.Config
	layout   model.Layout
	engineMu sync.Mutex // the engine has one caller at a time: the loop, or who asks for what it holds
	engine   model.Engine
	held     int64 // step of the state in the engine, which others may read; -1: none
	grads    grads
	roots    [2][]float32 // buckets of the root on its way: one is written while the next one comes
	room     state        // a bucket that is being loaded; empty when none is
	ahead    *rootPull    // before its step is decided; nil: none
	rootSlot int          // of the root that was pulled
	initial  initial
	snapshot snapshot
	served   []transport.Subscription

	beat *heart // nil: not a member
	left bool
	err  error
}

// pulls is what the bulk requests under one membership end with.
type pulls struct {
	membership pipeline.Membership
	ctx        context.Context
	interrupt  context.CancelFunc
}

// Work takes part in a run until the coordinator ends it: nil when all steps are
// committed, pipeline.ErrStopped when the run ended before, pipeline.ErrLeft after a
// request to leave, else what went wrong. While there is no coordinator it looks for one,
// and keeps its state for it. It leaves at once when ctx is done.
func Work(ctx context.Context, o WorkerOptions) error {
	if o.Vectors == nil {
		o.Vectors = model.Plain{}
	}
	w := &worker{
		WorkerOptions: o, ctx: ctx, held: -1,
		machine: pipeline.NewWorker(o.Class, o.Device),
		inbox:   make(chan pipeline.WorkerEvent, inboxSize),
		puller:  puller{bus: o.Bulk},
	}
	w.renew()
	commands, err := w.listen()
	if err != nil {
		return fmt.Errorf("starting worker %s: %w", o.ID, err)
	}
	defer func() { _ = commands.Unsubscribe() }() // the connection is closed next
	w.loop()
	return w.close()
}

// listen opens the way to this worker, as soon as there is a connection.
func (w *worker) listen() (transport.Subscription, error) {
	for {
		s, err := w.Control.Subscribe(wire.ToWorker(w.Run, w.ID), w.receive)
		if err == nil || !transferFailed(err) {
			return s, err
		}
		select {
		case <-w.Leave:
			return nil, pipeline.ErrLeft{Reason: "it was asked to"}
		case <-w.ctx.Done():
			return nil, context.Cause(w.ctx)
		case <-time.After(tickInterval):
		}
	}
}

// receive puts a control message into the inbox. What ends the membership, or begins
// another, ends its bulk requests too: the loop may be waiting for an answer that will not come.
func (w *worker) receive(m transport.Message) {
	msg, err := wire.DecodeControl(m.Data)
	if err != nil {
		w.Log.Warn("message refused", zap.String("subject", m.Subject), zap.Error(err))
		return
	}
	if msg.Worker != w.ID || msg.Incarnation != w.Incarnation {
		return // for a former life
	}
	w.silence.Store(0)
	membership := pipeline.Membership{Generation: msg.Generation, Ticket: msg.Ticket}
	if !w.put(pipeline.Received{Membership: membership, Message: msg.Message}) {
		w.Log.Warn("message dropped: the inbox is full", zap.String("subject", m.Subject))
		return
	}
	p := w.pulls.Load()
	switch m := msg.Message.(type) {
	case pipeline.Wait:
		w.waits(m.Reason)
	case pipeline.Welcome:
		w.waiting = ""
		if membership.Follows(p.membership) {
			p.interrupt()
		}
	case pipeline.Finish, pipeline.Refuse, pipeline.Rejoin:
		if membership == p.membership {
			p.interrupt()
		}
	}
}

// waits says why the worker waits, when that has changed.
func (w *worker) waits(reason string) {
	if reason != w.waiting {
		w.waiting = reason
		w.Log.Info("waiting to take part", zap.String("reason", reason))
	}
}

// put puts an event into the inbox; false when it is full.
func (w *worker) put(e pipeline.WorkerEvent) bool {
	select {
	case w.inbox <- e:
		return true
	default:
		return false
	}
}

// loop alternates between messages and the engine's work, as pipeline.Worker wants.
func (w *worker) loop() {
	pause := firstHello
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	w.send(w.machine.Tick())
	for !w.left {
		if w.drain(); w.left {
			return
		}
		if work := w.machine.Work(); len(work) > 0 {
			w.execute(work)
			continue
		}
		w.pullAhead()
		select {
		case e := <-w.inbox:
			w.handle(e)
		case <-w.Leave:
			w.Leave = nil
			w.handle(pipeline.LeaveRequested{Reason: "it was asked to"})
		case <-ticker.C:
			if pause = min(2*pause, helloInterval); w.pulls.Load().membership.Generation != 0 {
				pause = tickInterval
			}
			ticker.Reset(pause)
			w.sayAlone()
			w.send(w.machine.Tick())
		case <-w.ctx.Done():
			w.left, w.err = true, context.Cause(w.ctx)
		}
	}
}

// aloneTicks is how long a worker hails without an answer before it says so.
const aloneTicks = 120

// sayAlone says once that nobody has answered for a while. The worker hails on: that costs next to
// nothing, and the run may have another start.
func (w *worker) sayAlone() {
	if w.machine.Hailing() && w.silence.Add(1) == aloneTicks {
		w.Log.Info("no coordinator answers: the run may have ended: waiting for its next start")
	}
}

// drain handles the events that have come.
func (w *worker) drain() {
	for !w.left {
		select {
		case e := <-w.inbox:
			w.handle(e)
		case <-w.Leave:
			w.Leave = nil
			w.handle(pipeline.LeaveRequested{Reason: "it was asked to"})
		case <-w.ctx.Done():
			w.left, w.err = true, context.Cause(w.ctx)
		default:
			return
		}
	}
}

// handle gives an event to the state machine.
func (w *worker) handle(e pipeline.WorkerEvent) {
	w.send(w.machine.Handle(e))
	w.renew()
}

// renew follows the machine's membership: signs of life are sent while it has one, and
// bulk requests end with it.
func (w *worker) renew() {
	membership, hailing := w.machine.Membership(), w.machine.Hailing()
	if p := w.pulls.Load(); p == nil || p.membership != membership || p.ctx.Err() != nil && !hailing {
		if p != nil {
			p.interrupt()
		}
		ctx, interrupt := context.WithCancel(w.ctx)
		w.pulls.Store(&pulls{membership: membership, ctx: ctx, interrupt: interrupt})
	}
	if w.beat != nil && (hailing || w.beat.membership != membership) {
		w.beat.stop()
		w.beat = nil
	}
	if w.beat == nil && !hailing && !w.left {
		w.beat = newHeart(w, membership, func(ctx context.Context, err error) { w.unheard(ctx, membership, err) })
	}
}

// unheard tells the loop that its coordinator answers no more, and that what it waits for
// will not come.
func (w *worker) unheard(ctx context.Context, membership pipeline.Membership, err error) {
	w.Log.Warn("the coordinator answers no more: looking for it, or for the next one", zap.Uint64("generation", membership.Generation), zap.Error(err))
	select {
	case w.inbox <- pipeline.Unheard{Membership: membership}:
	case <-ctx.Done():
		return
	}
	if p := w.pulls.Load(); p.membership == membership {
		p.interrupt()
	}
}

// send executes the effects of Handle and Tick.
func (w *worker) send(effects []pipeline.WorkerEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case pipeline.Reply:
			w.publish(e)
		case pipeline.Leave:
			w.left, w.err = true, e.Err
		}
	}
}

// control is a message as it goes on the wire.
func (w *worker) control(m pipeline.Membership, message pipeline.Message) wire.Control {
	return wire.Control{Generation: m.Generation, Ticket: m.Ticket, Worker: w.ID, Incarnation: w.Incarnation, Message: message}
}

// publish sends a message to the coordinator. If it is lost the coordinator asks
// again.
func (w *worker) publish(r pipeline.Reply) {
	subject := wire.ToCoordinator(w.Run, r.Membership.Generation, w.ID)
	if _, hello := r.Message.(pipeline.Hello); hello {
		subject = wire.Hello(w.Run, w.ID)
	}
	data, err := wire.EncodeControl(w.control(r.Membership, r.Message))
	if err == nil {
		err = w.Control.Publish(subject, data)
	}
	if err != nil {
		w.Log.Warn("message not sent", zap.String("subject", subject), zap.Error(err))
	}
}

// execute does the engine's work in order; the last effect has the result.
func (w *worker) execute(effects []pipeline.WorkerEffect) {
	for _, effect := range effects {
		membership := w.machine.Membership()
		event, err := w.do(effect)
		w.progress.Add(1)
		if err != nil {
			w.failed(membership, err)
			return
		}
		if event != nil {
			w.handle(event)
		}
	}
}

// failed tells the state machine that an effect could not be done, unless what has come
// meanwhile is the reason.
func (w *worker) failed(membership pipeline.Membership, err error) {
	w.drain()
	if w.left || w.machine.Hailing() || w.machine.Membership() != membership {
		return
	}
	if transferFailed(err) {
		w.Log.Warn("a transfer failed", zap.Error(err))
		w.handle(pipeline.TransferFailed{Err: err})
		return
	}
	w.Log.Error("work failed", zap.Error(err))
	w.handle(pipeline.WorkFailed{Err: err})
}

// close stops the heart and lets go of the engine and of what is served.
func (w *worker) close() error {
	if w.beat != nil {
		w.beat.stop()
	}
	w.pulls.Load().interrupt()
	w.stopAhead()
	for _, s := range w.served {
		_ = s.Unsubscribe() // the connection is closed next
	}
	w.engineMu.Lock()
	defer w.engineMu.Unlock()
	if w.engine != nil {
		err := w.engine.Close()
		w.engine = nil
		if err != nil && w.err == nil {
			w.err = fmt.Errorf("closing the engine: %w", err)
		}
	}
	return w.err
}
