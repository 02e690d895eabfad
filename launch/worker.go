package launch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/transport/natsbus"
	"andrea/telemetry"
	"andrea/vfs"
)

// WorkerOptions say where a worker takes part.
type WorkerOptions struct {
	FS     vfs.FS
	Engine Engine
	Key    string            // identity file with the worker's key: RUN/worker.json
	URL    string            // of the server; empty: the one in Key
	ID     pipeline.WorkerID // unique among the run's workers
	Log    io.Writer         // JSON lines
}

// KeyError is an error of the file that lets a worker in.
type KeyError struct{ error }

// Work takes part in a run over the network until it ends: see runner.Work for the
// error. When ctx is done the worker leaves at once.
func Work(ctx context.Context, o WorkerOptions) error {
	identity, err := natsbus.ReadIdentityFile(o.FS, o.Key)
	if err != nil {
		return KeyError{fmt.Errorf("joining a run: %w: give the %s of the run's folder", err, workerKeyFile)}
	}
	credential, err := identity.Credential(roleWorker)
	if err != nil {
		return KeyError{fmt.Errorf("joining a run: %s: %w: give the run's %s", o.Key, err, workerKeyFile)}
	}
	url := o.URL
	if url == "" {
		url = identity.Address
	}
	var p process
	p.log, err = telemetry.New(telemetry.Options{Run: identity.Run, Process: string(o.ID), File: unsynced{o.Log}, Publish: p.publish})
	if err != nil {
		return err
	}
	// What cannot be sent any more nobody waits for: the coordinator takes its server along
	// when it goes, often before its workers have closed their connections.
	defer func() { _ = p.close() }()
	p.log.Info("connecting; the coordinator need not be there yet", zap.String("address", url))
	if err := p.connect(ctx, natsbus.ConnOptions{URL: url, Credential: credential}, string(o.ID)); err != nil {
		return fmt.Errorf("joining run %s: %w", identity.Run, err)
	}
	return p.work(ctx, identity.Run, o.ID, o.Engine)
}

// unsynced is a log's writer that cannot be synced, such as standard error.
type unsynced struct{ io.Writer }

// Sync does nothing.
func (unsynced) Sync() error { return nil }

// workHere is the worker of a run in this process.
func (r *Run) workHere(ctx context.Context, n *node) error {
	err := n.worker.work(ctx, r.Plan.Spec.Name, localWorker, r.env.Engine)
	if stopped := (pipeline.ErrStopped{}); errors.As(err, &stopped) {
		return nil
	}
	return err
}

// work runs a worker's loop.
func (p *process) work(ctx context.Context, run string, id pipeline.WorkerID, engine Engine) error {
	var life [8]byte
	if _, err := rand.Read(life[:]); err != nil {
		return fmt.Errorf("choosing an incarnation: %w", err)
	}
	return runner.Work(ctx, runner.WorkerOptions{
		Run: run, ID: id, Incarnation: hex.EncodeToString(life[:]),
		Control: p.control, Bulk: p.bulk,
		Class: engine.Class, Device: engine.Device, OpenEngine: engine.Open,
		Log: p.log.Logger,
	})
}
