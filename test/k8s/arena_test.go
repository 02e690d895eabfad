//go:build linux

package k8s

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"andrea/test/k8s/cluster"
)

// imageVariable names the image to run on a cluster of somebody else, whose nodes hold it or can pull it.
const imageVariable = "ANDREA_IMAGE"

// clusterImage is the image's name on the nodes that are started here.
const clusterImage = "docker.io/library/andrea:test"

// arena is a cluster with nodes, and somebody who uses it.
type arena struct {
	user
	image string
	own   *cluster.Cluster // nil: it is somebody else's, and its nodes cannot be lost
}

// newArena finds or starts a cluster.
func newArena(t *testing.T) arena {
	t.Helper()
	a := arena{user: user{t: t, bin: t.TempDir(), kubeconfig: os.Getenv(kubeconfigVariable), kubectl: "kubectl"}, image: os.Getenv(imageVariable)}
	switch {
	case a.kubeconfig == "":
		a.startCluster()
	case a.image == "":
		t.Fatalf("%s is set, so %s must name an image that the cluster's nodes hold or can pull", kubeconfigVariable, imageVariable)
	}
	a.buildProgram()
	return a
}

// startCluster starts a cluster here, or skips the test and says what is missing.
func (a *arena) startCluster() {
	a.t.Helper()
	if err := cluster.Inside(); err != nil {
		a.t.Skip(err)
	}
	tools, err := cluster.FindTools("tools")
	if err != nil {
		a.t.Fatal(err)
	}
	if missing := whatIsMissing(tools); missing != "" {
		a.t.Skip(missing)
	}
	layout, pause := filepath.Join(a.t.TempDir(), "layout"), filepath.Join(a.t.TempDir(), "pause")
	build(a.t, "../..", "run", "./scripts/image", "--arch", runtime.GOARCH, "--ref", clusterImage, "--out", layout)
	build(a.t, ".", "build", "-o", pause, "./pause")
	ctx, cancel := context.WithTimeout(a.t.Context(), startTime)
	defer cancel()
	began := time.Now()
	a.own, err = cluster.StartCluster(ctx, tools, layout, pause)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		if err := a.own.Stop(); err != nil {
			a.t.Error(err)
		}
	})
	a.t.Logf("measured: two nodes were ready after %.1f s", time.Since(began).Seconds())
	a.kubeconfig, a.kubectl, a.image = a.own.Kubeconfig, a.own.Kubectl, clusterImage
	if err := os.Symlink(a.own.Kubectl, filepath.Join(a.bin, "kubectl")); err != nil {
		a.t.Fatal(err)
	}
}

// whatIsMissing says what two nodes need that is not there; empty when all is.
func whatIsMissing(tools cluster.Tools) string {
	if missing := tools.Missing(slices.Concat(cluster.ControlPrograms, cluster.ClusterPrograms)); len(missing) > 0 {
		return fmt.Sprintf("%v are missing: %v", missing, cluster.ErrNotBuilt)
	}
	if missing := cluster.MissingPackages(); len(missing) > 0 {
		return fmt.Sprintf("two nodes need the packages %v: run 'go run ./build cluster' in test/k8s as root of a Debian, or install what they have", missing)
	}
	return ""
}

// eventually waits until a condition holds; said, unless nil, is asked what to print when it never does.
func (a arena) eventually(what string, holds func() bool, said func() string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(700 * time.Millisecond) // each look is three processes
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			text := ""
			if said != nil {
				text = said()
			}
			a.t.Fatalf("%s: it does not come\n%s", what, text)
		case <-ticker.C:
		}
	}
}

// trial is a run in the arena, in a namespace of its own.
type trial struct {
	arena
	name string
	edit func(object map[string]any) // changes objects before they are applied; may be nil
	pace string                      // what the coordinator may use of a processor; empty: as much as a worker
}

// clusterJob takes long enough to be disturbed in: not because it computes much, but because its pods may use only a part of
// a processor, so that several runs share a small machine.
const (
	clusterSteps = 400
	clusterJob   = `model: {variant: 12m, d_model: 32, n_head: 2, n_layer: 2, context: 32}
data: {validation: 0.1}
batch: {tokens_per_step: 256, microbatch: 1, lanes: 8}
steps: 400
eval: {every: 100, windows: 4}
checkpoint: {every: 20, keep_last: 2}
`
	clusterShare = "250m" // of a processor
	slowly       = "100m" // for what takes long to happen
)

