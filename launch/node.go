package launch

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/pipeline/wire"
	"andrea/telemetry"
)

// Roles of the embedded server, each with its own key.
const (
	roleCoordinator = "coordinator"
	roleWorker      = "worker"
	// RoleObserver may ask how the run goes and read its logs, and nothing else.
	RoleObserver = "observer"
)

// connectTime bounds the connecting to a server in this process.
const connectTime = 10 * time.Second

// process is one side's connections and log.
type process struct {
	log     *telemetry.Log
	control transport.Bus
	bulk    transport.Bus                 // tensors and tokens, so that a control message never queues behind them
	logBus  atomic.Pointer[transport.Bus] // control, once the log may use it
	closers []func() error                // of the log's file and the connections, in the order of opening
}

// close ends the log while the bus can still take its last lines, then the rest.
func (p *process) close() error {
	var errs []error
	if p.log != nil {
		errs = append(errs, p.log.Close())
	}
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	return errors.Join(errs...)
}

// publish sends a log line; before there is a connection the file alone has it.
func (p *process) publish(subject string, line []byte) error {
	if bus := p.logBus.Load(); bus != nil {
		return (*bus).Publish(subject, line)
	}
	return transport.ErrDisconnected
}

// node is the embedded server and both sides of a run in one process.
type node struct {
	server      *natsbus.Server
	log         *zap.Logger // the coordinator's
	coordinator process
	worker      process
}

// startNode starts the server and connects both sides.
func (r *Run) startNode() (n *node, err error) {
	n = &node{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	run := r.Plan.Spec.Name
	if err := errors.Join(r.openLog(roleCoordinator, &n.coordinator), r.openLog(roleWorker, &n.worker)); err != nil {
		return nil, err
	}
	n.log = n.coordinator.log.Logger
	coordinator, worker, observer := wire.CoordinatorPermissions(run), wire.WorkerPermissions(run), wire.ObserverPermissions(run)
	n.server, err = natsbus.StartServer(natsbus.ServerOptions{
		Run: run, RunDir: r.Dir, FS: r.env.FS, Log: n.log,
		Roles: []natsbus.Role{
			{Name: roleCoordinator, Publish: coordinator.Publish, Subscribe: coordinator.Subscribe},
			{Name: roleWorker, Publish: worker.Publish, Subscribe: worker.Subscribe},
			{Name: RoleObserver, Publish: observer.Publish, Subscribe: observer.Subscribe},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := connect(n.server, roleCoordinator, &n.coordinator); err != nil {
		return nil, err
	}
	return n, connect(n.server, roleWorker, &n.worker)
}

// connect opens a side's connections.
func connect(server *natsbus.Server, role string, p *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	credential, err := server.Credential(role)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		bus  *transport.Bus
		use  string
		bulk bool
	}{{&p.control, "control", false}, {&p.bulk, "bulk", true}} {
		bus, err := natsbus.Connect(ctx, natsbus.ConnOptions{Server: server, Credential: credential, Name: role + " " + c.use, Bulk: c.bulk, Log: p.log.Logger})
		if err != nil {
			return err
		}
		*c.bus = bus
		p.closers = append(p.closers, bus.Close)
	}
	p.logBus.Store(&p.control)
	return nil
}

// openLog starts a side's log.
func (r *Run) openLog(role string, p *process) error {
	path := filepath.Join(r.Dir, logsDir, role+".jsonl")
	file, err := telemetry.OpenFile(r.env.FS, path)
	if err != nil {
		return err
	}
	log, err := telemetry.New(telemetry.Options{Run: r.Plan.Spec.Name, Process: role, File: file, Publish: p.publish})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	p.log = log
	p.closers = append(p.closers, file.Close)
	return nil
}

// close ends both sides, then the server.
func (n *node) close() error {
	err := errors.Join(n.worker.close(), n.coordinator.close())
	if n.server != nil {
		n.server.Shutdown()
	}
	return err
}
