package runner

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"andrea/checkpoints/dirstore"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// Tokens is a token stream.
type Tokens interface {
	// Read fills dst with the tokens from start on.
	Read(dst []uint32, start uint64) error
}

// CoordinatorOptions is everything a coordinator works with. All of it stays the
// caller's, who closes it after Coordinate has returned.
type CoordinatorOptions struct {
	Generation uint64
	Plan       *pipeline.Plan
	Start      pipeline.Start
	Journal    *Journal
	Store      *dirstore.Store
	Restored   *dirstore.Reader // the checkpoint of Start; nil before training
	Tokens     Tokens
	Tokenizer  []byte // tokenizer.json, kept with every checkpoint
	CreatedBy  string // program and version, for manifests
	Control    transport.Bus
	Bulk       transport.Bus
	Vectors    model.Vectors                    // passes over gradients; nil: in plain Go
	Stop       <-chan string                    // a reason to end at the last confirmed state
	Crew       <-chan pipeline.CoordinatorEvent // what is known of the workers' processes
	// Superseded, unless nil, returns an error when a later coordinator of the run has been
	// started; this one then ends and writes nothing more. It may be called from several
	// goroutines at once.
	Superseded func() error
	Notify     func(pipeline.Notice) // for people; called from the loop
	// Linger is how long workers that have not answered are told that the run has ended, at most.
	Linger time.Duration
	Log    *zap.Logger
}

// coordinator is the running loop.
type coordinator struct {
	CoordinatorOptions
	machine  *pipeline.Coordinator
	inbox    chan pipeline.CoordinatorEvent
	results  []pipeline.CoordinatorEvent // of effects, handled before the inbox
	outcome  *pipeline.Outcome
	lastStep time.Time // when the newest step was confirmed, or training began
	stepped  bool      // a step was confirmed
	board    board

	pulls      puller
	root       *root
	rooms      rooms
	summing    *summation // the newest one; nil: none
	background *background
	lastTick   time.Time
	farewells  farewells
}

// Coordinate runs a job from its start to its last step, a stop or a failure, which
// is part of the outcome. The error is about starting: nothing was trained.
func Coordinate(o CoordinatorOptions) (pipeline.Outcome, error) {
	o.Start.Generation = o.Generation
	if o.Vectors == nil {
		o.Vectors = model.Plain{}
	}
	c := &coordinator{
		CoordinatorOptions: o,
		machine:            pipeline.NewCoordinator(o.Plan, o.Start),
		inbox:              make(chan pipeline.CoordinatorEvent, inboxSize),
		background:         newBackground(),
		pulls:              puller{bus: o.Bulk},
		root:               newRoot(o.Plan.Layout, o.Plan.Spec.Batch.Lanes),
		farewells:          farewells{},
	}
	defer c.root.drop() // nobody waits for more of it
	defer c.background.end()
	unsubscribe, err := c.subscribe()
	defer unsubscribe()
	if err != nil {
		return pipeline.Outcome{}, fmt.Errorf("starting the coordinator of run %s: %w", o.Plan.Spec.Name, err)
	}
	c.loop()
	c.linger()
	return *c.outcome, nil
}

// subscribe opens the coordinator's subjects; the function closes them again.
func (c *coordinator) subscribe() (unsubscribe func(), err error) {
	run := c.Plan.Spec.Name
	stored := &storedState{layout: c.Plan.Layout, store: c.Store, reader: c.Restored, opened: c.Restored}
	var open []transport.Subscription
	unsubscribe = func() {
		for _, s := range open {
			_ = s.Unsubscribe() // the connection is closed next
		}
		stored.close()
	}
	for _, subscribe := range []func() (transport.Subscription, error){
		func() (transport.Subscription, error) {
			return c.Bulk.Subscribe(wire.Tokens(run, c.Generation, wire.AnyWorker), c.serveTokens)
		},
		func() (transport.Subscription, error) {
			return serveState(c.Bulk, wire.State(run, c.Generation, wire.AnyWorker), c.Plan.Layout.Buckets(), stored.bucket)
		},
		func() (transport.Subscription, error) {
			return serveGrad(c.Bulk, wire.Root(run, c.Generation, wire.AnyWorker), c.Plan.Layout.Buckets(), c.root.await)
		},
		func() (transport.Subscription, error) {
			return c.Control.Subscribe(wire.ToCoordinator(run, c.Generation, wire.AnyWorker), c.receive)
		},
		func() (transport.Subscription, error) {
			return c.Control.Subscribe(wire.Hello(run, wire.AnyWorker), c.receive)
		},
		func() (transport.Subscription, error) { return c.openBoard(run) },
	} {
		s, err := subscribe()
		if err != nil {
			return unsubscribe, err
		}
		open = append(open, s)
	}
	return unsubscribe, nil
}

