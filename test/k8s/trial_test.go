//go:build linux

package k8s

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"andrea/test/k8s/cluster"
)

// trial is a run in the arena, in a namespace of its own.
type trial struct {
	arena
	name string
	edit func(object map[string]any) // changes objects before they are applied; may be nil
	pace string                      // what the coordinator may use of a processor; empty: as much as a worker
	// The spare node of a cluster of our own may be used; the coordinator begins there.
	spare bool
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
	slowly       = "60m"  // for what takes long to happen
	slower       = "40m"  // for what takes as long as a pod's grace, and more after it
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
		if pods := podSpec(o); pods != nil && r.spare && r.own != nil {
			useSpare(pods)
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

// useSpare lets pods come to the spare node, and coordinators rather there than elsewhere.
func useSpare(pods map[string]any) {
	tolerations, _ := pods["tolerations"].([]any)
	pods["tolerations"] = append(tolerations, map[string]any{"key": cluster.SpareTaint, "operator": "Exists", "effect": "NoSchedule"})
	if containers, _ := pods["containers"].([]any); containers[0].(map[string]any)["name"] != "coordinator" {
		return
	}
	there := map[string]any{"matchExpressions": []any{map[string]any{"key": "kubernetes.io/hostname", "operator": "In", "values": []any{cluster.SpareNode}}}}
	pods["affinity"] = map[string]any{"nodeAffinity": map[string]any{
		"preferredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{"weight": 100, "preference": there}}}}
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

// evict asks for a pod's eviction until the disruption budget allows it, as a drain does.
func (r trial) evict(pod string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod, r.name)
	r.eventually("evicting "+pod, func() bool {
		return r.run(body, r.kubectl, "create", "--raw", "/api/v1/namespaces/"+r.name+"/pods/"+pod+"/eviction", "-f", "-").code == 0
	}, r.story)
}

// holds keeps a pod that is deleted, so that its end can be read, or lets it go.
func (r trial) holds(pod string, held bool) {
	r.t.Helper()
	finalizers := "[]"
	if held {
		finalizers = `["test.andrea/read-its-end"]`
	}
	r.kube("", "patch", "pod", pod, "-n", r.name, "--type=merge", "-p", `{"metadata":{"finalizers":`+finalizers+`}}`)
}

// kill sends SIGKILL to a pod's program.
func (r trial) kill(pod string) {
	r.t.Helper()
	if err := r.own.KillPod(r.view().pod(pod).Metadata.UID, "/andrea"); err != nil {
		r.t.Fatal(err)
	}
}

// completes waits for the end of a run, and keeps the sum of its weights.
func (r trial) completes() {
	r.t.Helper()
	if out := r.andrea(0, "wait", r.name, "-n", r.name, "--timeout", patience.String()); !strings.Contains(out.stderr, "complete") {
		r.t.Errorf("wait said %s", out.stderr)
	}
	r.sums.keep(r.name, r.sum())
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
		phase := r.view().pod("sum").Status.Phase
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
	out := ""
	r.eventually("the output of the sum of "+r.name, func() bool { // its last line may come after the pod's end
		out = r.kube("", "logs", "sum", "-n", r.name)
		for line := range strings.Lines(out) {
			if json.Unmarshal([]byte(line), &checked) == nil && len(checked.Checkpoints) > 0 {
				return true
			}
		}
		return false
	}, r.story)
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
