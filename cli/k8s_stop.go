package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"andrea/k8s"
)

func k8sStopCommand(o outside) *cobra.Command {
	var f k8sFlags
	var limit time.Duration
	c := &cobra.Command{
		Use:   "stop RUN",
		Short: "Stop a run in a cluster, with a checkpoint",
		Long: `Stop a run in a cluster. Its coordinator writes a checkpoint and ends, then all workers go, and
with them whatever they cost. Claims and Secrets stay, and 'andrea k8s resume' goes on. Of a run that
has ended only the workers go.`,
		Example: "  andrea k8s stop run7",
		Args:    oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			return clusterWork(c.Context(), o, limit, func(ctx context.Context) error { return f.stop(ctx, o, args[0]) })
		},
	}
	f.add(c)
	f.addPolling(c)
	c.Flags().DurationVar(&limit, "timeout", 15*time.Minute, "how long to wait for the checkpoint")
	return c
}

// stop suspends the coordinator first: a checkpoint is written from what a worker holds.
func (f k8sFlags) stop(ctx context.Context, o outside, run string) error {
	s, err := f.existing(ctx, run)
	if err != nil {
		return err
	}
	if !s.Ended() {
		if err := f.suspend(ctx, k8s.NameOf(run, k8s.CoordinatorJob), true); err != nil {
			return err
		}
		tell := func(s k8s.State) { _, _ = fmt.Fprintf(o.stderr, "%s: %s\n", run, phaseText(s)) }
		s, err = f.until(ctx, run, tell, func(s k8s.State) bool { return s.Phase == k8s.Stopped || s.Ended() })
		if err != nil {
			return err
		}
	}
	return f.dismiss(ctx, run, s.Workers)
}

// dismiss sends the workers away; a Deployment remembers how many they were.
func (f k8sFlags) dismiss(ctx context.Context, run string, workers k8s.Workers) error {
	name := k8s.NameOf(run, k8s.WorkerDeployment)
	switch {
	case workers.IsJob:
		return f.suspend(ctx, name, true)
	case workers.Wanted == 0:
		return nil
	}
	return f.patch(ctx, "deployment", name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{k8s.BeforeAnnotation: strconv.Itoa(workers.Wanted)}},
		"spec":     map[string]any{"replicas": 0},
	})
}

func k8sResumeCommand(o outside) *cobra.Command {
	var f k8sFlags
	var workers int
	c := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with a stopped or failed run in a cluster",
		Long: `Go on with a stopped run in a cluster, from its newest checkpoint, with as many workers as it had. Of
a run that has failed, once what 'andrea k8s status' says of it is mended, the Job is made anew.`,
		Example: "  andrea k8s resume run7\n  andrea k8s resume run7 --workers 8",
		Args:    oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			return clusterWork(c.Context(), o, 0, func(ctx context.Context) error { return f.resume(ctx, o, args[0], workers) })
		},
	}
	f.add(c)
	c.Flags().IntVar(&workers, "workers", 0, "number of workers (default: as when it was stopped)")
	return c
}

func (f k8sFlags) resume(ctx context.Context, o outside, run string, workers int) error {
	if workers < 0 || workers > maxWorkers {
		return badInput(fmt.Errorf("--workers is %d: must be between 1 and %d", workers, maxWorkers))
	}
	s, err := f.existing(ctx, run)
	if err != nil {
		return err
	}
	if s.Phase == k8s.Complete {
		return badInput(fmt.Errorf("resuming the run %s: it is %s", run, phaseText(s)))
	}
	if err := f.recall(ctx, run, s.Workers, workers); err != nil {
		return err
	}
	if s.Phase == k8s.Failed {
		err = f.again(ctx, run)
	} else {
		err = f.suspend(ctx, k8s.NameOf(run, k8s.CoordinatorJob), false)
	}
	if err != nil {
		return err
	}
	return o.report(false, nil, fmt.Sprintf("%s goes on: see 'andrea k8s status %s%s'\n", run, run, f.suffix()))
}

// again makes the coordinator's Job anew, when the old one and its pods have gone: two must never hold the run's folder.
func (f k8sFlags) again(ctx context.Context, run string) error {
	name := k8s.NameOf(run, k8s.CoordinatorJob)
	fail := func(err error) error { return fmt.Errorf("making the Job %s anew: %w", name, err) }
	job, err := f.get(ctx, "job", name)
	if err == nil && job == nil {
		err = errors.New("it has gone meanwhile: submit the run again")
	}
	if err != nil {
		return fail(err)
	}
	text, err := json.Marshal(k8s.Again(job))
	if err != nil {
		return fail(err)
	}
	if _, err := f.kubectl().Run(ctx, nil, "delete", "job", name, "--cascade=foreground", "--ignore-not-found"); err != nil {
		return fail(err)
	}
	if _, err := f.kubectl().Run(ctx, text, "create", "--filename=-"); err != nil {
		return fail(fmt.Errorf("%w: the old one was deleted: submit the run again, with the same flags", err))
	}
	return nil
}

// recall brings the workers back, or as many as are wanted now; 0: as many as they were.
func (f k8sFlags) recall(ctx context.Context, run string, were k8s.Workers, wanted int) error {
	name := k8s.NameOf(run, k8s.WorkerDeployment)
	spec := map[string]any{}
	if were.IsJob {
		spec["suspend"] = false
		if wanted > 0 {
			spec["parallelism"] = wanted
		}
		return f.patch(ctx, "job", name, map[string]any{"spec": spec})
	}
	if wanted == 0 {
		wanted = max(were.Wanted, were.Before)
	}
	return f.patch(ctx, "deployment", name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{k8s.BeforeAnnotation: nil}},
		"spec":     map[string]any{"replicas": max(1, wanted)},
	})
}

func (f k8sFlags) suspend(ctx context.Context, job string, suspended bool) error {
	return f.patch(ctx, "job", job, map[string]any{"spec": map[string]any{"suspend": suspended}})
}

func (f k8sFlags) patch(ctx context.Context, kind, name string, change map[string]any) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = f.kubectl().Run(ctx, nil, "patch", kind, name, "--type=merge", "--patch="+string(text))
	return err
}
