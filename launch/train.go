package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/watch"
)

// How long workers may take to leave after the run has ended.
const (
	lingerTime = 3 * time.Second  // for workers of elsewhere to take it in
	finishTime = time.Second      // for the coordinator's last message to reach those that it knows
	leaveTime  = 30 * time.Second // for a process to leave by itself: one microbatch and more
)

// patientTicks is how long a worker in the coordinator's own process may be silent: it lives
// as long as the coordinator does, and only a busy machine keeps it from beating.
const patientTicks = 60

// Train trains: an embedded server on loopback, the coordinator in this process, and
// the workers where the environment's crew says. The error is about starting; how
// training ended is the outcome.
func (r *Run) Train() (outcome pipeline.Outcome, err error) {
	n, err := r.startNode()
	if err != nil {
		return outcome, fmt.Errorf("starting the run %s: %w", r.Dir, err)
	}
	defer func() {
		if err := n.close(); err != nil {
			r.warn(err) // how training ended is known
		}
	}()
	n.log.Info(watch.RunStarted, zap.Uint64("generation", n.generation), zap.Int64("step", r.Start.Step), zap.Int64("steps", r.Plan.Spec.Steps),
		zap.String("address", n.url))
	if r.change != "" {
		n.log.Warn("the engine class changes: " + r.change)
		r.warn(errors.New(r.change))
	}
	if r.env.Serving != nil {
		r.env.Serving(n.url, r.keyFile())
	}
	for _, d := range r.Damaged {
		n.log.Warn("checkpoint passed over", zap.Int("step", d.Step), zap.Error(d.Reason))
	}
	outcome, err = r.trainOn(n)
	logEnd(n.log, outcome, errors.Join(err, outcome.Err))
	return outcome, err
}

// logEnd logs how the run ended; that it failed is an error, so that looking for errors finds it.
func logEnd(log *zap.Logger, outcome pipeline.Outcome, failed error) {
	level := zap.InfoLevel
	if failed != nil {
		level = zap.ErrorLevel
	}
	log.Log(level, watch.RunEnded, zap.Int64("step", outcome.Step), zap.Bool("complete", outcome.Complete),
		zap.Int64("checkpoint", outcome.Checkpoint), zap.String("stopped", outcome.Stopped), zap.Error(failed))
}

// trainOn runs the coordinator and its crew until the coordinator's loop has ended and
// the workers have left.
func (r *Run) trainOn(n *node) (pipeline.Outcome, error) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	crew := newCrewEvents()
	left, err := r.startCrew(ctx, n, crew)
	if err != nil {
		crew.end()
		leave()
		<-left
		return pipeline.Outcome{}, fmt.Errorf("starting the workers of run %s: %w", r.Dir, err)
	}
	start, linger := r.Start, time.Duration(0)
	if start.Alone = !r.env.Crew.Elsewhere; !start.Alone {
		linger = lingerTime // nobody else tells them
	}
	if r.workerHere() {
		start.Silence = patientTicks
	}
	outcome, err := runner.Coordinate(runner.CoordinatorOptions{
		Generation: n.generation, Plan: r.Plan, Start: start, Journal: r.journal, Store: r.store, Restored: r.restored,
		Tokens: r.data, Tokenizer: r.data.TokenizerFile, CreatedBy: r.env.Version,
		Control: n.coordinator.control, Bulk: n.coordinator.bulk, Vectors: r.env.Engine.Vectors,
		Stop: r.env.Stop, Crew: crew.events, Superseded: func() error { return checkNewest(r.env.FS, r.Dir, n.generation) },
		Notify: r.env.Notify, Linger: linger, Log: n.log,
	})
	crew.end() // before anybody is waited for who may want to tell something
	patience := finishTime
	if r.workerHere() {
		patience = 0 // it has no exit code that tells people how it ended
	}
	select {
	case <-left:
	case <-time.After(patience):
		if patience > 0 {
			n.log.Info("ending the workers that have not left") // they are busy, or never said hello
		}
		leave()
		<-left
	}
	return outcome, err
}
