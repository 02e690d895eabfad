//go:build linux

package k8s

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"andrea/test/k8s/cluster"
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
	{"disk-full", true, diskFull},
	{"spot-notice", false, spotNotice},
}

// ofNodes are scenarios of a node, one after the other.
var ofNodes = []scenario{
	{"coordinator-drained", false, coordinatorNodeDrained},
	{"node-lost", true, nodeLost},
}

// calm names the run whose weights all others must have.
const calm = "undisturbed"

// Runs in a cluster with nodes of our own, or in that of the kubeconfig in ANDREA_KUBECONFIG, end in the same weights whatever
// happens to their pods and nodes.
func TestInACluster(t *testing.T) {
	a := newArena(t)
	nodes := func(t *testing.T) {
		for _, s := range ofNodes {
			t.Run(s.name, func(t *testing.T) { a.play(t, s) })
		}
	}
	t.Run("pods", func(t *testing.T) {
		if a.own != nil { // with a spare node
			t.Run("nodes", func(t *testing.T) {
				t.Parallel()
				nodes(t)
			})
		}
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
	if a.own == nil {
		t.Run("nodes", nodes)
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
	r.reaches(clusterSteps)
	last := time.Now()
	r.andrea(0, "wait", r.name, "-n", r.name, "--timeout", patience.String())
	r.measured("submit to complete", began)
	r.measured("last step to complete", last)
	for line := range strings.Lines(r.andrea(0, "logs", r.name, "-n", r.name).stdout) {
		if !json.Valid([]byte(line)) {
			r.t.Errorf("its log has the line %s", line)
		}
	}
	if end := r.view().pod(pod); end.Status.Phase != "Succeeded" || end.end().ExitCode != 0 {
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

// badJobFails: a job that cannot be trained is not tried again, and it is said why. Then all of it is deleted.
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
	const kinds = "job,deployment,service,pvc,secret,configmap,serviceaccount,networkpolicy,pdb"
	r.kube("", "delete", kinds, "-n", r.name, "-l", "app.kubernetes.io/instance="+r.name)
	r.eventually("nothing is left", func() bool {
		return r.kube("", "get", kinds+",pod", "-n", r.name, "-l", "app.kubernetes.io/instance="+r.name, "-o", "name") == ""
	}, r.story)
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

// coordinatorProcessKilled: once, and once more than its Job has patience for. That has failed then, and is resumed.
func coordinatorProcessKilled(r trial) {
	r.edit = func(o map[string]any) {
		if spec, isMap := o["spec"].(map[string]any); isMap && spec["backoffLimit"] != nil {
			spec["backoffLimit"] = 1
		}
	}
	first := r.start(30)
	at := r.step(first)
	began := time.Now()
	r.kill(first)
	again := r.next(first)
	r.measured("kill -9 of the coordinator to its next step", began)
	second := r.view().coordinator().Metadata.Name
	r.kill(second)
	r.eventually("the Job has failed", func() bool { return r.ended(r.name+"-coordinator") == "Failed" }, r.story)
	if s := r.status(); s.Phase != "failed" || !strings.Contains(s.Reason, "BackoffLimitExceeded") {
		r.t.Errorf("it is %+v", s)
	}
	began = time.Now()
	r.andrea(0, "resume", r.name, "-n", r.name)
	third := r.next(second)
	r.measured("resuming a failed run to its next step", began)
	if again < at || third < again {
		r.t.Errorf("it went from step %d to %d and %d, though its workers lived", at, again, third)
	}
}

// deploymentScaled: 3, 1, 5, 0, 3.
func deploymentScaled(r trial) {
	r.pace = slowly
	r.start(10)
	for _, n := range []int{1, 5, 0, 3} {
		began := time.Now()
		r.kube("", "scale", "deployment", r.name+"-worker", "-n", r.name, fmt.Sprintf("--replicas=%d", n))
		r.workersReady(n)
		r.measured(fmt.Sprintf("scaling to %d workers that are ready", n), began)
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
	began := time.Now()
	r.kube("", "delete", "pod", "-n", r.name, "-l", "app.kubernetes.io/instance="+r.name, "--grace-period=1")
	r.next(pod)
	r.measured("end of all pods within a second to the next step", began)
}

// spotNotice: two of three workers are told to end, with the grace of the component spot. Each finishes or gives back what it
// computes, leaves in order and ends with code 143; the run goes on with the third, and others come.
func spotNotice(r trial) {
	r.pace = slower
	coordinator := r.start(10, "--component", "spot")
	r.workersReady(3)
	r.eventually("three workers take part", func() bool { return len(r.said(coordinator, "worker joined")) >= 3 }, r.story)
	noticed := r.workers()[:2]
	for _, pod := range noticed {
		r.holds(pod, true)
	}
	at, began := r.step(coordinator), time.Now()
	r.kube("", append([]string{"delete", "pod", "-n", r.name, "--wait=false"}, noticed...)...)
	r.eventually("the ends of the workers", func() bool {
		v := r.view()
		return v.pod(noticed[0]).end().FinishedAt != "" && v.pod(noticed[1]).end().FinishedAt != ""
	}, r.story)
	r.measured("spot notice to the ends of two workers", began)
	var left []logRow // read at once: there is no way into a pod that is complete
	r.eventually("the log says how they left", func() bool { left = r.said(coordinator, "worker left"); return len(left) >= 2 }, r.story)
	if len(left) != 2 || left[0].Reason != "left" || left[1].Reason != "left" {
		r.t.Errorf("the coordinator says that workers left: %+v", left)
	}
	for _, pod := range noticed {
		if p := r.view().pod(pod); p.end().ExitCode != 143 || p.Spec.TerminationGracePeriodSeconds != 15 {
			r.t.Errorf("%s had %d s and ended as %+v", pod, p.Spec.TerminationGracePeriodSeconds, p.end())
		}
		r.holds(pod, false)
	}
	r.workersReady(3)
	r.measured("spot notice to three workers that are ready", began)
	r.reaches(at + 5)
	if now := r.view().coordinator().Metadata.Name; now != coordinator {
		r.t.Errorf("the coordinator %s became %s", coordinator, now)
	}
}

// diskFull: the volume fills while the run trains. Its coordinator says so and fails, and fails again when it is started there;
// when the volume has grown it goes on.
func diskFull(r trial) {
	claim := r.name + "-runs"
	r.edit = func(o map[string]any) {
		if o["kind"] == "PersistentVolumeClaim" {
			o["spec"].(map[string]any)["storageClassName"] = cluster.SmallClass
		}
	}
	first := r.start(50)
	began := time.Now()
	if err := r.own.FillSmallVolume(); err != nil {
		r.t.Fatal(err)
	}
	r.failsForSpace(first)
	r.measured("full volume to the coordinator's end", began)
	second := ""
	r.eventually("the second try", func() bool {
		second = r.view().coordinator().Metadata.Name
		return second != first
	}, r.story)
	r.failsForSpace(second)
	r.measured("full volume to the end of the second try", began)
	began = time.Now()
	r.kube("", "patch", "persistentvolumeclaim", claim, "-n", r.name, "--type=merge", "-p", `{"spec":{"resources":{"requests":{"storage":"20Gi"}}}}`)
	if err := r.own.GrowSmallVolume(); err != nil {
		r.t.Fatal(err)
	}
	again := r.next(second)
	r.measured("room on the volume to the next step", began)
	if again <= 20 { // of which step there was a whole checkpoint
		r.t.Errorf("it went back to step %d", again)
	}
}

// failsForSpace waits for a coordinator's end, and looks for what it says of it to kubectl and to andrea.
func (r trial) failsForSpace(coordinator string) {
	r.t.Helper()
	const full = "no space left on device"
	r.eventually(coordinator+" fails", func() bool { return r.view().pod(coordinator).Status.Phase == "Failed" }, r.story)
	if end := r.view().pod(coordinator).end(); end.ExitCode != 1 || !strings.Contains(end.Message, full) {
		r.t.Errorf("%s ended as %+v", coordinator, end)
	}
	if s := r.status(); s.Phase != "waiting" || !strings.Contains(s.Reason, full) {
		r.t.Errorf("it is %+v", s)
	}
}

// gpusShort: one GPU for three workers, whose engine computes on processors all the same. Then there are three.
func gpusShort(r trial) {
	const missing = "Insufficient nvidia.com/gpu"
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
	began := time.Now()
	r.eventually("what is said of missing GPUs", func() bool {
		s := r.status()
		return s.Workers.Ready == 1 && len(s.Problems) == 2 && strings.Count(strings.Join(s.Problems, " "), missing) >= 2
	}, r.story)
	r.measured("first step to two pods that are said to lack a GPU", began)
	if events := r.kube("", "get", "events", "-n", r.name, "--field-selector=reason=FailedScheduling"); !strings.Contains(events, missing) {
		r.t.Errorf("the events say nothing of it: %s", events)
	}
	r.reaches(r.reaches(5) + 20)
	began = time.Now()
	r.gpus(3)
	r.workersReady(3)
	r.measured("two more GPUs to three workers that are ready", began)
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
	r.spare = true
	pod := r.start(30)
	node := r.nodeOf(pod)
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

// nodeOf is the node of a coordinator, with which something may happen.
func (r trial) nodeOf(coordinator string) string {
	r.t.Helper()
	node := r.view().pod(coordinator).Spec.NodeName
	if r.own != nil && node != cluster.SpareNode {
		r.t.Fatalf("it is on %s, where others are\n%s", node, r.story())
	}
	return node
}

// nodeLost: the coordinator's. The workers that were there are replaced when the cluster has noticed and waited; the
// coordinator when somebody has said that the node is off, since two must never hold one volume. The node comes back.
func nodeLost(r trial) {
	r.spare = true
	pod := r.start(30)
	node := r.nodeOf(pod)
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
