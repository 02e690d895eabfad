package launch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/pipeline/wire"
	"andrea/telemetry"
	"andrea/vfs"
)

// WorkerOptions say where a worker takes part.
type WorkerOptions struct {
	FS     vfs.FS
	Engine Engine
	NATS   Remote
	Run    string            // empty: the one in NATS.Creds, or else the only one on the server
	Name   pipeline.WorkerID // of the worker: its id, or what its id begins with where a run's pool lets it in
	Wait   bool              // when the run has ended wait for its next start, instead of returning
	HTTP   string            // address to answer probes at; empty: nowhere
	Log    io.Writer         // JSON lines
	// Leave, when it is done, makes the worker go as soon as it owes nothing to the run, with
	// pipeline.ErrLeft; nil: it stays.
	Leave context.Context
}

// leave is Leave, or a context that is never done.
func (o WorkerOptions) leave() context.Context {
	if o.Leave == nil {
		return context.Background()
	}
	return o.Leave
}

// either returns a context that is done when one of two is.
func either(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(a)
	stop := context.AfterFunc(b, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Work takes part in a run over the network until it ends, or, with Wait, in all its starts
// until ctx is done: see runner.Work for the error. When its device fails it takes part anew, with an engine
// that it opens anew, unless that happens too often or cannot be done: then another process may. It waits for server and coordinator as long as
// they are not there. When ctx is done the worker leaves at once.
func Work(ctx context.Context, o WorkerOptions) error {
	run, access, err := o.NATS.worker(o.FS, o.Name)
	if err == nil && o.Run != "" && run != "" && o.Run != run {
		err = KeyError{fmt.Errorf("%s is of run %s: it does not let into run %s", o.NATS.Creds, run, o.Run)}
	}
	if err != nil {
		return fmt.Errorf("joining a run: %w", err)
	}
	if run == "" {
		run = o.Run
	}
	var link link
	stop, err := listenProbes(o.HTTP, link.probes())
	if err != nil {
		return err
	}
	defer func() { _ = stop() }() // the process ends
	var last start
	var lived lives
	for {
		began := time.Now()
		err := o.takePart(ctx, run, access, &link, &last)
		again := o.Wait && hasEnded(err) || errors.Is(err, errLeft)
		if errors.Is(err, model.ErrDevice) && lived.again(time.Since(began)) {
			again, last.generation = true, 0 // the coordinator is still there
		}
		if !again || ctx.Err() != nil || o.leave().Err() != nil {
			return keyError(err)
		}
	}
}

// start is one start of a run's coordinator.
type start struct {
	run        string
	generation uint64
}

// errLeft marks that a run that was found on a server has gone again before this worker joined.
var errLeft = errors.New("the run has gone")

// link is what a worker's probes know of its server.
type link struct {
	bus    atomic.Pointer[transport.Bus] // while the worker has one
	looked atomic.Bool                   // the server has answered which runs it has
}

// probes: a worker has started when it runs at all, since it waits for everybody else, and is ready when
// its server answers.
func (l *link) probes() probes {
	return probes{
		started: func(context.Context) error { return nil },
		ready: func(ctx context.Context) error {
			bus := l.bus.Load()
			if bus == nil {
				if l.looked.Load() {
					return nil
				}
				return errors.New("the server has not answered yet")
			}
			if _, err := (*bus).Request(ctx, wire.Runs, nil); err != nil && !errors.Is(err, transport.ErrNoResponders) {
				return err
			}
			return nil
		},
	}
}

// hasEnded reports that a worker was sent off in peace.
func hasEnded(err error) bool {
	var stopped pipeline.ErrStopped
	return err == nil || errors.As(err, &stopped)
}

// takePart works for one start of a run, newer than the last one, and remembers it. Without the
// name of a run it is the one that the server has.
func (o WorkerOptions) takePart(ctx context.Context, run string, access natsbus.ConnOptions, link *link, last *start) (err error) {
	waiting, cancel := either(ctx, o.leave())
	defer cancel()
	found := run == ""
	if found {
		if run, err = o.findRun(waiting, access, link); err != nil {
			return fmt.Errorf("joining a run: %w", err)
		}
	}
	if run != last.run {
		*last = start{run: run}
	}
	var p process
	id := access.Credential.Role
	p.log, err = telemetry.New(telemetry.Options{Run: run, Process: id, File: unsynced{o.Log}, Publish: p.publish})
	if err != nil {
		return err
	}
	// What cannot be sent any more nobody waits for: the coordinator takes its server along
	// when it goes, often before its workers have closed their connections.
	defer func() { _ = p.close() }()
	p.logEngine(o.Engine)
	p.log.Info("connecting; the coordinator need not be there yet", zap.String("address", access.URL))
	if err := p.connect(waiting, access, id); err != nil {
		return fmt.Errorf("joining run %s: %w", run, err)
	}
	link.bus.Store(&p.control)
	defer link.bus.Store(nil)
	report, err := p.await(waiting, *last, found)
	if err != nil {
		return fmt.Errorf("joining run %s: %w", run, err)
	}
	last.generation = report.Generation
	engine, err := o.Engine.In(report.Precision)
	if err != nil {
		return fmt.Errorf("joining run %s: %w", run, err)
	}
	err = p.work(ctx, run, pipeline.WorkerID(id), engine, o.leave().Done())
	if errors.Is(err, model.ErrDevice) {
		p.logAnew(err)
	}
	return err
}

// logAnew says that this process tries to go on after its device has failed.
func (p *process) logAnew(err error) {
	p.log.Warn("the device has failed: its engine is opened anew, if that can be done", zap.Error(err))
}

// logEngine says what this process will compute on.
func (p *process) logEngine(e Engine) {
	fields := []zap.Field{zap.String("engine", e.Class), zap.String("device", e.Device)}
	if e.Chosen != "" {
		fields = append(fields, zap.String("chosen", e.Chosen))
	}
	p.log.Info("computing on", fields...)
}

// unsynced is a log's writer that cannot be synced, such as standard error.
type unsynced struct{ io.Writer }

// Sync does nothing.
func (unsynced) Sync() error { return nil }

// workHere is the worker of a run in this process.
func (r *Run) workHere(ctx context.Context, n *node) error {
	engine, err := r.env.Engine.In(r.Plan.Spec.Precision)
	if err != nil {
		return err
	}
	n.worker.logEngine(engine)
	var lived lives
	for {
		began := time.Now()
		err = n.worker.work(ctx, r.Plan.Spec.Name, localWorker, engine, nil)
		if !errors.Is(err, model.ErrDevice) || ctx.Err() != nil || !lived.again(time.Since(began)) {
			break
		}
		n.worker.logAnew(err)
	}
	if stopped := (pipeline.ErrStopped{}); errors.As(err, &stopped) {
		return nil
	}
	return err
}

// work runs a worker's loop.
func (p *process) work(ctx context.Context, run string, id pipeline.WorkerID, engine Engine, leave <-chan struct{}) error {
	var life [8]byte
	if _, err := rand.Read(life[:]); err != nil {
		return fmt.Errorf("choosing an incarnation: %w", err)
	}
	return runner.Work(ctx, runner.WorkerOptions{
		Run: run, ID: id, Incarnation: hex.EncodeToString(life[:]),
		Control: p.control, Bulk: p.bulk, Vectors: engine.Vectors,
		Class: engine.Class, Device: engine.Device, OpenEngine: engine.Open,
		Leave: leave, Log: p.log.Logger,
	})
}
