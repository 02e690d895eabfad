//go:build linux

package k8s

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is something that happens to a run, which ends in the weights of the undisturbed one all the same.
type scenario struct {
	name string
	own  bool          // needs nodes that are started here
	play func(r trial) // returns when nothing more will be done to the run
}

// together are scenarios that leave the nodes alone, so that they may happen at the same time.
var together = []scenario{
	{calm, false, undisturbedRun},
	{"coordinator-killed", true, coordinatorProcessKilled},
	{"suspended", false, suspended},
	{"scaled", false, deploymentScaled},
	{"workers-as-job", false, workersAsJob},
	{"grace-too-short", false, graceTooShort},
	{"workers-evicted", false, workersEvicted},
	{"gpus-short", true, gpusShort},
	{"worker-killed", true, workerKilled},
}

// alone are scenarios of nodes.
var alone = []scenario{
	{"coordinator-drained", false, coordinatorNodeDrained},
	{"node-lost", true, nodeLost},
}

// calm names the run whose weights all others must have.
const calm = "undisturbed"

// Runs in a cluster of two nodes, or in that of the kubeconfig in ANDREA_KUBECONFIG, end in the same weights whatever
// happens to their pods and nodes.
func TestInACluster(t *testing.T) {
	a := newArena(t)
	t.Run("pods", func(t *testing.T) {
		t.Run("bad-job", func(t *testing.T) {
			t.Parallel()
			badJobFails(a.trial(t, "bad-job"))
		})
		for _, s := range together {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				a.play(t, s)
			})
		}
	})
	for _, s := range alone {
		t.Run(s.name, func(t *testing.T) { a.play(t, s) })
	}
	want, ended := a.sums.of[calm]
	if !ended {
		t.Log("the weights were compared with nothing: the undisturbed run has failed, or was not asked for")
		return
	}
	for name, sum := range a.sums.of {
		if sum != want {
			t.Errorf("%s ended with other weights: %s, undisturbed %s", name, sum, want)
		}
	}
}

// play lets a scenario happen to a run.
func (a arena) play(t *testing.T, s scenario) {
	if s.own && a.own == nil {
		t.Skip("nobody may lose nodes and processes of a cluster that is not of the test's own")
	}
	r := a.trial(t, s.name)
	s.play(r)
	r.completes()
}

func (a arena) trial(t *testing.T, name string) trial {
	a.t = t
	return trial{arena: a, name: name}
}

// measured prints how long something took.
func (r trial) measured(what string, since time.Time) {
	r.t.Helper()
	r.t.Logf("measured: %s: %.1f s", what, time.Since(since).Seconds())
}

// undisturbedRun is complete. Its log is lines of JSON, its workers idle at the end, and go when the run is stopped.
func undisturbedRun(r trial) {
	began := time.Now()
	r.submit(clusterJob)
	r.reaches(1)
	r.measured("submit to the first step", began)
	pod := r.view().coordinator().Metadata.Name
	r.andrea(0, "wait", r.name, "-n", r.name, "--timeout", patience.String())
	r.measured("submit to complete", began)
	for line := range strings.Lines(r.andrea(0, "logs", r.name, "-n", r.name).stdout) {
		if !json.Valid([]byte(line)) {
			r.t.Errorf("its log has the line %s", line)
		}
	}
	if end := r.view().pod(pod); end.Status.Phase != "Succeeded" || end.Status.ContainerStatuses[0].State.Terminated.ExitCode != 0 {
		r.t.Errorf("the coordinator ended as %+v", end)
	}
	workers := r.workers()
	r.sum() // a pod comes and goes meanwhile
	if now := r.workers(); len(now) != 2 || !slices.Equal(now, workers) {
		r.t.Errorf("the idle workers %v became %v", workers, now)
	}
	for _, p := range r.view().workers("Running") {
		if n := p.Status.ContainerStatuses[0].RestartCount; n > 0 {
			r.t.Errorf("%s was started again %d times", p.Metadata.Name, n)
		}
	}
	r.andrea(0, "stop", r.name, "-n", r.name)
	r.workersReady(0)
}

