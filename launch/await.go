package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/pipeline/wire"
	"andrea/telemetry"
)

// How a worker waits for a coordinator.
const (
	firstLook   = 50 * time.Millisecond // doubled with every look up to lastLook
	lastLook    = 2 * time.Second
	tellWaiting = time.Minute // between two log lines
)

// await returns how a start of the run goes that is newer than the last one, once its coordinator
// answers. The error is ctx's, or, when giveUp is set and nobody answers, errLeft.
func (p *process) await(ctx context.Context, last start, giveUp bool) (report runner.Report, err error) {
	err = lookUntil(ctx, func(why error) {
		p.log.Info("waiting for the coordinator", zap.Uint64("former_generation", last.generation), zap.Error(why))
	}, func(ctx context.Context) (bool, error) {
		var err error
		report, err = runner.AskStatus(ctx, p.control, last.run)
		switch {
		case giveUp && errors.Is(err, transport.ErrNoResponders):
			return true, errLeft
		case err != nil || report.Generation <= last.generation:
			return false, err
		}
		return true, nil
	})
	return report, err
}

// findRun waits for the only run of a server.
func (o WorkerOptions) findRun(ctx context.Context, access natsbus.ConnOptions, link *link) (run string, err error) {
	log, err := telemetry.New(telemetry.Options{Run: "unknown", Process: access.Credential.Role, File: unsynced{o.Log}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	access.Name, access.Log = "looking for a run", log.Logger
	err = lookUntil(ctx, func(why error) {
		log.Info("waiting for a run on the server", zap.String("address", access.URL), zap.Error(why))
	}, func(ctx context.Context) (bool, error) {
		runs, err := FindRuns(ctx, access)
		link.looked.Store(err == nil)
		if len(runs) == 1 {
			run = runs[0]
		}
		if len(runs) > 1 {
			err = fmt.Errorf("there are several runs on the server: %s: choose one with --run", strings.Join(runs, ", "))
		}
		return len(runs) > 0, err
	})
	return run, err
}

// FindRuns asks a server which runs are coordinated there; their names are sorted.
func FindRuns(ctx context.Context, access natsbus.ConnOptions) ([]string, error) {
	answers, err := natsbus.Ask(ctx, access, wire.Runs)
	if err != nil {
		return nil, fmt.Errorf("looking for runs: %w", err)
	}
	var runs []string
	for _, a := range answers {
		if name := string(a); pipeline.ValidName(name) {
			runs = append(runs, name)
		}
	}
	slices.Sort(runs)
	return slices.Compact(runs), nil
}

// lookUntil looks, at once and then more and more seldom, until look says that it found what it
// waits for, with look's error then. It tells when it starts to wait and every minute why. When ctx
// is done the error is ctx's.
func lookUntil(ctx context.Context, tell func(error), look func(context.Context) (found bool, err error)) error {
	var told time.Time // zero: not yet
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		within, cancel := context.WithTimeout(ctx, askTime)
		found, err := look(within)
		cancel()
		if found {
			return err
		}
		if !passes(err) {
			return err
		}
		if time.Since(told) >= tellWaiting {
			told = time.Now()
			tell(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// passes reports that what a question came to may be another answer later: nobody was there.
func passes(err error) bool {
	for _, passing := range []error{context.DeadlineExceeded, transport.ErrNoResponders, transport.ErrTimeout, transport.ErrDisconnected} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return err == nil
}