// submit applies the objects of a run, with requests so small that dozens of pods find room on any node. flags are more
// flags of 'andrea k8s render'.
func (r trial) submit(job string, flags ...string) {
	r.t.Helper()
	r.namespace(r.name)
	file := filepath.Join(r.t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(job), 0o644); err != nil {
		r.t.Fatal(err)
	}
	flags = append([]string{"render", "--name", r.name, "-n", r.name, "--overlay", "quickstart", "--job", file, "--image", r.image, "--worker-image", r.image}, flags...)
	for _, text := range []string{r.andrea(0, "keys", "--name", r.name, "-n", r.name).stdout, r.edited(r.andrea(0, flags...).stdout)} {
		r.kube(text, "apply", "--server-side", "--validate=strict", "-f", "-")
	}
}

// edited changes objects.
func (r trial) edited(text string) string {
	var all strings.Builder
	for _, o := range objects(r.t, text) {
		for _, c := range containers(o) {
			resources, _ := c["resources"].(map[string]any)
			requests, _ := resources["requests"].(map[string]any)
			limits, _ := resources["limits"].(map[string]any)
			requests["cpu"], requests["memory"], limits["cpu"] = "20m", "32Mi", clusterShare
			if c["name"] == "coordinator" && r.pace != "" {
				limits["cpu"] = r.pace
			}
		}
		if r.edit != nil {
			r.edit(o)
		}
		out, err := json.Marshal(o)
		if err != nil {
			r.t.Fatal(err)
		}
		fmt.Fprintf(&all, "---\n%s\n", out)
	}
	return all.String()
}

// podSpec is the spec of the pods of a Job or Deployment; nil for other objects.
func podSpec(o map[string]any) map[string]any {
	spec, _ := o["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	pods, _ := template["spec"].(map[string]any)
	return pods
}

func containers(o map[string]any) (all []map[string]any) {
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := podSpec(o)[list].([]any)
		for _, c := range items {
			all = append(all, c.(map[string]any))
		}
	}
	return all
}

// get is a value of an object of the run, by a JSONPath.
func (r trial) get(object, path string) string {
	r.t.Helper()
	return r.kube("", "get", object, "-n", r.name, "--ignore-not-found", "-o", "jsonpath="+path)
}

// status is what 'andrea k8s status' says.
type status struct {
	Phase, Reason, Coordinator string
	Workers                    struct{ Wanted, Ready int }
	Problems                   []string
	Progress                   struct{ Step int }
}

func (r trial) status() (s status) {
	r.t.Helper()
	out := r.andrea(0, "status", r.name, "-n", r.name, "--json").stdout
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return s
}

// reaches waits until the coordinator has printed a step, or a later one, and returns it.
func (r trial) reaches(step int) (at int) {
	r.t.Helper()
	var s status
	r.eventually(fmt.Sprintf("step %d of %s", step, r.name), func() bool {
		s = r.status()
		if s.Phase == "failed" || s.Phase == "complete" && s.Progress.Step < step {
			r.t.Fatalf("%s ended before step %d: %+v", r.name, step, s)
		}
		return s.Progress.Step >= step
	}, r.story)
	return s.Progress.Step
}

// workersReady waits until so many workers are ready, and no more are there. When the run is complete they have nothing to
// be ready for, and need only run.
func (r trial) workersReady(n int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%d workers of %s", n, r.name), func() bool {
		s := r.status()
		running, others := r.pods("worker")
		return len(running) == n && len(others) == 0 && (s.Workers.Ready == n || s.Phase == "complete")
	}, r.story)
}

// pods are the names of the pods of a side that run, and of those that are about to; those that are about to go are neither.
func (r trial) pods(side string) (running, pending []string) {
	r.t.Helper()
	const path = `{range .items[*]}{.metadata.name} {.metadata.deletionTimestamp} {.status.phase}{"\n"}{end}`
	out := r.kube("", "get", "pods", "-n", r.name, "-l", "app.kubernetes.io/component="+side, "-o", "jsonpath="+path)
	for line := range strings.Lines(out) {
		switch f := strings.Fields(line); {
		case len(f) == 2 && f[1] == "Running":
			running = append(running, f[0])
		case len(f) == 2 && f[1] == "Pending":
			pending = append(pending, f[0])
		}
	}
	return running, pending
}

// workers are the names of the workers that run.
func (r trial) workers() []string {
	r.t.Helper()
	running, _ := r.pods("worker")
	return running
}

