package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"andrea/launch"
	"andrea/pipeline/transport/natsbus"
	"andrea/watch"
)

// remoteTime bounds how long a command waits for a server elsewhere and the run's coordinator.
const remoteTime = 5 * time.Second

// connectRemote connects to a server that no folder names, and finds the run there when there is
// one and none was chosen.
func (ob *observer) connectRemote(ctx context.Context) (watch.Link, error) {
	run, access, err := ob.remote.Observer(ob.fs)
	switch {
	case err != nil:
		return watch.Unknown, badInput(err)
	case ob.run == "":
		ob.run = run
	case run != "" && run != ob.run:
		return watch.Unknown, badInput(fmt.Errorf("%s is of run %s: it does not let into run %s", ob.remote.Creds, run, ob.run))
	}
	access.Name = "observer"
	ob.access = access
	if ob.run == "" {
		if ob.run, err = onlyRun(ctx, access); err != nil {
			return watch.Unknown, err
		}
	}
	if ob.bus, err = connectWithin(ctx, access); err != nil {
		return watch.Unknown, err
	}
	return watch.Silent, nil
}

// notThere says that the run is not on the server, and which ones are.
func (ob *observer) notThere(ctx context.Context) error {
	err := fmt.Errorf("no coordinator of that name answers at %s: it is starting, has ended, or is called something else", ob.access.URL)
	if runs, failed := launch.FindRuns(ctx, ob.access); failed == nil && len(runs) > 0 {
		err = fmt.Errorf("%w: the runs there: %s", err, strings.Join(runs, ", "))
	}
	return err
}

// onlyRun is the run that a server has.
func onlyRun(ctx context.Context, access natsbus.ConnOptions) (string, error) {
	runs, err := launch.FindRuns(ctx, access)
	switch {
	case err != nil:
		return "", err
	case len(runs) == 0:
		return "", fmt.Errorf("no coordinator answers at %s: is the run there, and are these credentials for it?", access.URL)
	case len(runs) > 1:
		return "", badInput(fmt.Errorf("there are several runs at %s: %s: choose one with --run", access.URL, strings.Join(runs, ", ")))
	}
	return runs[0], nil
}

// remoteStatus is the status of a run that is only known by its server.
func remoteStatus(ctx context.Context, o outside, f statusFlags) (runStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	ob := &observer{fs: o.fs, remote: &f.nats.remote, run: f.run}
	defer ob.close()
	report, link, err := ob.ask(ctx)
	if link != watch.Answering {
		return runStatus{}, notReached(ob.run, err)
	}
	return reported("", report), nil
}

// notReached says which run could not be asked, and keeps the exit code of bad input.
func notReached(run string, err error) error {
	var coded exitError
	if errors.As(err, &coded) {
		return err
	}
	if run == "" {
		return fmt.Errorf("asking a run: %w", err)
	}
	return fmt.Errorf("asking the run %s: %w", run, err)
}
