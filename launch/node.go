package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/pipeline/wire"
	"andrea/telemetry"
	"andrea/vfs"
	"andrea/watch"
)

// Roles of the embedded server, each with its own key.
const (
	roleCoordinator = watch.Coordinator
	roleWorker      = "worker"
	// RoleObserver may ask how the run goes and read its logs, and nothing else.
	RoleObserver = "observer"
)

// connectTime bounds the connecting to a server in this process; it is told when another one takes longer.
const connectTime = 10 * time.Second

// process is one side's connections and log.
type process struct {
	log     *telemetry.Log
	file    vfs.File    // of the log; nil: there is none
	warn    func(error) // is told what went wrong with the log; nil: nobody is
	control transport.Bus
	bulk    transport.Bus                     // tensors and tokens, so that a control message never queues behind them
	logBus  atomic.Pointer[transport.Bus]     // control, once the log may use it
	wrap    func(transport.Bus) transport.Bus // nil: connections stay as they are
	closers []func() error                    // of the connections, in the order of opening
}

// close ends the log while the bus can still take its last lines, then the
// connections. What the log has lost is no error of the process.
func (p *process) close() error {
	if err := p.closeLog(); err != nil && p.warn != nil {
		p.warn(err)
	}
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	return errors.Join(errs...)
}

func (p *process) closeLog() error {
	var errs []error
	if p.log != nil {
		errs = append(errs, p.log.Close())
	}
	if p.file != nil {
		errs = append(errs, p.file.Close())
	}
	return errors.Join(errs...)
}

// publish sends a log line. Before there is a connection nobody can listen, and the
// file alone has it.
func (p *process) publish(subject string, line []byte) error {
	if bus := p.logBus.Load(); bus != nil {
		return (*bus).Publish(subject, line)
	}
	return nil
}

// node is the sides of a run that are in this process, and their way to a NATS server.
type node struct {
	server      *natsbus.Server // embedded; nil: the server is somebody else's
	url         string          // of the server
	access      func(role string) (natsbus.ConnOptions, error)
	log         *zap.Logger // the coordinator's
	coordinator process
	worker      process      // empty when the workers are other processes
	probes      func() error // stops answering them
	generation  uint64       // that the run's coordinator has claimed; 0: none yet
}

// workerHere reports that the run's worker is in this process.
func (r *Run) workerHere() bool { return !r.env.Crew.Elsewhere && len(r.env.Crew.Command) == 0 }

