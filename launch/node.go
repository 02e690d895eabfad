package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

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

// connectTime bounds the connecting to a server in this process.
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

// node is the embedded server and the sides of a run that are in this process.
type node struct {
	server      *natsbus.Server
	log         *zap.Logger // the coordinator's
	coordinator process
	worker      process // empty when the workers are other processes
}

// workerHere reports that the run's worker is in this process.
func (r *Run) workerHere() bool { return !r.env.Crew.Elsewhere && len(r.env.Crew.Command) == 0 }

// startNode starts the server and connects the sides that are here.
func (r *Run) startNode() (*node, error) {
	n := &node{}
	if err := r.fillNode(n); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// fillNode starts one part of the node after the other; after an error those are left
// that were started.
func (r *Run) fillNode(n *node) (err error) {
	run := r.Plan.Spec.Name
	if err := r.openLog(roleCoordinator, &n.coordinator); err != nil {
		return err
	}
	if r.workerHere() {
		if err := r.openLog(string(localWorker), &n.worker); err != nil {
			return err
		}
	}
	n.log = n.coordinator.log.Logger
	coordinator, worker, observer := wire.CoordinatorPermissions(run), wire.WorkerPermissions(run, wire.AnyWorker), wire.ObserverPermissions(run)
	host, port, err := listenAt(r.env.Listen)
	if err != nil {
		return err
	}
	n.server, err = natsbus.StartServer(natsbus.ServerOptions{
		Host: host, Port: port, Run: run, RunDir: r.Dir, FS: r.env.FS, Log: n.log,
		Roles: []natsbus.Role{
			{Name: roleCoordinator, Publish: coordinator.Publish, Subscribe: coordinator.Subscribe},
			{Name: roleWorker, Publish: worker.Publish, Subscribe: worker.Subscribe},
			{Name: RoleObserver, Publish: observer.Publish, Subscribe: observer.Subscribe},
		},
	})
	if err != nil {
		return err
	}
	if err := n.server.WriteKey(r.env.FS, filepath.Join(r.Dir, workerKeyFile), roleWorker); err != nil {
		return err
	}
	n.coordinator.wrap, n.worker.wrap = r.env.Bus, r.env.Bus
	if err := n.connect(roleCoordinator, &n.coordinator); err != nil || n.worker.log == nil {
		return err
	}
	return n.connect(roleWorker, &n.worker)
}

// listenAt takes a listening address apart; zero values mean anywhere on loopback.
func listenAt(address string) (host string, port int, err error) {
	if address == "" {
		return "", 0, nil
	}
	host, portText, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(portText)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listening at %q: it is no host:port such as 127.0.0.1:4222", address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", 0, fmt.Errorf("listening at %q: it is no loopback address: listen at 127.0.0.1 and forward the port", address)
	}
	return host, port, nil
}

// connect opens the connections of a side in this process.
func (n *node) connect(role string, p *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	credential, err := n.server.Credential(role)
	if err != nil {
		return err
	}
	return p.connect(ctx, natsbus.ConnOptions{Server: n.server, Credential: credential}, role)
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
	err := errors.Join(n.worker.close(), n.coordinator.close())
	if n.server != nil {
		n.server.Shutdown()
	}
	return err
}