// nodeOf is where a pod runs.
func (r trial) nodeOf(pod string) string {
	r.t.Helper()
	return r.get("pod/"+pod, "{.spec.nodeName}")
}

// evict asks for a pod's eviction until the disruption budget allows it, as a drain does.
func (r trial) evict(pod string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod, r.name)
	r.eventually("evicting "+pod, func() bool {
		return r.run(body, r.kubectl, "create", "--raw", "/api/v1/namespaces/"+r.name+"/pods/"+pod+"/eviction", "-f", "-").code == 0
	}, r.story)
}

// kill sends SIGKILL to a pod's program.
func (r trial) kill(pod string) {
	r.t.Helper()
	if err := r.own.KillPod(r.get("pod/"+pod, "{.metadata.uid}"), "/andrea"); err != nil {
		r.t.Fatal(err)
	}
}

// gone waits until a pod is no more, or is another one.
func (r trial) gone(pod string) {
	r.t.Helper()
	r.eventually(pod+" goes", func() bool { return r.get("pod/"+pod, "{.metadata.name}") == "" }, r.story)
}

// next waits until another coordinator than one is ready, and returns the step that it has then or soon after.
func (r trial) next(than string) (step int) {
	r.t.Helper()
	var s status
	r.eventually("the next coordinator of "+r.name, func() bool {
		s = r.status()
		if s.Phase == "failed" {
			r.t.Fatalf("%s has failed: %+v", r.name, s)
		}
		return s.Coordinator != than && (s.Phase == "running" || s.Phase == "complete") && s.Progress.Step > 0
	}, r.story)
	return s.Progress.Step
}

// completes waits for the end of a run, and compares the sum of its weights.
func (r trial) completes(want string) {
	r.t.Helper()
	if out := r.andrea(0, "wait", r.name, "-n", r.name, "--timeout", patience.String()); !strings.Contains(out.stderr, "complete") {
		r.t.Errorf("wait said %s", out.stderr)
	}
	if got := r.sum(); got != want {
		r.t.Errorf("%s ended with other weights: %s, undisturbed %s\n%s", r.name, got, want, r.story())
	}
	r.kube("", "delete", "namespace", r.name, "--wait=false")
}

// sum is the SHA-256 of the weights after the last step, as a pod sees them that mounts the claim and reads every byte.
func (r trial) sum() string {
	r.t.Helper()
	r.kube(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sum", "namespace": %[1]q}, "spec": {"restartPolicy": "Never",
"automountServiceAccountToken": false,
"securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
"containers": [{"name": "sum", "image": %[2]q, "args": ["checkpoints", "verify", "/runs/%[1]s", "--json"],
"securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
"volumeMounts": [{"name": "runs", "mountPath": "/runs", "readOnly": true}]}],
"volumes": [{"name": "runs", "persistentVolumeClaim": {"claimName": "%[1]s-runs"}}]}}`, r.name, r.image), "apply", "--server-side", "-f", "-")
	r.eventually("the sum of "+r.name, func() bool {
		phase := r.get("pod/sum", "{.status.phase}")
		if phase == "Failed" {
			r.t.Fatalf("%s", r.kube("", "logs", "sum", "-n", r.name))
		}
		return phase == "Succeeded"
	}, r.story)
	var checked struct {
		Checkpoints []struct {
			Step    int
			Weights string `json:"weights_sha256"`
		}
	}
	out := r.kube("", "logs", "sum", "-n", r.name)
	for line := range strings.Lines(out) {
		if json.Unmarshal([]byte(line), &checked) == nil && len(checked.Checkpoints) > 0 {
			break
		}
	}
	for _, c := range checked.Checkpoints {
		if c.Step == clusterSteps {
			return c.Weights
		}
	}
	r.t.Fatalf("there are no weights of step %d: %s", clusterSteps, out)
	return ""
}

// story is what a cluster says of a run that does not go as it should.
func (r trial) story() string {
	var all strings.Builder
	for _, args := range [][]string{
		{"get", "job,deployment,pod,pvc", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "app.kubernetes.io/component=coordinator", "--tail=15"}, {"logs", "-l", "app.kubernetes.io/component=worker", "--tail=5", "--prefix", "--max-log-requests=20"},
	} {
		out := r.run("", r.kubectl, append(args, "-n", r.name)...)
		fmt.Fprintf(&all, "%s%s\n", out.stdout, out.stderr)
	}
	return all.String()
}