// receive puts a control message into the inbox. Who sent it the subject tells, where the
// server's permissions let nobody pose as another.
func (c *coordinator) receive(m transport.Message) {
	msg, err := wire.DecodeControl(m.Data)
	if sender, _ := wire.Sender(m.Subject); err == nil && msg.Worker != sender {
		err = fmt.Errorf("it names worker %s as its sender: the subject names %q", msg.Worker, sender)
	}
	if err != nil {
		c.Log.Warn("message refused", zap.String("subject", m.Subject), zap.Error(err))
		return
	}
	_, hello := msg.Message.(pipeline.Hello)
	if !hello && msg.Generation != c.Generation {
		return
	}
	if _, alive := msg.Message.(pipeline.Heartbeat); alive {
		_ = m.Respond(nil) // here and not in the loop, which may wait for the disk; the next one follows
	}
	select {
	case c.inbox <- pipeline.FromWorker{Worker: msg.Worker, Incarnation: msg.Incarnation, Ticket: msg.Ticket, Message: msg.Message}:
	default:
		c.Log.Warn("message dropped: the inbox is full", zap.String("subject", m.Subject))
	}
}

// loop handles events until the run has ended.
func (c *coordinator) loop() {
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for c.outcome == nil {
		c.board.show(c.machine.Status())
		if len(c.results) > 0 {
			event := c.results[0]
			c.results = c.results[1:]
			c.execute(c.machine.Handle(event))
			continue
		}
		select {
		case event := <-c.inbox:
			c.execute(c.machine.Handle(event))
		case reason := <-c.Stop:
			c.execute(c.machine.Handle(pipeline.StopRequested{Reason: reason}))
		case event := <-c.Crew:
			c.execute(c.machine.Handle(event))
		case <-ticker.C:
			c.tick()
		}
	}
}

// pausedAfter is how long a loop may go without a tick before it counts as paused: the
// process was stopped, or waited for a slow disk, and heard nobody.
const pausedAfter = 3 * tickInterval

// tick passes time.
func (c *coordinator) tick() {
	if now := time.Now(); now.Sub(c.lastTick) > pausedAfter && !c.lastTick.IsZero() {
		c.lastTick = now
		c.execute(c.machine.Handle(pipeline.Paused{}))
	}
	c.lastTick = time.Now()
	if c.superseded() {
		return
	}
	c.execute(c.machine.Tick())
}

// superseded ends the run here when it has a later coordinator.
func (c *coordinator) superseded() bool {
	if c.Superseded == nil {
		return false
	}
	err := c.Superseded()
	if err != nil {
		c.results = append(c.results, pipeline.Superseded{Err: err})
	}
	return err != nil
}

// execute does what the state machine wants, in order.
func (c *coordinator) execute(effects []pipeline.CoordinatorEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case pipeline.Send:
			c.send(e)
		case pipeline.Reduce:
			c.reduce(e)
		case pipeline.Anticipate:
			c.anticipate(e)
		case pipeline.CancelReduce:
			c.cancelSum()
		case pipeline.WriteIntent:
			c.writeIntent(e)
		case pipeline.WriteCommit:
			c.writeCommit(e)
		case pipeline.WriteCheckpoint:
			c.startCheckpoint(e)
		case pipeline.Announce:
			c.announce(e.Notice)
		case pipeline.End:
			c.outcome = &e.Outcome
		}
	}
}

