package launch

import (
	"context"
	"errors"
	"path/filepath"
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
)

// connectTime bounds the connecting to a server in this process.
const connectTime = 10 * time.Second

// process is one side's connections and log.
type process struct {
	control transport.Bus
	bulk    transport.Bus // tensors and tokens, so that a control message never queues behind them
	log     *zap.Logger
	closers []func() error // in the order of opening
}

// node is the embedded server and both sides of a run in one process.
type node struct {
	server      *natsbus.Server
	log         *zap.Logger
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
	coordinator, worker := wire.CoordinatorPermissions(run), wire.WorkerPermissions(run)
	n.server, err = natsbus.StartServer(natsbus.ServerOptions{
		Run: run, RunDir: r.Dir, FS: r.env.FS,
		Roles: []natsbus.Role{
			{Name: roleCoordinator, Publish: coordinator.Publish, Subscribe: coordinator.Subscribe},
			{Name: roleWorker, Publish: worker.Publish, Subscribe: worker.Subscribe},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := r.connect(n.server, roleCoordinator, &n.coordinator); err != nil {
		return nil, err
	}
	n.log = n.coordinator.log
	return n, r.connect(n.server, roleWorker, &n.worker)
}

// connect opens a side's connections and its log.
func (r *Run) connect(server *natsbus.Server, role string, p *process) error {
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
		bus, err := natsbus.Connect(ctx, natsbus.ConnOptions{Server: server, Credential: credential, Name: role + " " + c.use, Bulk: c.bulk})
		if err != nil {
			return err
		}
		*c.bus = bus
		p.closers = append(p.closers, bus.Close)
	}
	return r.openLog(role, p)
}

func (r *Run) openLog(role string, p *process) error {
	path := filepath.Join(r.Dir, logsDir, role+".jsonl")
	file, err := r.env.FS.OpenAppend(path)
	if err != nil {
		return err
	}
	log, err := telemetry.New(telemetry.Options{Run: r.Plan.Spec.Name, Process: role, File: file, Publish: p.control.Publish})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	p.log = log.Logger
	p.closers = append(p.closers, file.Close, log.Close)
	return nil
}

// close ends both sides and the server; what was opened last goes first.
func (n *node) close() error {
	var errs []error
	for _, p := range []process{n.worker, n.coordinator} {
		for i := len(p.closers) - 1; i >= 0; i-- {
			errs = append(errs, p.closers[i]())
		}
	}
	if n.server != nil {
		n.server.Shutdown()
	}
	return errors.Join(errs...)
}
