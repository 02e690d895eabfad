package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"andrea/k8s"
	"andrea/pipeline"
	"andrea/vfs"
)

// submitFlags say what a run in a cluster is like.
type submitFlags struct {
	cluster k8sFlags
	options k8s.Options
	job     string
	gpu     int
}

func (f *submitFlags) add(c *cobra.Command) {
	f.cluster.add(c)
	flags := c.Flags()
	flags.Lookup("namespace").Usage = "namespace (default: the overlay's, or the one that kubectl uses)"
	flags.StringVar(&f.options.Name, "name", "", "name of the run (default: the overlay's)")
	flags.StringVar(&f.options.Overlay, "overlay", "quickstart", "what it is made of: "+strings.Join(k8s.Overlays(), ", "))
	flags.StringArrayVar(&f.options.Components, "component", nil, "add a component: "+strings.Join(k8s.Components(), ", ")+"; can be repeated")
	flags.StringVar(&f.job, "job", "", "job spec in YAML (default: the overlay's)")
	flags.IntVar(&f.options.Workers, "workers", 0, "number of workers (default: the overlay's; of a run that exists: as it is)")
	flags.IntVar(&f.gpu, "gpu", 0, "GPUs of each worker: 0 or 1 (default: the overlay's)")
	flags.StringVar(&f.options.Image, "image", "", "image with a tag or digest")
	flags.StringVar(&f.options.WorkerImage, "worker-image", "", "image of the workers, where they need another one, such as for GPUs")
	flags.StringVar(&f.options.DataClaim, "data-claim", "", "PersistentVolumeClaim that holds the dataset (default andrea-data)")
	flags.StringVar(&f.options.DataPath, "data", "", "the dataset's folder in it (default /data/tokens)")
}

// render returns the run that the flags describe.
func (f submitFlags) render(o outside) (k8s.Run, error) {
	if f.gpu < 0 || f.gpu > 1 {
		return k8s.Run{}, fmt.Errorf("--gpu is %d: a worker computes on one GPU: give 1, and more --workers", f.gpu)
	}
	f.options.GPU, f.options.Namespace = f.gpu == 1, f.cluster.namespace
	if f.job != "" {
		data, err := vfs.ReadFile(o.fs, f.job, pipeline.MaxJobSpecBytes)
		if err != nil {
			return k8s.Run{}, fmt.Errorf("reading the job spec: %w", err)
		}
		f.options.Job = data
	}
	return k8s.Render(f.options)
}

func k8sRenderCommand(o outside) *cobra.Command {
	var f submitFlags
	c := &cobra.Command{
		Use:   "render",
		Short: "Print the objects of a run in a cluster",
		Long: `Print the objects of a run in a cluster, as YAML.

Its Secrets are not among them: 'andrea k8s keys' makes them.`,
		Example: `  andrea k8s render --overlay 12m --name run7 --job job.yaml --image registry.example.com/andrea:v1 > run7.yaml
  andrea k8s render --overlay 120m --gpu 1 --workers 8 | kubectl diff -f -`,
		Args: noArgument,
		RunE: func(*cobra.Command, []string) error {
			run, err := f.render(o)
			if err != nil {
				return badInput(err)
			}
			return o.printObjects(run.Objects)
		},
	}
	f.add(c)
	return c
}

// printObjects writes objects to standard output.
func (o outside) printObjects(objects []k8s.Object) error {
	text, err := k8s.Marshal(objects)
	if err == nil {
		_, err = o.stdout.Write(text)
	}
	return err
}

func k8sSubmitCommand(o outside) *cobra.Command {
	var f submitFlags
	c := &cobra.Command{
		Use:   "submit",
		Short: "Start a run in a cluster",
		Long: `Start a run in a cluster.

The objects are checked by the cluster as a whole before any is made. Secrets with the
keys of the run are made where they are missing. The same run submitted again
changes nothing; another job under the same name is refused, and the keys that differ
are named: a run's job never changes.`,
		Example: `  andrea k8s submit --name run7 --overlay 12m --job job.yaml --image registry.example.com/andrea:v1
  andrea k8s submit --name try --image registry.example.com/andrea:v1       a minute on CPUs, no data needed
  andrea k8s submit --name big --overlay gpu-spot --workers 8 --image ... --worker-image ...   spot nodes with GPUs`,
		Args: noArgument,
		RunE: func(c *cobra.Command, _ []string) error {
			return clusterWork(c.Context(), o, 0, func(ctx context.Context) error { return f.submit(ctx, o) })
		},
	}
	f.add(c)
	return c
}

