package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"andrea/pipeline/runner"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
	"andrea/telemetry"
)

// askTime bounds one question to a coordinator that may not be there.
const askTime = 2 * time.Second

// open makes the coordinator's presence known on the bus, before it coordinates: it answers which
// run this is, what its processes have logged, and probes. Another coordinator of the run that
// is not older is an error.
func (r *Run) open(n *node) error {
	run, bus := r.Plan.Spec.Name, n.coordinator.control
	if n.server == nil { // an embedded one is this coordinator's alone
		claimed, err := claimedGenerations(r.env.FS, r.Dir)
		if err == nil {
			err = checkAlone(bus, run, n.generation, claimed, n.log)
		}
		if err != nil {
			return err
		}
	}
	if _, err := bus.Subscribe(wire.Runs, func(m transport.Message) {
		_ = m.Respond([]byte(run)) // who asked asks again, or has gone
	}); errors.Is(err, transport.ErrDenied) {
		return fmt.Errorf("coordinating the run %s: %w: these credentials are no coordinator's: give those of a user that may subscribe to %s and andrea.%s.>",
			run, err, wire.Runs, run)
	} else if err != nil {
		return err
	}
	if _, err := telemetry.KeepHistory(bus, run); err != nil {
		return err
	}
	answers := func(ctx context.Context) error {
		_, err := runner.AskStatus(ctx, bus, run)
		return err
	}
	if r.probesAt != nil {
		n.probes = serveProbes(r.probesAt, probes{started: answers, ready: answers, metrics: func(ctx context.Context) (string, error) {
			report, err := runner.AskStatus(ctx, bus, run)
			return metricsOf(report), err
		}})
		r.probesAt = nil
	}
	return nil
}

// checkAlone fails when a coordinator of the run's name answers that is not an older one of this folder:
// one of the generations that were claimed there. An older one was cut off or paused; what it sends nobody
// takes any more.
func checkAlone(bus transport.Bus, run string, generation uint64, claimed []uint64, log *zap.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	other, err := runner.AskStatus(ctx, bus, run)
	switch {
	case errors.Is(err, transport.ErrNoResponders):
		return nil
	case err != nil:
		return fmt.Errorf("making sure that no other coordinator has the run %s: %w", run, err)
	case other.Generation >= generation || !slices.Contains(claimed, other.Generation):
		return fmt.Errorf("coordinating the run %s: another coordinator answers for it on this server, of generation %d, which is none of this folder's before %d: "+
			"end that one, or give this run another name", run, other.Generation, generation)
	}
	log.Warn("an older coordinator of this run still answers; nobody takes what it sends", zap.Uint64("generation", other.Generation))
	return nil
}

// metricsOf is a report in Prometheus' text format.
func metricsOf(r runner.Report) string {
	var b strings.Builder
	gauge := func(name, help string, value float64) {
		fmt.Fprintf(&b, "# HELP andrea_%s %s\n# TYPE andrea_%s gauge\nandrea_%s{run=%q} %v\n", name, help, name, name, r.Run, value)
	}
	joined := 0
	for _, w := range r.Workers {
		if w.Joined {
			joined++
		}
	}
	gauge("step", "Last confirmed step.", float64(r.Step))
	gauge("steps", "Steps of the job.", float64(r.Steps))
	gauge("checkpoint_step", "Newest step with a checkpoint on disk, -1 without.", float64(r.Checkpoint))
	gauge("generation", "Number of the coordinator's newest start; a later one has a higher.", float64(r.Generation))
	gauge("members", "Workers that hold the state of the run.", float64(joined))
	if r.Last != nil {
		gauge("loss", "Training loss of the last step in nats per token.", float64(r.Last.Loss))
		gauge("grad_norm", "Gradient norm of the last step.", float64(r.Last.GradNorm))
		gauge("tokens_per_second", "Speed of the last step.", r.Last.TokensPerSecond)
	}
	if r.Validation != nil && r.Validation.ValLoss != nil {
		gauge("val_loss", "Newest validation loss in nats per token.", float64(*r.Validation.ValLoss))
	}
	return b.String()
}
