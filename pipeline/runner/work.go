package runner

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"andrea/dataset/arrowfile"
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
	Log        *zap.Logger
}

// worker is the running loop.
type worker struct {
	WorkerOptions
	ctx     context.Context         // done when the worker shall leave at once; the cause says why
	leave   context.CancelCauseFunc // ends ctx
	machine *pipeline.Worker
	inbox   chan wire.Control

	pulls     context.Context // of bulk requests: done when ctx is, and when the run has ended
	interrupt func()          // ends pulls: nobody is left to answer them

	generation atomic.Uint64 // of the coordinator that welcomed this worker; 0: none yet
	job        pipeline.JobSpec
	config     model.Config
	layout     model.Layout
	engineMu   sync.Mutex // the engine has one caller at a time: the loop, or who asks for its contribution
	engine     model.Engine
	graded     int64 // step of the contribution in slot 0; 0: none
	snapshot   snapshot
	grads      transport.Subscription // who asks for the contribution

	beat *heart // nil: not welcomed yet
	left bool
	err  error
}

// Work takes part in a run until the coordinator ends it: nil when all steps are
// committed, pipeline.ErrStopped when the run ended before, else what went wrong. It
// leaves by itself when the coordinator that welcomed it answers no more, and at once when
// ctx is done.
func Work(ctx context.Context, o WorkerOptions) error {
	w := &worker{
		WorkerOptions: o,
		machine:       pipeline.NewWorker(o.Class, o.Device),
		inbox:         make(chan wire.Control, inboxSize),
	}
	w.ctx, w.leave = context.WithCancelCause(ctx)
	defer w.leave(nil)
	w.pulls, w.interrupt = context.WithCancel(w.ctx)
	defer w.interrupt()
	commands, err := o.Control.Subscribe(wire.ToWorker(o.Run, o.ID), w.receive)
	if err != nil {
		return fmt.Errorf("starting worker %s: %w", o.ID, err)
	}
	defer func() { _ = commands.Unsubscribe() }() // the connection is closed next
	w.loop()
	return w.close()
}

// receive puts a control message into the inbox.
func (w *worker) receive(m transport.Message) {
	msg, err := wire.DecodeControl(m.Data)
	if err != nil {
		w.Log.Warn("message refused", zap.String("subject", m.Subject), zap.Error(err))
		return
	}
	if msg.Worker != w.ID || msg.Incarnation != w.Incarnation {
		return // for a former life
	}
	select {
	case w.inbox <- msg:
	default:
		w.Log.Warn("message dropped: the inbox is full", zap.String("subject", m.Subject))
		return
	}
	if _, finish := msg.Message.(pipeline.Finish); finish && msg.Generation == w.generation.Load() {
		w.interrupt() // the loop may be waiting for an answer that will not come
	}
}

// loop alternates between messages and the engine's work, as pipeline.Worker wants.
func (w *worker) loop() {
	ticker := time.NewTicker(helloInterval)
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
		select {
		case msg := <-w.inbox:
			w.handle(msg)
		case <-ticker.C:
			if w.generation.Load() != 0 {
				ticker.Reset(tickInterval)
			}
			w.send(w.machine.Tick())
		case <-w.ctx.Done():
			w.left, w.err = true, context.Cause(w.ctx)
		}
	}
}

// drain handles the messages that have arrived.
func (w *worker) drain() {
	for !w.left {
		select {
		case msg := <-w.inbox:
			w.handle(msg)
		case <-w.ctx.Done():
			w.left, w.err = true, context.Cause(w.ctx)
		default:
			return
		}
	}
}

// handle gives a message to the state machine. A welcome binds the worker to the
// coordinator's generation; what older ones send is ignored.
func (w *worker) handle(msg wire.Control) {
	if _, welcome := msg.Message.(pipeline.Welcome); welcome && w.generation.Load() == 0 {
		w.generation.Store(msg.Generation)
		w.beat = newHeart(w, w.leave)
	}
	if bound := w.generation.Load(); bound != 0 && msg.Generation != bound {
		return
	}
	w.send(w.machine.Handle(pipeline.Received{Message: msg.Message}))
}

// send executes the effects of Handle and Tick.
func (w *worker) send(effects []pipeline.WorkerEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case pipeline.Reply:
			w.publish(e.Message)
		case pipeline.Leave:
			w.left, w.err = true, e.Err
		}
	}
}