// badJobFails: a job that cannot be trained is not tried again, and it is said why.
func badJobFails(r trial) {
	began := time.Now()
	r.submit(strings.ReplaceAll(clusterJob, "n_head: 2", "n_head: 3"))
	out := r.andrea(1, "wait", r.name, "-n", r.name, "--timeout", patience.String())
	r.measured("submit to Failed", began)
	if !strings.Contains(out.stderr, "PodFailurePolicy") || !strings.Contains(out.stderr, "n_head") {
		r.t.Errorf("it says %s", out.stderr)
	}
	const path = `{.status.conditions[?(@.type=="Failed")].reason}`
	if reason := r.get("job/"+r.name+"-coordinator", path); reason != "PodFailurePolicy" {
		r.t.Errorf("the reason is %q", reason)
	}
	described := r.kube("", "describe", "pod", "-n", r.name, "-l", "app.kubernetes.io/component=coordinator")
	if strings.Count(described, "\nName:") > 1 || !strings.Contains(described, "n_head") {
		r.t.Errorf("kubectl describe says %s", described)
	}
	r.kube("", "delete", "namespace", r.name, "--wait=false")
}

// start submits the run with three workers, and returns its coordinator when it has come to a step.
func (r trial) start(step int, flags ...string) (coordinator string) {
	r.t.Helper()
	r.submit(clusterJob, append([]string{"--workers", "3"}, flags...)...)
	r.reaches(step)
	return r.view().coordinator().Metadata.Name
}

func workersEvicted(r trial) {
	r.pace = slowly
	r.start(10)
	r.workersReady(3)
	for _, pod := range r.workers() {
		began := time.Now()
		r.evict(pod)
		r.workersReady(3)
		r.measured("eviction of a worker to three that are ready", began)
	}
}

func workerKilled(r trial) {
	r.start(10)
	r.workersReady(3)
	pod := r.workers()[0]
	began := time.Now()
	r.kill(pod)
	r.eventually("the worker starts again", func() bool {
		containers := r.view().pod(pod).Status.ContainerStatuses
		return len(containers) == 1 && containers[0].RestartCount == 1
	}, r.story)
	r.workersReady(3)
	r.measured("kill -9 of a worker to three that are ready", began)
}

func coordinatorProcessKilled(r trial) {
	pod := r.start(30)
	at := r.step(pod)
	began := time.Now()
	r.kill(pod)
	again := r.next(pod)
	r.measured("kill -9 of the coordinator to its next step", began)
	if again < at {
		r.t.Errorf("it went back to step %d from %d, though its workers lived", again, at)
	}
}

// deploymentScaled: 3, 1, 5, 0, 3.
func deploymentScaled(r trial) {
	r.pace = slowly
	r.start(10)
	for _, n := range []int{1, 5, 0, 3} {
		r.kube("", "scale", "deployment", r.name+"-worker", "-n", r.name, fmt.Sprintf("--replicas=%d", n))
		r.workersReady(n)
	}
}

// suspended: by the Job's own switch, as a queue does it, and by 'andrea k8s stop'.
func suspended(r trial) {
	pod := r.start(10)
	at := r.step(pod)
	suspend := func(value string) {
		r.kube("", "patch", "job", r.name+"-coordinator", "-n", r.name, "--type=merge", "-p", `{"spec":{"suspend":`+value+`}}`)
	}
	began := time.Now()
	suspend("true")
	r.gone(pod)
	r.measured("suspending to the coordinator's end", began)
	began = time.Now()
	suspend("false")
	again := r.next(pod)
	r.measured("resuming to its next step", began)
	if again < at {
		r.t.Errorf("it went back to step %d from %d", again, at)
	}
	r.andrea(0, "stop", r.name, "-n", r.name)
	r.workersReady(0)
	if s := r.status(); s.Phase != "stopped" {
		r.t.Errorf("it is %+v", s)
	}
	r.andrea(0, "resume", r.name, "-n", r.name)
}

// graceTooShort: everything goes with a second of grace; what it costs are steps, not the run.
func graceTooShort(r trial) {
	pod := r.start(30)
	r.kube("", "delete", "pod", "-n", r.name, "-l", "app.kubernetes.io/instance="+r.name, "--grace-period=1")
	r.next(pod)
}

// gpusShort: one GPU for three workers, whose engine computes on processors all the same.
func gpusShort(r trial) {
	r.pace = slowly
	r.gpus(1)
	defer r.gpus(0)
	r.edit = func(o map[string]any) {
		for _, c := range containers(o) {
			variables, _ := c["env"].([]any)
			for _, v := range variables {
				if v := v.(map[string]any); v["name"] == "ENGINE" {
					v["value"] = "cpu"
				}
			}
		}
	}
	r.start(5, "--gpu", "1")
	r.eventually("what is said of missing GPUs", func() bool {
		s := r.status()
		return s.Workers.Ready == 1 && len(s.Problems) == 2 && strings.Count(strings.Join(s.Problems, " "), "Insufficient nvidia.com/gpu") >= 2
	}, r.story)
	r.eventually("the end without them", func() bool { return r.ended(r.name+"-coordinator") != "" }, r.story)
}