// send publishes a message. If it is lost the state machine repeats it.
func (c *coordinator) send(e pipeline.Send) {
	c.farewells.note(e)
	data, err := wire.EncodeControl(wire.Control{Generation: c.Generation, Worker: e.Worker, Incarnation: e.Incarnation, Ticket: e.Ticket, Message: e.Message})
	if err == nil {
		err = c.Control.Publish(wire.ToWorker(c.Plan.Spec.Name, e.Worker), data)
	}
	if err != nil {
		c.Log.Warn("message not sent", zap.String("worker", string(e.Worker)), zap.Error(err))
	}
}

func (c *coordinator) writeIntent(e pipeline.WriteIntent) {
	if c.superseded() {
		return
	}
	if err := c.Journal.WriteIntent(e.Intent); err != nil {
		c.results = append(c.results, pipeline.DiskFailed{Err: err})
		return
	}
	c.results = append(c.results, pipeline.IntentDurable{Step: e.Intent.Step})
}

func (c *coordinator) writeCommit(e pipeline.WriteCommit) {
	record := e.Record
	record.Seconds = max(time.Since(c.lastStep), time.Microsecond).Seconds() // some clocks are coarse
	record.TokensPerSecond = float64(record.Tokens) / record.Seconds
	if err := c.Journal.WriteCommit(record); err != nil {
		c.results = append(c.results, pipeline.DiskFailed{Err: err})
		return
	}
	c.announce(pipeline.StepDone{Record: record})
}

// announce logs a notice and passes it on.
func (c *coordinator) announce(n pipeline.Notice) {
	switch n := n.(type) {
	case pipeline.WorkerJoined:
		if !c.stepped {
			c.lastStep = time.Now() // training begins with the last of the first ones
		}
		c.Log.Info("worker joined", zap.String("worker", string(n.Worker)), zap.String("device", n.Device), zap.Int64("step", n.Step))
	case pipeline.WorkerLeft:
		c.Log.Warn("worker left", zap.String("worker", string(n.Worker)), zap.String("reason", n.Reason), zap.Bool("expelled", n.Expelled))
	case pipeline.StateChosen:
		c.Log.Info("going on", zap.Int64("step", n.Step), zap.Int("holders", n.Holders))
	case pipeline.StepDone:
		c.lastStep, c.stepped = time.Now(), true
		c.logStep(n)
	case pipeline.WorkerRefused:
		c.Log.Warn("worker refused", zap.String("worker", string(n.Worker)), zap.String("reason", n.Reason))
	case pipeline.AuditLeftOut:
		c.Log.Warn("an audit was left out: no second worker had gradient slots for the lease; 'andrea status --json' counts them",
			zap.Int64("step", n.Step), zap.Int("lo", n.Lo), zap.Int("hi", n.Hi))
	case pipeline.CheckpointSaved:
		c.Log.Info("checkpoint written", zap.Int64("step", n.Step), zap.String("path", n.Path), zap.Ints("deleted", n.Deleted))
	}
	c.board.note(n, c.machine.Status())
	c.Notify(n)
}

func (c *coordinator) logStep(n pipeline.StepDone) {
	r := n.Record
	fields := []zap.Field{
		zap.Int64("step", r.Step), zap.Float64("loss", float64(r.Loss)), zap.Float64("grad_norm", float64(r.GradNorm)),
		zap.Float32("lr", r.LR), zap.Int64("tokens", r.Tokens), zap.Uint64("epoch", r.Epoch),
		zap.Float64("seconds", r.Seconds), zap.Float64("tokens_per_second", r.TokensPerSecond),
		zap.Stringer("state_digest", r.StateDigest), zap.Bool("again", n.Again),
	}
	if r.ValLoss != nil {
		fields = append(fields, zap.Float64("val_loss", float64(*r.ValLoss)))
	}
	c.Log.Info("step", fields...)
}
