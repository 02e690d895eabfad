package k8s

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"andrea/pipeline"
)

// Phases of a run in a cluster.
const (
	Absent   = "absent"   // there is no such run
	Waiting  = "waiting"  // the coordinator is not up yet
	Running  = "running"  // the coordinator answers
	Stopping = "stopping" // suspended, its coordinator still writes a checkpoint
	Stopped  = "stopped"
	Complete = "complete"
	Failed   = "failed"  // for good: it is not tried again
	Unknown  = "unknown" // the cluster does not answer
)

// State is what a cluster says of a run.
type State struct {
	Run         string   `json:"run"`
	Phase       string   `json:"phase"`
	Reason      string   `json:"reason,omitempty"`      // why it waits or has failed
	Coordinator string   `json:"coordinator,omitempty"` // its newest pod
	Workers     Workers  `json:"workers"`
	Problems    []string `json:"problems,omitempty"` // of workers that cannot run: pod and reason
}

// Workers are counted.
type Workers struct {
	Wanted int  `json:"wanted"`
	Ready  int  `json:"ready"`
	IsJob  bool `json:"job,omitempty"` // they are a Job, not a Deployment
	Before int  `json:"-"`             // how many there were when the run was stopped; 0: it was not
}

// BeforeAnnotation is where a stopped Deployment remembers its number of workers.
const BeforeAnnotation = "andrea/workers-before-stop"

// Ended reports that nothing more will happen.
func (s State) Ended() bool { return s.Phase == Complete || s.Phase == Failed }