// submit checks and applies.
func (f submitFlags) submit(ctx context.Context, o outside) error {
	run, err := f.render(o)
	if err != nil {
		return badInput(err)
	}
	fail := func(err error) error { return fmt.Errorf("submitting the run %s: %w", run.Name, err) }
	f.cluster.namespace = namespaceOf(run)
	exists, err := f.checkJob(ctx, run)
	if err != nil {
		return fail(err)
	}
	if exists {
		if err := f.keep(ctx, &run); err != nil {
			return fail(err)
		}
	}
	secrets, err := f.missingSecrets(ctx, o, run)
	if err != nil {
		return fail(err)
	}
	run.Objects = append(run.Objects, secrets...)
	if err := f.apply(ctx, run); err != nil {
		return fail(err)
	}
	verb := "submitted"
	if exists {
		verb = "as submitted"
	}
	return o.report(false, nil, fmt.Sprintf("%s is %s: see 'andrea k8s status %s%s'\n", run.Name, verb, run.Name, f.cluster.suffix()))
}

// keep leaves of a run that exists what others may have changed: the number of its workers, unless one is asked for, and its
// claim, which may have grown and cannot shrink.
func (f submitFlags) keep(ctx context.Context, run *k8s.Run) error {
	if f.options.Workers == 0 {
		state, err := f.cluster.look(ctx, run.Name)
		if err != nil {
			return err
		}
		run.SetWorkers(state.Workers.Wanted)
	}
	claim, err := f.cluster.get(ctx, "persistentvolumeclaim", k8s.NameOf(run.Name, k8s.RunsClaim))
	if err == nil && claim != nil {
		run.Objects = slices.DeleteFunc(run.Objects, func(o k8s.Object) bool { return o.Kind() == claim.Kind() && o.Name() == claim.Name() })
	}
	return err
}

// suffix is what makes the next command mean the same namespace.
func (f k8sFlags) suffix() string {
	if f.namespace == "" {
		return ""
	}
	return " -n " + f.namespace
}

// namespaceOf is where the objects of a run say that they live; empty: they do not say.
func namespaceOf(run k8s.Run) string {
	for _, object := range run.Objects {
		if metadata, isMap := object["metadata"].(map[string]any); isMap && object.Kind() == "Job" {
			namespace, _ := metadata["namespace"].(string)
			return namespace
		}
	}
	return ""
}

// get reads an object; nil: there is none.
func (f k8sFlags) get(ctx context.Context, kind, name string) (k8s.Object, error) {
	out, err := f.kubectl().Run(ctx, nil, "get", kind, name, "--output=json", "--ignore-not-found")
	if err != nil || len(out) == 0 {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(out, &object); err != nil {
		return nil, fmt.Errorf("reading %s %s of the cluster: %w", kind, name, err)
	}
	return object, nil
}

// checkJob refuses another job under the name of a run that exists.
func (f submitFlags) checkJob(ctx context.Context, run k8s.Run) (exists bool, err error) {
	config, err := f.cluster.get(ctx, "configmap", k8s.NameOf(run.Name, k8s.JobConfig))
	if err != nil || config == nil {
		return false, err
	}
	spec, err := k8s.JobOf(config)
	if err != nil {
		return true, err
	}
	if differences := spec.Differences(run.Job); len(differences) > 0 {
		return true, badInput(fmt.Errorf("it exists with another job: %s: choose another --name", strings.Join(differences, "; ")))
	}
	return true, nil
}

// missingSecrets makes the Secrets of a run that has none.
func (f submitFlags) missingSecrets(ctx context.Context, o outside, run k8s.Run) ([]k8s.Object, error) {
	var missing []string
	names := []string{k8s.NameOf(run.Name, k8s.ServerSecret), k8s.NameOf(run.Name, k8s.WorkerSecret)}
	for _, name := range names {
		// Only the name is asked for, so that no secret comes here.
		out, err := f.cluster.kubectl().Run(ctx, nil, "get", "secret", name, "--output=name", "--ignore-not-found")
		if err != nil {
			return nil, err
		}
		if len(out) == 0 {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) == 0:
		return nil, nil
	case !run.OwnServer():
		return nil, badInput(fmt.Errorf("there is no Secret %s: make it with creds.txt and ca.crt for the NATS server: see k8s/README.md", strings.Join(missing, ", ")))
	case len(missing) < len(names):
		return nil, badInput(fmt.Errorf("there is no Secret %s, and keys are made together: delete all Secrets of the run, stop it, and submit it again", missing[0]))
	}
	return makeSecrets(o, run.Name, f.cluster.namespace)
}

// apply lets the cluster check all objects, then makes or changes them.
func (f submitFlags) apply(ctx context.Context, run k8s.Run) error {
	text, err := k8s.Marshal(run.Objects)
	if err != nil {
		return err
	}
	arguments := []string{"apply", "--server-side", "--field-manager=andrea", "--force-conflicts", "--validate=strict", "--filename=-"}
	for _, more := range [][]string{{"--dry-run=server"}, nil} {
		_, err := f.cluster.kubectl().Run(ctx, text, append(arguments[:len(arguments):len(arguments)], more...)...)
		if err != nil && strings.Contains(err.Error(), "immutable") {
			return badInput(errors.Join(err, errors.New("the pods of a run that exists cannot change, but for the number of workers: choose another --name")))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