// startNode connects the sides that are here to the embedded server, which it starts, or to
// somebody else's, and claims a generation.
func (r *Run) startNode() (*node, error) {
	n := &node{}
	if err := r.fillNode(n); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// fillNode starts one part of the node after the other; after an error those are left
// that were started. A generation is claimed last: a start that could not reach its server has changed nothing.
func (r *Run) fillNode(n *node) (err error) {
	if err := r.openLog(roleCoordinator, &n.coordinator); err != nil {
		return err
	}
	if r.workerHere() {
		if err := r.openLog(string(localWorker), &n.worker); err != nil {
			return err
		}
	}
	n.log = n.coordinator.log.Logger
	if err := r.reachServer(n); err != nil {
		return err
	}
	n.coordinator.wrap, n.worker.wrap = r.env.Bus, r.env.Bus
	if err := r.connect(n, roleCoordinator, &n.coordinator); err != nil {
		return err
	}
	if n.generation, err = claimGeneration(r.env.FS, r.Dir, r.jobSum, time.Now()); err != nil {
		return err
	}
	if err := r.open(n); err != nil || n.worker.log == nil {
		return err
	}
	return r.connect(n, string(localWorker), &n.worker)
}

// reachServer finds the way to somebody else's server, or starts the embedded one.
func (r *Run) reachServer(n *node) error {
	if r.env.NATS.URL == "" {
		return r.startServer(n)
	}
	o, err := r.env.NATS.coordinator(r.env.FS)
	n.url = o.URL
	n.access = func(role string) (natsbus.ConnOptions, error) {
		o.Credential.Role = role
		return o, nil
	}
	return err
}

// startServer starts the embedded server and writes the file that lets workers in.
func (r *Run) startServer(n *node) error {
	o, err := r.serverOptions()
	if err != nil {
		return err
	}
	o.Log = n.log
	if n.server, err = natsbus.StartServer(o); err != nil {
		return err
	}
	n.url = n.server.URL()
	n.access = func(role string) (natsbus.ConnOptions, error) {
		credential, err := n.server.Credential(role)
		return natsbus.ConnOptions{Server: n.server, Credential: credential}, err
	}
	return n.server.WriteKey(r.env.FS, r.keyFile(), roleWorker)
}

// keyFile is the file that lets workers in; empty where the server is somebody else's.
func (r *Run) keyFile() string {
	if r.env.NATS.URL != "" {
		return ""
	}
	return filepath.Join(r.Dir, workerKeyFile)
}

// serverOptions are the embedded server's. Workers whose names are known have keys of their own;
// any number of others come with the pool's.
func (r *Run) serverOptions() (o natsbus.ServerOptions, err error) {
	run := r.Plan.Spec.Name
	coordinator, observer := wire.CoordinatorPermissions(run), wire.ObserverPermissions(run)
	o = natsbus.ServerOptions{
		Run: run, RunDir: r.Dir, FS: r.env.FS,
		Roles: []natsbus.Role{
			{Name: roleCoordinator, Publish: coordinator.Publish, Subscribe: coordinator.Subscribe},
			{Name: RoleObserver, Publish: observer.Publish, Subscribe: observer.Subscribe},
		},
		Pool: &natsbus.Pool{Name: roleWorker, Permissions: func(id string) (publish, subscribe []string) {
			p := wire.WorkerPermissions(run, pipeline.WorkerID(id))
			return p.Publish, p.Subscribe
		}},
	}
	for _, id := range r.namedWorkers() {
		publish, subscribe := o.Pool.Permissions(string(id))
		o.Roles = append(o.Roles, natsbus.Role{Name: string(id), Publish: publish, Subscribe: subscribe})
	}
	if o.Host, o.Port, err = listenAt(r.env.Listen); err != nil {
		return o, err
	}
	if o.Certificate, err = readCertificate(r.env); err != nil || r.env.Keys == "" {
		return o, err
	}
	given, err := natsbus.ReadIdentityFile(r.env.FS, r.env.Keys)
	if err == nil && given.Run != run {
		err = fmt.Errorf("%s: its keys are for the run %s: this is %s", r.env.Keys, given.Run, run)
	}
	o.Keys = given.Keys
	return o, err
}

// namedWorkers are the workers that this process starts.
func (r *Run) namedWorkers() (ids []pipeline.WorkerID) {
	switch {
	case r.workerHere():
		return []pipeline.WorkerID{localWorker}
	case r.env.Crew.Elsewhere:
		return nil
	}
	for i := range r.Start.Workers {
		ids = append(ids, childName(i))
	}
	return ids
}

// childName is the name of a worker that is a child process.
func childName(i int) pipeline.WorkerID {
	return pipeline.WorkerID(fmt.Sprintf("%s-%d", roleWorker, i+1))
}

// connect opens the connections of a side in this process. Somebody else's server is waited for, as
// long as nobody wants this process to end.
func (r *Run) connect(n *node, role string, p *process) error {
	o, err := n.access(role)
	if err != nil {
		return err
	}
	patience := context.Background()
	if n.server == nil {
		patience = r.env.preparing()
	}
	ctx, cancel := context.WithTimeout(patience, connectTime)
	defer cancel()
	err = p.connect(ctx, o, role)
	if n.server == nil && errors.Is(err, context.DeadlineExceeded) {
		r.warn(fmt.Errorf("%w: trying on", err))
		err = p.connect(patience, o, role)
	}
	return err
}

// connect opens a process's two connections; name is for the logs.
func (p *process) connect(ctx context.Context, o natsbus.ConnOptions, name string) error {
	for _, c := range []struct {
		bus  *transport.Bus
		use  string
		bulk bool
	}{{&p.control, "control", false}, {&p.bulk, "bulk", true}} {
		o.Name, o.Bulk, o.Log = name+" "+c.use, c.bulk, p.log.Logger
		bus, err := natsbus.Connect(ctx, o)
		if err != nil {
			return err
		}
		if p.wrap != nil {
			bus = p.wrap(bus)
		}
		*c.bus = bus
		p.closers = append(p.closers, bus.Close)
	}
	p.logBus.Store(&p.control)
	return nil
}

// openLog starts a side's log. Where its file cannot be opened the bus alone has the
// lines: a log is not worth a run.
func (r *Run) openLog(role string, p *process) (err error) {
	p.warn = r.warn
	to := telemetry.File(unsynced{io.Discard})
	if p.file, err = telemetry.OpenFile(r.env.FS, r.logPath(role)); err == nil {
		to = p.file
	} else {
		p.file = nil
		r.warn(err)
	}
	p.log, err = telemetry.New(telemetry.Options{Run: r.Plan.Spec.Name, Process: role, File: to, Publish: p.publish})
	return err
}

// warn tells what does not end the run.
func (r *Run) warn(err error) {
	if r.env.Warn != nil {
		r.env.Warn(err)
	}
}

// close ends both sides, then the server.
func (n *node) close() error {
	var err error
	if n.probes != nil {
		err = n.probes()
	}
	err = errors.Join(err, n.worker.close(), n.coordinator.close())
	if n.server != nil {
		n.server.Shutdown()
	}
	return err
}
