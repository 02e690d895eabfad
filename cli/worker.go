package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/pipeline"
)

func workerCommand(o outside) *cobra.Command {
	var f workerFlags
	c := &cobra.Command{
		Use:     "worker",
		Version: version(),
		Short:   "Take part in a run as a worker",
		Long: `Take part in a run as a worker.

The coordinator of the run has written the address of its server and a key for all its
workers to RUN/worker.json. A worker needs nothing else: tokens and state come over the
network. It makes a key of its own at every start, which that one admits, and its id is
its name and a mark of that key, so that no worker can pose as another.

On a NATS server that somebody else runs, give its URL and credentials, and the run's name
unless the server has only one.

A worker waits for server and coordinator as long as they are not there. It logs JSON lines to
standard error and ends with the run: with code 0 when all steps are committed, 3 when the
run ended before, 143 after SIGTERM: it finishes its lease first, and the last worker of a run waits
for a checkpoint of what it holds, within --grace. With --when-done wait it idles then, and joins the
run's next start.`,
		Example: `  andrea worker --creds runs/demo/worker.json
  andrea worker --creds worker.json --nats nats://127.0.0.1:4222 --id worker-2
  andrea worker --creds runs/demo/worker.json --engine cuda --device 1
  andrea worker --nats tls://nats.example.com:4222 --creds worker.creds --run run7 --when-done wait --http :8080`,
		Args: noArgument,
		RunE: func(c *cobra.Command, _ []string) error { return work(c.Context(), o, f) },
	}
	flags := c.Flags()
	f.nats.add(c, "NATS server (default: the one in worker.json)", "the run's worker.json, or credentials for another server: "+othersCreds)
	flags.StringVar(&f.run, "run", "", "name of the run (default: the one in worker.json, or the only one on the server)")
	flags.StringVar(&f.id, "id", "", "name of this worker (default: made of host and process); with worker.json its id begins with it, on another server it is the id, unique in the run")
	f.engine.add(c)
	flags.StringVar(&f.whenDone, "when-done", doneExit, "when the run has ended: exit, or wait for its next start, so that what restarts ended processes has nothing to do")
	flags.StringVar(&f.http, "http", "", "address, such as :8080, that answers probes: /healthz and /startupz when the process runs, /readyz when its server answers")
	flags.DurationVar(&f.grace, "grace", 25*time.Second, "how long SIGTERM and SIGINT wait for the lease that is computed, and the last worker for its checkpoint")
	flags.BoolVar(&f.endWithInput, "end-with-input", false, "end when standard input is closed")
	_ = flags.MarkHidden("end-with-input") // 'andrea train --workers' ties its children to itself
	return c
}

// What a worker does when the run has ended.
const (
	doneExit = "exit"
	doneWait = "wait"
)

type workerFlags struct {
	nats         natsFlags
	run          string
	id           string
	whenDone     string
	http         string
	endWithInput bool
	grace        time.Duration
	engine       engineFlags
}

// notInID is what a worker's name must not contain.
var notInID = regexp.MustCompile(`[^a-z0-9-]+`)

// workerID is the given name, or one made of host and process.
func (f workerFlags) workerID() (pipeline.WorkerID, error) {
	id := f.id
	if id == "" {
		host, _ := os.Hostname() // empty is as good a part of the name as any
		id = notInID.ReplaceAllString(fmt.Sprintf("worker-%.30s-%d", host, os.Getpid()), "-")
	}
	if len(id) > 64 || notInID.MatchString(id) {
		return "", fmt.Errorf("naming the worker %q: use up to 64 of a-z, 0-9 and -", id)
	}
	return pipeline.WorkerID(id), nil
}

func work(ctx context.Context, o outside, f workerFlags) error {
	if f.whenDone != doneExit && f.whenDone != doneWait {
		return badInput(fmt.Errorf("--when-done is %q: choose %s or %s", f.whenDone, doneExit, doneWait))
	}
	if f.grace < 0 {
		return badInput(fmt.Errorf("--grace is %v: must not be negative", f.grace))
	}
	id, err := f.workerID()
	if err != nil {
		return badInput(err)
	}
	if o, err = f.engine.use(o, ""); err != nil {
		return err
	}
	defer frugal(gcPercent)()
	outlivePipes() // its log is not worth its part in a run
	options := launch.WorkerOptions{
		FS: o.fs, Engine: o.engine, NATS: f.nats.remote, Run: f.run, Name: id, Wait: f.whenDone == doneWait, HTTP: f.http, Log: o.stderr,
	}
	if f.endWithInput {
		return workWhileInput(ctx, options)
	}
	guard := newGuard(ctx, o)
	defer guard.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(guard.preparing, func() { time.AfterFunc(f.grace, cancel) })()
	options.Leave = guard.preparing
	err = launch.Work(ctx, options)
	if guard.signalled() {
		return exitError{guard.code(), nil}
	}
	return workEnded(err)
}

// workWhileInput works until the run ends or standard input does: the parent has gone, or
// wants no more. Signals are the parent's to answer. A service manager sends them to
// all processes at once, and the last checkpoint needs a worker.
func workWhileInput(ctx context.Context, options launch.WorkerOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err := launch.Work(ctx, options)
	if ctx.Err() != nil {
		return exitError{launch.ExitStopped, nil}
	}
	return workEnded(err)
}

// workEnded gives the end of a worker its exit code.
func workEnded(err error) error {
	var stopped pipeline.ErrStopped
	var key launch.KeyError
	var refused pipeline.ErrRefused
	switch {
	case errors.As(err, &stopped):
		return exitError{launch.ExitStopped, nil}
	case errors.As(err, &key), errors.As(err, &refused):
		return badInput(err)
	case err != nil:
		return exitError{exitFailed, err}
	}
	return nil
}
