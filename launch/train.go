package launch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"andrea/pipeline"
	"andrea/pipeline/runner"
)

// leaveTime is how long a worker may take to leave after the run has ended: one
// microbatch and more.
const leaveTime = 30 * time.Second

// Train trains in this process: an embedded server on loopback, the coordinator and
// one worker, who talk as they would over a network. The error is about starting;
// how training ended is the outcome.
func (r *Run) Train() (outcome pipeline.Outcome, err error) {
	generation, err := claimGeneration(r.env.FS, r.Dir)
	if err != nil {
		return outcome, err
	}
	n, err := r.startNode()
	if err != nil {
		return outcome, fmt.Errorf("starting the run %s: %w", r.Dir, err)
	}
	defer func() { err = errors.Join(err, n.close()) }()
	n.log.Info("run started", zap.Uint64("generation", generation), zap.Int64("step", r.Start.Step), zap.Int64("steps", r.Plan.Spec.Steps),
		zap.String("engine", r.env.Engine.Class), zap.String("device", r.env.Engine.Device), zap.String("address", n.server.URL()))
	for _, d := range r.Damaged {
		n.log.Warn("checkpoint passed over", zap.Int("step", d.Step), zap.Error(d.Reason))
	}
	outcome, err = r.trainOn(n, generation)
	if err == nil {
		n.log.Info("run ended", zap.Int64("step", outcome.Step), zap.Bool("complete", outcome.Complete),
			zap.Int64("checkpoint", outcome.Checkpoint), zap.String("stopped", outcome.Stopped), zap.Error(outcome.Err))
	}
	return outcome, err
}

// trainOn runs both loops until the coordinator's ends and the worker has left.
func (r *Run) trainOn(n *node, generation uint64) (pipeline.Outcome, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left := make(chan error, 1)
	go func() { left <- r.work(ctx, &n.worker) }()
	stop, gone := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(gone)
		watch(ctx, r.env.Stop, left, stop)
	}()
	outcome, err := runner.Coordinate(runner.CoordinatorOptions{
		Generation: generation, Plan: r.Plan, Start: r.Start, Journal: r.journal, Store: r.store, Restored: r.restored,
		Tokens: r.data, Tokenizer: r.data.TokenizerFile, CreatedBy: r.env.Version,
		Control: n.coordinator.control, Bulk: n.coordinator.bulk,
		Stop: stop, Notify: r.env.Notify, Log: n.log,
	})
	if err != nil {
		cancel() // no coordinator will ever end the worker
	}
	select {
	case <-gone:
	case <-time.After(leaveTime):
		n.log.Warn("the worker did not leave in time", zap.Duration("waited", leaveTime))
	}
	return outcome, err
}

// watch passes on reasons to stop until the worker has left. A worker that leaves
// before the run has ended is one too: the coordinator would wait for ever.
func watch(ctx context.Context, from <-chan string, left <-chan error, to chan<- string) {
	for {
		select {
		case reason := <-from:
			select {
			case to <- reason:
			default: // one is waiting already
			}
		case err := <-left:
			if err != nil {
				select {
				case to <- "the worker left: " + err.Error():
				default:
				}
			}
			return
		case <-ctx.Done():
			<-left
			return
		}
	}
}

// work is the worker's side.
func (r *Run) work(ctx context.Context, p *process) error {
	var life [8]byte
	if _, err := rand.Read(life[:]); err != nil {
		return fmt.Errorf("choosing an incarnation: %w", err)
	}
	return runner.Work(ctx, runner.WorkerOptions{
		Run: r.Plan.Spec.Name, ID: roleWorker, Incarnation: hex.EncodeToString(life[:]),
		Control: p.control, Bulk: p.bulk,
		Class: r.env.Engine.Class, Device: r.env.Engine.Device, OpenEngine: r.env.Engine.Open,
		Log: p.log.Logger,
	})
}