// gpus tells the API server that a node has GPUs.
func (r trial) gpus(n int) {
	r.t.Helper()
	patch := fmt.Sprintf(`{"status":{"capacity":{"nvidia.com/gpu":"%[1]d"},"allocatable":{"nvidia.com/gpu":"%[1]d"}}}`, n)
	r.kube("", "patch", "node", r.own.Nodes()[0], "--subresource=status", "--type=merge", "-p", patch)
}

// workersAsJob: a worker that is evicted is replaced, and the Job is complete when the run is.
func workersAsJob(r trial) {
	r.pace = slowly
	r.start(10, "--component", "worker-job")
	r.workersReady(3)
	pods := r.workers()
	began := time.Now()
	r.evict(pods[0])
	r.eventually("the worker is replaced", func() bool {
		now := r.workers()
		return len(now) == 3 && !slices.Contains(now, pods[0])
	}, r.story)
	r.measured("eviction of a worker of a Job to its replacement", began)
	r.eventually("the end of the workers' Job", func() bool { return r.ended(r.name+"-worker") == "Complete" }, r.story)
	if failed := r.get("job/"+r.name+"-worker", "{.status.failed}"); strings.Trim(failed, "0") != "" {
		r.t.Errorf("workers have failed: %s", failed)
	}
	if left := r.workers(); len(left) > 0 {
		r.t.Errorf("there are still %v", left)
	}
}

func coordinatorNodeDrained(r trial) {
	pod := r.start(30)
	node := r.view().pod(pod).Spec.NodeName
	at := r.step(pod)
	began := time.Now()
	// It waits for budgets, and says so as warnings.
	if out := r.run("", r.kubectl, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout="+patience.String()); out.code != 0 {
		r.t.Fatalf("draining %s: %+v\n%s", node, out, r.story())
	}
	defer r.kube("", "uncordon", node)
	r.measured("drain of the coordinator's node", began)
	again := r.next(pod)
	r.measured("drain to the coordinator's next step", began)
	if again < at {
		r.t.Errorf("it went back to step %d from %d", again, at)
	}
	if failed := r.get("job/"+r.name+"-coordinator", "{.status.failed}"); strings.Trim(failed, "0") != "" {
		r.t.Errorf("the drain counts as a failure: %s", failed)
	}
	r.workersReady(3)
	r.measured("drain to three workers that are ready", began)
}

// nodeLost: the coordinator's. The workers that were there are replaced when the cluster has noticed and waited; the
// coordinator when somebody has said that the node is off, since two must never hold one volume. The node comes back.
func nodeLost(r trial) {
	pod := r.start(30)
	node := r.view().pod(pod).Spec.NodeName
	began := time.Now()
	if err := r.own.LoseNode(node); err != nil {
		r.t.Fatal(err)
	}
	r.eventually(node+" is not ready", func() bool {
		var n podView // of a node there is as much
		return json.Unmarshal(r.ask("/api/v1/nodes/"+node), &n) == nil && !n.is("Ready")
	}, r.story)
	r.measured("loss of a node to NotReady", began)
	r.eventually("workers on the other node", func() bool { return r.workersElsewhere(node) == 3 }, r.story)
	r.measured("loss of a node to three workers on the other one", began)
	if s := r.status(); s.Coordinator != pod || s.Phase != "waiting" || !strings.Contains(s.Reason, node) || !strings.Contains(s.Reason, "out-of-service") {
		r.t.Errorf("it does not say what to do: %+v", s)
	}
	began = time.Now()
	r.kube("", "taint", "node", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	r.next(pod)
	r.measured("saying that the node is off to the coordinator's next step", began)
	if err := r.own.ReturnNode(r.t.Context(), node); err != nil {
		r.t.Fatal(err)
	}
	r.kube("", "taint", "node", node, "node.kubernetes.io/out-of-service-")
}

// workersElsewhere counts the workers that run on other nodes than one.
func (r trial) workersElsewhere(node string) (n int) {
	r.t.Helper()
	for _, p := range r.view().workers("Running") {
		if p.Spec.NodeName != node {
			n++
		}
	}
	return n
}