// object is the part of Kubernetes' objects that is read here.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Created     string            `json:"creationTimestamp"` // RFC 3339, so that order is that of text
		Deletion    string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Replicas    *int   `json:"replicas"`
		Parallelism *int   `json:"parallelism"`
		Suspend     bool   `json:"suspend"`
		Node        string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string            `json:"phase"`
		Conditions []condition       `json:"conditions"`
		Containers []containerStatus `json:"containerStatuses"`
		Init       []containerStatus `json:"initContainerStatuses"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type containerStatus struct {
	State struct {
		Waiting    *ended `json:"waiting"`
		Terminated *ended `json:"terminated"`
	} `json:"state"`
}

// ended is why a container does not run.
type ended struct {
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	ExitCode int    `json:"exitCode"`
}

// StateOf reads a run's state from a list of its Jobs, Deployments and pods, as kubectl prints it in
// JSON.
func StateOf(run string, list []byte) (State, error) {
	var all struct {
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(list, &all); err != nil {
		return State{}, fmt.Errorf("reading the state of the run %s: %w", run, err)
	}
	s := State{Run: run, Phase: Absent}
	var job *object
	var coordinators []object
	for i, o := range all.Items {
		switch side := o.Metadata.Labels[componentLabel]; {
		case o.Kind == "Job" && side == Coordinator:
			job = &all.Items[i]
		case o.Kind == "Pod" && side == Coordinator:
			coordinators = append(coordinators, o)
		case side == Worker:
			s.addWorker(o)
		}
	}
	if job != nil {
		last := newest(coordinators)
		s.judge(*job, last)
		if s.Phase == Waiting && s.Reason == "" {
			s.Reason = lastTrouble(coordinators, last)
		}
	}
	return s, nil
}

// newest is the pod that was made last; nil when there is none.
func newest(pods []object) (last *object) {
	for i := range pods {
		if last == nil || pods[i].Metadata.Created >= last.Metadata.Created {
			last = &pods[i]
		}
	}
	return last
}

// lastTrouble is why the pod before one has ended, while that one is only starting; empty when it ended in order, or there was none.
func lastTrouble(pods []object, starting *object) string {
	before := newest(slices.DeleteFunc(slices.Clone(pods), func(o object) bool { return o.Metadata.Name == starting.Metadata.Name }))
	if before == nil || before.disrupted() || before.trouble() == "" {
		return ""
	}
	return "its pod is starting, after " + before.Metadata.Name + ": " + before.trouble()
}

func (s *State) addWorker(o object) {
	switch o.Kind {
	case "Deployment":
		s.Workers.Wanted = orOne(o.Spec.Replicas)
		s.Workers.Before, _ = strconv.Atoi(o.Metadata.Annotations[BeforeAnnotation]) // 0 when nobody stopped it
	case "Job":
		s.Workers.Wanted, s.Workers.IsJob = orOne(o.Spec.Parallelism), true
		if o.Spec.Suspend {
			s.Workers.Wanted = 0
		}
	case "Pod":
		if o.is("Ready") {
			s.Workers.Ready++
		} else if why := o.trouble(); why != "" && o.Metadata.Deletion == "" && o.Status.Phase != "Succeeded" && !o.disrupted() {
			s.Problems = append(s.Problems, o.Metadata.Name+": "+why)
		}
	}
}

// orOne is a number that is 1 where it is not given.
func orOne(n *int) int {
	if n == nil {
		return 1
	}
	return *n
}

// is reports that a condition holds.
func (o object) is(kind string) bool {
	c, _ := o.condition(kind)
	return c.Status == "True"
}

func (o object) condition(kind string) (condition, bool) {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c, true
		}
	}
	return condition{}, false
}

// judge says what coordinator's Job and pod mean.
func (s *State) judge(job object, pod *object) {
	if pod != nil {
		s.Coordinator = pod.Metadata.Name
	}
	failed, _ := job.condition("Failed")
	switch {
	case job.is("Complete"):
		s.Phase = Complete
	case failed.Status == "True":
		s.Phase, s.Reason = Failed, strings.TrimSpace(failed.Reason+": "+failed.Message)
		if pod != nil && pod.trouble() != "" {
			s.Reason += ": " + pod.trouble()
		}
	case job.Spec.Suspend:
		s.Phase = Stopped
		if pod != nil && pod.Status.Phase == "Running" {
			s.Phase = Stopping
		}
	case pod != nil && pod.is("Ready"):
		s.Phase = Running
	default:
		s.Phase, s.Reason = Waiting, "its pod is not there yet"
		if pod != nil {
			s.Reason = pod.trouble()
		}
		if pod != nil && pod.lost() {
			s.Reason = fmt.Sprintf("its node %[1]s does not answer, and the next pod begins when this one has ended for certain: if the node is off, say so by 'kubectl delete node %[1]s' or 'kubectl taint node %[1]s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute'", pod.Spec.Node)
		}
	}
}

// disrupted reports that a pod has ended since it was evicted or its node was shut down. Another has taken its place, and this
// one may stay for days.
func (o object) disrupted() bool { return o.Status.Phase == "Failed" && o.is("DisruptionTarget") }

// lost reports that a pod was told to end since its node did not answer, and has not.
func (o object) lost() bool {
	c, _ := o.condition("DisruptionTarget")
	return o.Metadata.Deletion != "" && c.Reason == "DeletionByTaintManager" && o.Status.Phase == "Running"
}

// trouble is why a pod does not run: it has no node, a container cannot start, or has ended. Empty when
// it is only starting.
func (o object) trouble() string {
	if c, known := o.condition("PodScheduled"); known && c.Status == "False" {
		return strings.TrimSpace(c.Reason + ": " + c.Message)
	}
	for _, c := range append(o.Status.Init, o.Status.Containers...) {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing":
			return strings.TrimSuffix(c.State.Waiting.Reason+": "+c.State.Waiting.Message, ": ")
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			return fmt.Sprintf("it ended with code %d: %s", c.State.Terminated.ExitCode, said(c.State.Terminated.Message))
		}
	}
	return ""
}

// said is what the end of a log says: the message of each line that is a JSON object, and other lines as they are.
func said(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		var record struct {
			Message string `json:"msg"`
		}
		if json.Unmarshal([]byte(line), &record) == nil && record.Message != "" {
			line = record.Message
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// LastStep is the newest step that the coordinator has printed, from the tail of its log; nil when the tail has
// none. Lines that are no JSON objects are passed over.
func LastStep(log []byte) *Progress {
	var last *Progress
	for line := range strings.Lines(string(log)) {
		var p Progress
		if json.Unmarshal([]byte(line), &p) == nil && p.Step > 0 && p.Loss != nil {
			last = &p
		}
	}
	return last
}

// Progress is a step as the coordinator prints it.
type Progress struct {
	Step  int64           `json:"step"`
	Steps int64           `json:"steps"`
	Loss  *pipeline.Float `json:"loss"` // nats per token
	Speed pipeline.Float  `json:"tokens_per_second"`
	ETA   *pipeline.Float `json:"eta_seconds,omitempty"` // nil: no step was measured yet
}
