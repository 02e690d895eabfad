//go:build linux

package k8s

import (
	"encoding/json"
	"fmt"
	"strings"
)

// podView is what is looked at of a pod.
type podView struct {
	Metadata struct {
		Name, UID         string
		CreationTimestamp string // RFC 3339, so that order is that of text
		DeletionTimestamp string
		Labels            map[string]string
	}
	Spec struct {
		NodeName                      string
		TerminationGracePeriodSeconds int
	}
	Status struct {
		Phase             string
		Conditions        []struct{ Type, Status, Reason string }
		ContainerStatuses []struct {
			RestartCount int
			State        struct{ Terminated podEnd }
		}
	}
}

// podEnd is how a container has ended; FinishedAt is empty when it has not.
type podEnd struct {
	ExitCode            int
	Message, FinishedAt string
}

// end is how the pod's first container has ended.
func (p podView) end() (e podEnd) {
	for _, c := range p.Status.ContainerStatuses {
		return c.State.Terminated
	}
	return e
}

// is reports that a condition holds.
func (p podView) is(condition string) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == condition {
			return c.Status == "True"
		}
	}
	return false
}

// view is what the cluster says of a run's pods.
type view struct{ pods []podView }

func (r trial) view() (v view) {
	r.t.Helper()
	var list struct{ Items []podView }
	text := r.ask("/api/v1/namespaces/" + r.name + "/pods")
	if err := json.Unmarshal(text, &list); text != nil && err != nil {
		r.t.Fatalf("%v: %s", err, text)
	}
	return view{list.Items}
}

// pod is the one of a name; the zero value: there is none.
func (v view) pod(name string) (p podView) {
	for _, p := range v.pods {
		if p.Metadata.Name == name {
			return p
		}
	}
	return p
}

const componentLabel = "app.kubernetes.io/component"

// coordinator is the newest one; the zero value: there is none.
func (v view) coordinator() (last podView) {
	for _, p := range v.pods {
		if p.Metadata.Labels[componentLabel] == "coordinator" && p.Metadata.CreationTimestamp >= last.Metadata.CreationTimestamp {
			last = p
		}
	}
	return last
}

// workers are those in a phase that have not been told to go.
func (v view) workers(phase string) (pods []podView) {
	for _, p := range v.pods {
		if p.Metadata.Labels[componentLabel] == "worker" && p.Status.Phase == phase && p.Metadata.DeletionTimestamp == "" {
			pods = append(pods, p)
		}
	}
	return pods
}

// workers are the names of the workers that run.
func (r trial) workers() (names []string) {
	r.t.Helper()
	for _, p := range r.view().workers("Running") {
		names = append(names, p.Metadata.Name)
	}
	return names
}

// ended is how a Job has ended: Complete, Failed, or empty.
func (r trial) ended(job string) string {
	r.t.Helper()
	var o struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	text := r.ask("/apis/batch/v1/namespaces/" + r.name + "/jobs/" + job)
	if err := json.Unmarshal(text, &o); text != nil && err != nil {
		r.t.Fatalf("%v: %s", err, text)
	}
	for _, c := range o.Status.Conditions {
		if c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed") {
			return c.Type
		}
	}
	return ""
}

// step is the newest one that a coordinator has printed.
func (r trial) step(pod string) int {
	r.t.Helper()
	return lastStep(string(r.ask("/api/v1/namespaces/" + r.name + "/pods/" + pod + "/log?container=coordinator&tailLines=30")))
}

// reaches waits until the coordinator has printed a step, or a later one, and returns it.
func (r trial) reaches(step int) (at int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("step %d of %s", step, r.name), func() bool {
		at = r.step(r.view().coordinator().Metadata.Name)
		if end := r.ended(r.name + "-coordinator"); end != "" && at < step {
			r.t.Fatalf("%s before step %d\n%s", end, step, r.story())
		}
		return at >= step
	}, r.story)
	return at
}

// next waits until another coordinator than one has printed a step, and returns that.
func (r trial) next(than string) (step int) {
	r.t.Helper()
	r.eventually("the next coordinator of "+r.name, func() bool {
		if r.ended(r.name+"-coordinator") == "Failed" {
			r.t.Fatalf("it has failed\n%s", r.story())
		}
		pod := r.view().coordinator().Metadata.Name
		if pod == than || pod == "" {
			return false
		}
		step = r.step(pod)
		return step > 0
	}, r.story)
	return step
}

// gone waits until a pod is no more.
func (r trial) gone(pod string) {
	r.t.Helper()
	r.eventually(pod+" goes", func() bool { return r.view().pod(pod).Metadata.Name == "" }, r.story)
}

// workersReady waits until so many workers are ready, and no more are there. When the run is complete they have nothing to
// be ready for, and need only run.
func (r trial) workersReady(n int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%d workers of %s", n, r.name), func() bool {
		v, ready := r.view(), 0
		for _, p := range v.workers("Running") {
			if p.is("Ready") {
				ready++
			}
		}
		return len(v.workers("Running")) == n && len(v.workers("Pending")) == 0 && (ready == n || r.ended(r.name+"-coordinator") == "Complete")
	}, r.story)
}

// said are the lines with a message in the run's log, which lies beside the coordinator, in order.
func (r trial) said(coordinator, message string) (rows []logRow) {
	r.t.Helper()
	out := r.run("", r.kubectl, "exec", coordinator, "-n", r.name, "-c", "coordinator", "--", "/andrea", "logs", "/runs/"+r.name, "--json")
	if out.code != 0 {
		r.t.Logf("the log of %s cannot be read: %s", r.name, out.stderr)
	}
	for line := range strings.Lines(out.stdout) {
		var row logRow
		if json.Unmarshal([]byte(line), &row) == nil && row.Msg == message {
			rows = append(rows, row)
		}
	}
	return rows
}

// logRow is what is looked at of a line of a log.
type logRow struct{ Msg, Worker, Reason string }

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
