package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"andrea/k8s"
	"andrea/k8s/kubectl"
)

func k8sCommand(o outside) *cobra.Command {
	return group(&cobra.Command{
		Use:   "k8s",
		Short: "Train in a Kubernetes cluster",
		Long: `Train in a Kubernetes cluster.

A run in a cluster has a name: its objects are called NAME-coordinator, NAME-worker and
so on. The cluster is the one that kubectl, which must be installed, is set to. The
objects are those of the kustomize files in k8s/, which kubectl can apply as well.`,
		Example: `  andrea k8s submit --name run7 --overlay 12m --job job.yaml --image registry.example.com/andrea:v1
  andrea k8s status run7
  andrea k8s wait run7`,
	}, k8sRenderCommand(o), k8sSubmitCommand(o), k8sKeysCommand(o), k8sStatusCommand(o), k8sLogsCommand(o), k8sStopCommand(o),
		k8sResumeCommand(o), k8sWaitCommand(o))
}

// k8sFlags say which cluster, and which run in it.
type k8sFlags struct {
	namespace  string
	context    string
	kubeconfig string
	every      time.Duration
}

func (f *k8sFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: the one that kubectl uses)")
	flags.StringVar(&f.context, "context", "", "context of kubectl's configuration")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubectl's configuration")
}

// addPolling adds the flag of commands that wait for the cluster.
func (f *k8sFlags) addPolling(c *cobra.Command) {
	c.Flags().DurationVar(&f.every, "every", 2*time.Second, "how often the cluster is asked")
}

func (f k8sFlags) kubectl() kubectl.Kubectl {
	k := kubectl.Kubectl{Program: "kubectl"}
	for _, flag := range []struct{ name, value string }{{"namespace", f.namespace}, {"context", f.context}, {"kubeconfig", f.kubeconfig}} {
		if flag.value != "" {
			k.Flags = append(k.Flags, "--"+flag.name+"="+flag.value)
		}
	}
	return k
}

// look asks the cluster how a run is.
func (f k8sFlags) look(ctx context.Context, run string) (k8s.State, error) {
	out, err := f.kubectl().Run(ctx, nil, "get", "job,deployment,pod", "--selector="+k8s.Selector(run), "--output=json")
	if err != nil {
		return k8s.State{}, fmt.Errorf("asking the cluster for the run %s: %w", run, err)
	}
	return k8s.StateOf(run, out)
}

// existing is look, of a run that should be there.
func (f k8sFlags) existing(ctx context.Context, run string) (k8s.State, error) {
	s, err := f.look(ctx, run)
	if err == nil && s.Phase == k8s.Absent {
		err = absent(run)
	}
	return s, err
}

func absent(run string) error {
	return badInput(fmt.Errorf("the cluster has no run %s: look for it in another namespace with -n, or submit it", run))
}

// silence is how long a cluster that has answered before may not answer, as while its API server is replaced or a laptop
// changes networks.
const silence = 10 * time.Minute

// until asks again and again until the state is as wanted, and tells of every state that differs from the
// one before. The state is unknown while a cluster that has answered does so no more, for a time.
func (f k8sFlags) until(ctx context.Context, run string, tell func(k8s.State), wanted func(k8s.State) bool) (k8s.State, error) {
	if f.every <= 0 {
		return k8s.State{}, badInput(fmt.Errorf("--every is %v: must be more than 0", f.every))
	}
	var last string
	var answered time.Time
	for {
		s, err := f.look(ctx, run)
		switch {
		case err == nil && s.Phase == k8s.Absent:
			return s, absent(run)
		case err == nil:
			answered = time.Now()
		case ctx.Err() != nil || errors.Is(err, kubectl.ErrMissing) || time.Since(answered) > silence:
			return s, err
		default:
			s = k8s.State{Run: run, Phase: k8s.Unknown, Reason: err.Error()}
		}
		if now := s.Phase + s.Reason; now != last {
			last = now
			tell(s)
		}
		if err == nil && wanted(s) {
			return s, nil
		}
		if err := pause(ctx, f.every); err != nil {
			return s, err
		}
	}
}

// pause returns after a while, or when ctx is done, with its error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// clusterWork runs a command against a cluster until it ends or a signal arrives, within a time; 0: any.
func clusterWork(ctx context.Context, o outside, limit time.Duration, work func(context.Context) error) error {
	guard := newGuard(ctx, o)
	defer guard.close()
	ctx = guard.preparing
	if limit < 0 {
		return badInput(fmt.Errorf("--timeout is %v: must not be negative", limit))
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	err := work(ctx)
	switch {
	case errors.Is(err, kubectl.ErrMissing):
		return badInput(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("giving up after %v: the run goes on in the cluster: see 'andrea k8s status'", limit)
	case guard.signalled():
		return exitError{guard.code(), nil}
	}
	return err
}