// publish sends a message to the coordinator. If it is lost the coordinator asks
// again.
func (w *worker) publish(m pipeline.Message) {
	subject := wire.ToCoordinator(w.Run, w.generation.Load(), w.ID)
	if _, hello := m.(pipeline.Hello); hello {
		subject = wire.Hello(w.Run, w.ID)
	}
	data, err := wire.EncodeControl(wire.Control{Generation: w.generation.Load(), Worker: w.ID, Incarnation: w.Incarnation, Message: m})
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
		event, err := w.do(effect)
		if err != nil {
			if w.drain(); w.left {
				return // the run has ended, which is why a pull failed
			}
			w.Log.Error("work failed", zap.Error(err))
			w.send(w.machine.Handle(pipeline.WorkFailed{Err: err}))
			return
		}
		if event != nil {
			w.send(w.machine.Handle(event))
		}
	}
}

// do executes one effect.
func (w *worker) do(effect pipeline.WorkerEffect) (pipeline.WorkerEvent, error) {
	w.engineMu.Lock()
	defer w.engineMu.Unlock()
	switch e := effect.(type) {
	case pipeline.OpenEngine:
		return w.open(e)
	case pipeline.Zero:
		w.graded = 0
		return nil, w.engine.Zero(e.Slot)
	case pipeline.Accumulate:
		w.graded = e.Step
		return w.accumulate(e)
	case pipeline.Fold:
		return nil, w.engine.Fold(e.Dst, e.Src)
	case pipeline.Measure:
		return w.measure(e)
	case pipeline.PullRoot:
		return w.pullRoot(e)
	case pipeline.Update:
		digest, err := w.engine.Update(0, e.Scale, e.Hyper)
		return pipeline.Updated{Digest: digest}, err
	case pipeline.EvalWindow:
		return w.evaluate(e)
	case pipeline.TakeSnapshot:
		return pipeline.SnapshotCopied{}, w.snapshot.take(e.Step, w.layout, w.engine)
	}
	return nil, fmt.Errorf("executing %T: this worker cannot", effect)
}

// fetch pulls windows and returns them as one batch.
func (w *worker) fetch(r wire.TokensRequest, windows int) (model.Batch, error) {
	context := w.config.Context
	var rows [][]uint32
	err := pull(w.pulls, w.Bulk, wire.Tokens(w.Run, w.generation.Load(), w.ID), wire.EncodeRequest(r), func(payload []byte) (err error) {
		rows, err = arrowfile.DecodeWindows(payload, windows, context+1, w.config.Vocab)
		return err
	})
	if err != nil {
		return model.Batch{}, err
	}
	batch := model.Batch{Windows: windows, T: context}
	for _, row := range rows {
		batch.Tokens = append(batch.Tokens, row...)
	}
	return batch, nil
}

func (w *worker) accumulate(e pipeline.Accumulate) (pipeline.WorkerEvent, error) {
	windows := w.job.Batch.Microbatch
	batch, err := w.fetch(wire.TokensRequest{Step: e.Step, Lane: e.Lane, Microbatch: e.Microbatch}, windows)
	if err != nil {
		return nil, err
	}
	loss, err := w.engine.Accumulate(e.Slot, batch)
	start := e.Microbatch * len(batch.Tokens)
	return pipeline.Accumulated{Loss: loss, TokenDigest: model.TokenDigestOf(start, batch.Tokens)}, err
}

func (w *worker) evaluate(e pipeline.EvalWindow) (pipeline.WorkerEvent, error) {
	batch, err := w.fetch(wire.TokensRequest{Validation: true, Microbatch: e.Window}, 1)
	if err != nil {
		return nil, err
	}
	loss, err := w.engine.Eval(batch)
	return pipeline.WindowEvaluated{Loss: loss}, err
}

func (w *worker) measure(e pipeline.Measure) (pipeline.WorkerEvent, error) {
	var m pipeline.Measured
	for i := range w.layout.Buckets() {
		state, err := w.engine.StateDigest(i)
		if err != nil {
			return nil, err
		}
		grad, err := w.engine.GradDigest(0, i)
		if err != nil {
			return nil, err
		}
		m.StateDigest, m.GradDigest = m.StateDigest.Add(state), m.GradDigest.Add(grad)
		if !e.SumSquares {
			continue
		}
		sum, err := w.engine.SumSquares(0, i)
		if err != nil {
			return nil, err
		}
		m.SumSquares = append(m.SumSquares, pipeline.Float(sum))
	}
	return m, nil
}

// close stops the heart and lets go of the engine and of what is served.
func (w *worker) close() error {
	if w.beat != nil {
		w.beat.stop()
	}
	w.snapshot.close()
	if w.grads != nil {
		_ = w.grads.Unsubscribe() // the connection is closed next
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
