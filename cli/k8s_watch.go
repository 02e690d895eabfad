package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"andrea/k8s"
)

func k8sStatusCommand(o outside) *cobra.Command {
	var f k8sFlags
	var asJSON bool
	c := &cobra.Command{
		Use:     "status RUN",
		Short:   "How a run in a cluster is",
		Long:    "How a run in a cluster is: its phase and why, its workers, what keeps any of them from\nrunning, and its newest step.",
		Example: "  andrea k8s status run7\n  andrea k8s status run7 --json | jq .phase",
		Args:    oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			return clusterWork(c.Context(), o, 0, func(ctx context.Context) error {
				s, err := f.existing(ctx, args[0])
				if err != nil {
					return err
				}
				step := f.lastStep(ctx, s)
				return o.report(asJSON, struct {
					k8s.State
					Progress *k8s.Progress `json:"progress,omitempty"`
				}{s, step}, stateText(s, step))
			})
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

// logPatience bounds the wait for a log: a node that is lost does not answer.
const logPatience = "10s"

// lastStep is the newest step in the end of the coordinator's log; nil: it cannot be told.
func (f k8sFlags) lastStep(ctx context.Context, s k8s.State) *k8s.Progress {
	if s.Coordinator == "" {
		return nil
	}
	out, err := f.kubectl().Run(ctx, nil, "logs", s.Coordinator, "--container="+k8s.Coordinator, "--tail=50", "--request-timeout="+logPatience)
	if err != nil {
		return nil // it has no log yet, or no more
	}
	return k8s.LastStep(out)
}

// stateText is a state for people.
func stateText(s k8s.State, step *k8s.Progress) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run          %s: %s\n", s.Run, phaseText(s))
	if s.Coordinator != "" {
		fmt.Fprintf(&b, "coordinator  pod %s\n", s.Coordinator)
	}
	fmt.Fprintf(&b, "workers      %d of %d ready\n", s.Workers.Ready, s.Workers.Wanted)
	for _, problem := range s.Problems {
		fmt.Fprintf(&b, "             %s\n", problem)
	}
	if s.Phase == k8s.Failed {
		fmt.Fprintf(&b, "             when that is mended, 'andrea k8s resume %s' goes on from its newest checkpoint\n", s.Run)
	}
	if step != nil {
		fmt.Fprintf(&b, "step         %d/%d  loss %.3f  %.0f tokens/s\n", step.Step, step.Steps, float64(*step.Loss), float64(step.Speed))
	}
	return b.String()
}

func phaseText(s k8s.State) string {
	if s.Reason == "" {
		return s.Phase
	}
	return s.Phase + ": " + s.Reason
}

func k8sWaitCommand(o outside) *cobra.Command {
	var f k8sFlags
	var limit time.Duration
	c := &cobra.Command{
		Use:   "wait RUN",
		Short: "Wait until a run in a cluster has ended",
		Long: `Wait until a run in a cluster has ended: the exit code is 0 when it is complete, and 1 when
it has failed, with the reason. (kubectl wait --for=condition=complete waits for ever for a
run that fails.) A run that is stopped is waited for: somebody may resume it.`,
		Example: "  andrea k8s wait run7 --timeout 12h",
		Args:    oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			return clusterWork(c.Context(), o, limit, func(ctx context.Context) error {
				tell := func(s k8s.State) { _, _ = fmt.Fprintf(o.stderr, "%s: %s\n", s.Run, phaseText(s)) }
				s, err := f.until(ctx, args[0], tell, k8s.State.Ended)
				if err == nil && s.Phase == k8s.Failed {
					err = exitError{exitFailed, nil} // it has been told
				}
				return err
			})
		},
	}
	f.add(c)
	f.addPolling(c)
	c.Flags().DurationVar(&limit, "timeout", 0, "give up after so long (default: never)")
	return c
}

func k8sLogsCommand(o outside) *cobra.Command {
	var f k8sFlags
	var follow, workers bool
	c := &cobra.Command{
		Use:   "logs RUN",
		Short: "The log of a run in a cluster",
		Long: `The log of a run in a cluster: what its newest coordinator prints, or its workers. With -f
the coordinators that come after it follow, until the run has ended or is stopped, and a stream
that breaks is taken up where it ended; one of --workers is not.`,
		Example: "  andrea k8s logs -f run7 | jq -c 'select(.step) | [.step, .loss]'\n  andrea k8s logs run7 --workers",
		Args:    oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			return clusterWork(c.Context(), o, 0, func(ctx context.Context) error {
				if workers {
					return f.workerLogs(ctx, o, args[0], follow)
				}
				return f.coordinatorLogs(ctx, o, args[0], follow)
			})
		},
	}
	f.add(c)
	f.addPolling(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as lines come")
	c.Flags().BoolVar(&workers, "workers", false, "of the workers, each line with its pod")
	return c
}

func (f k8sFlags) workerLogs(ctx context.Context, o outside, run string, follow bool) error {
	s, err := f.existing(ctx, run)
	if err != nil {
		return err
	}
	return f.kubectl().Stream(ctx, o.stdout, "logs", "--selector="+k8s.SelectorOf(run, k8s.Worker), "--prefix", "--tail=-1",
		fmt.Sprintf("--follow=%t", follow), fmt.Sprintf("--max-log-requests=%d", max(1, s.Workers.Wanted)))
}

// coordinatorLogs prints the log of the newest coordinator and, with follow, of those after it.
func (f k8sFlags) coordinatorLogs(ctx context.Context, o outside, run string, follow bool) error {
	printed := "" // the pod whose log is printed
	for {
		s, err := f.until(ctx, run, func(k8s.State) {}, func(s k8s.State) bool {
			return s.Coordinator != printed && (s.Phase != k8s.Waiting) || s.Ended() || s.Phase == k8s.Stopped || !follow
		})
		if err != nil || s.Coordinator == "" || s.Coordinator == printed {
			return err
		}
		printed = s.Coordinator
		if !follow {
			return f.kubectl().Stream(ctx, o.stdout, "logs", printed, "--container="+k8s.Coordinator)
		}
		if err := f.followLog(ctx, o.stdout, run, printed); err != nil {
			return err
		}
	}
}
