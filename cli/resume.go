package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/vfs"
)

func resumeCommand(o outside) *cobra.Command {
	var f resumeFlags
	c := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with a run from its newest intact checkpoint",
		Long: `Go on with a run from its newest intact checkpoint.

RUN is the run's folder, or its name below runs/. Steps after the checkpoint that
the journal has recorded are computed again and must give what was recorded. The
result has the same bits as if the run had never stopped. Where a dataset lies is part of
the job, which never changes: give --data every time, once the dataset has moved.

A run goes on with the kind of engine that it began with, and with another by --engine and
--other-engine: its losses agree then, its bits do not, and 'andrea replay' computes it no
more. End it with Ctrl-C before: steps behind its last checkpoint must give what was recorded.`,
		Example: `  andrea resume runs/demo
  andrea resume demo --data /mnt/tokens/books-0123456789ab      the dataset has moved`,
		Args: oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			return resume(c.Context(), o, args[0], f)
		},
	}
	c.Flags().StringVar(&f.data, "data", "", "where the run's dataset lies now (default: where it lay)")
	c.Flags().IntVar(&f.workers, "workers", 1, "how many worker processes train together; need not be what it was")
	f.engine.add(c)
	c.Flags().BoolVar(&f.otherEngine, "other-engine", false, "go on with another engine class than before: with other bits from here on")
	c.Flags().BoolVar(&f.json, "json", false, "one JSON line a step on standard output, also on a terminal")
	return c
}

// findRun is the folder of the run that a person names.
func findRun(fsys vfs.FS, name string) (string, error) {
	for _, dir := range []string{filepath.Clean(name), filepath.Join("runs", name)} {
		exists, err := launch.Exists(fsys, dir)
		if err != nil {
			return "", fmt.Errorf("looking for the run %s: %w", name, err)
		}
		if exists {
			return dir, nil
		}
	}
	for _, dir := range []string{filepath.Clean(name), filepath.Join("runs", name)} {
		if info, err := fsys.Stat(dir); err == nil && info.IsDir() {
			return "", fmt.Errorf("looking for the run %s: the folder %s has no job.yaml, which makes it a run: restore that file (every checkpoint's manifest.json holds its text), or name another folder", name, dir)
		}
	}
	return "", fmt.Errorf("looking for the run %s: neither it nor runs/%s is the folder of a run: 'ls runs' lists them", name, name)
}

// resumeFlags are the flags of 'andrea resume'.
type resumeFlags struct {
	data        string
	json        bool
	workers     int
	engine      engineFlags
	otherEngine bool
}

func resume(ctx context.Context, o outside, name string, f resumeFlags) error {
	if err := checkWorkers(f.workers); err != nil {
		return badInput(err)
	}
	dir, err := findRun(o.fs, name)
	if err != nil {
		return badInput(err)
	}
	if o, err = f.engine.use(o, launch.TrainedClass(o.fs, dir)); err != nil {
		return err
	}
	crew, err := f.engine.crew(o, f.workers)
	if err != nil {
		return err
	}
	o.goOnWithout()
	show := newScreen(o, f.json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	environment := show.environment(o, guard)
	environment.Crew, environment.OtherEngine = crew, f.otherEngine
	run, err := launch.Open(environment, dir, f.data)
	if err != nil {
		return guard.explain(inputOrDisk(err))
	}
	return goOn(o, run, guard, show, resumeLine(dir, f.data))
}

// goOn trains a run that was opened, and says from where.
func goOn(o outside, run *launch.Run, guard *guard, show *screen, again string) error {
	for _, d := range run.Damaged {
		show.note("the checkpoint of step %d is passed over: %v", d.Step, d.Reason)
	}
	if run.Complete() {
		show.note("the run %s is complete: all %d steps are committed", run.Dir, run.Plan.Spec.Steps)
		return run.Close()
	}
	switch last := run.Start.Journal.Last(); {
	case !run.Start.Checkpoint:
		show.note("no checkpoint yet: starting at step 0")
	case last > run.Start.Step:
		show.note("going on from the checkpoint of step %d; steps %d to %d are recorded already and computed again", run.Start.Step, run.Start.Step+1, last)
	default:
		show.note("going on from the checkpoint of step %d", run.Start.Step)
	}
	return trainRun(o, run, guard, show, again)
}

// trainRun trains a run to its end and says how it went, and that again goes on with it.
func trainRun(o outside, run *launch.Run, guard *guard, show *screen, again string) error {
	defer frugal(gcPercentOfCoordinator(run.Plan.Model))()
	show.Train(run.Plan.Spec.Steps)
	guard.train()
	outcome, err := run.Train()
	closeErr := run.Close()
	debug.FreeOSMemory() // of the run's engine, before the sample opens one
	if err != nil {
		return guard.explain(inputOrDisk(errors.Join(err, closeErr)))
	}
	outcome.Err = errors.Join(outcome.Err, closeErr)
	outcome.Complete = outcome.Complete && closeErr == nil
	show.summary(o, run, outcome, again)
	switch {
	case outcome.Err != nil:
		return exitError{exitFailed, outcome.Err}
	case outcome.Complete:
		return nil
	}
	return exitError{guard.code(), nil}
}
