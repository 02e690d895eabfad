package k8s

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// podJSON is a coordinator's pod with a status.
func podJSON(name, created, status string) string {
	return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":%q,"labels":{"app.kubernetes.io/component":"coordinator"},"creationTimestamp":%q},"status":%s}`, name, created, status)
}

func jobJSON(spec, condition string) string {
	return fmt.Sprintf(`{"kind":"Job","metadata":{"name":"j","labels":{"app.kubernetes.io/component":"coordinator"}},"spec":%s,"status":{"conditions":[%s]}}`, spec, condition)
}

// Each state of the cluster is a phase, and where somebody has to do something, a reason.
func TestStates(t *testing.T) {
	const early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
	const ready = `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`
	suspended := jobJSON(`{"suspend":true}`, "")
	for _, test := range []struct {
		name, phase, reason string
		items               []string
	}{
		{"nothing", Absent, "", nil},
		{"no pod yet", Waiting, "not there yet", []string{jobJSON(`{}`, "")}},
		{"no node", Waiting, "Unschedulable: no node", []string{jobJSON(`{}`, ""), podJSON("p", early, `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no node"}]}`)}},
		{"no image", Waiting, "ImagePullBackOff: not found", []string{jobJSON(`{}`, ""), podJSON("p", early, `{"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ImagePullBackOff","message":"not found"}}}]}`)}},
		{"preparing tokens", Waiting, "", []string{jobJSON(`{}`, ""), podJSON("p", early, `{"phase":"Pending","initContainerStatuses":[{"state":{"running":{}}}],"containerStatuses":[{"state":{"waiting":{"reason":"PodInitializing"}}}]}`)}},
		{"ready", Running, "", []string{jobJSON(`{}`, ""), podJSON("p", early, ready)}},
		{"the newest pod counts", Waiting, "ended with code 143: terminated", []string{jobJSON(`{}`, ""), podJSON("new", late, `{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":143,"message":"terminated\n"}}}]}`), podJSON("p", early, ready)}},
		{"starting again", Waiting, "starting, after p: it ended with code 1: no space", []string{jobJSON(`{}`, ""), podJSON("p", early, `{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":1,"message":"no space\n"}}}]}`), podJSON("new", late, `{"phase":"Pending"}`)}},
		{"starting after a drain", Waiting, "", []string{jobJSON(`{}`, ""), podJSON("p", early, `{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True"}],"containerStatuses":[{"state":{"terminated":{"exitCode":143}}}]}`), podJSON("new", late, `{"phase":"Pending"}`)}},
		{"its node is lost", Waiting, "node n1 does not answer", []string{jobJSON(`{}`, ""), strings.Replace(podJSON("p", early, `{"phase":"Running","conditions":[{"type":"Ready","status":"False"},{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager"}]}`), `"metadata":{`, `"spec":{"nodeName":"n1"},"metadata":{"deletionTimestamp":"`+late+`",`, 1)}},
		{"writes its checkpoint", Stopping, "", []string{suspended, podJSON("p", early, ready)}},
		{"stopped", Stopped, "", []string{suspended, podJSON("p", early, `{"phase":"Failed"}`)}},
		{"complete", Complete, "", []string{jobJSON(`{}`, `{"type":"Complete","status":"True"}`)}},
		{"failed in its first container", Failed, "PodFailurePolicy: exit code 2: it ended with code 2: {\"step\":3}\nno licence", []string{jobJSON(`{}`, `{"type":"Failed","status":"True","reason":"PodFailurePolicy","message":"exit code 2"}`), podJSON("p", early, `{"initContainerStatuses":[{"state":{"terminated":{"exitCode":2,"message":"{\"step\":3}\n{\"level\":\"error\",\"msg\":\"no licence\"}\n"}}}]}`)}},
	} {
		s, err := StateOf("run7", []byte(`{"items":[`+strings.Join(test.items, ",")+`]}`))
		if err != nil || s.Phase != test.phase || !strings.Contains(s.Reason, test.reason) || test.reason == "" && s.Reason != "" {
			t.Errorf("%s: %s (%s), want %s (%s): %v", test.name, s.Phase, s.Reason, test.phase, test.reason, err)
		}
	}
}

// What keeps a worker from running is told; one that went with its node and has been replaced is not.
func TestProblemsOfWorkers(t *testing.T) {
	worker := func(name, status string) string {
		return strings.ReplaceAll(podJSON(name, "2026-01-01T00:00:00Z", status), "coordinator", "worker")
	}
	const ended = `"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":143,"message":"left"}}}]`
	s, err := StateOf("run7", []byte(`{"items":[`+strings.Join([]string{
		worker("shut-down-with-its-node", `{`+ended+`,"conditions":[{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet"}]}`),
		worker("ended", `{`+ended+`}`),
		worker("without-gpu", `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"Insufficient nvidia.com/gpu"}]}`),
		worker("starting", `{"phase":"Pending"}`),
	}, ",")+`]}`))
	want := []string{"ended: it ended with code 143: left", "without-gpu: Unschedulable: Insufficient nvidia.com/gpu"}
	if err != nil || !slices.Equal(s.Problems, want) {
		t.Errorf("problems %q, want %q: %v", s.Problems, want, err)
	}
}

// Whatever a cluster answers is a state or an error.
func FuzzStateOf(f *testing.F) {
	f.Add([]byte(`{"items":[` + jobJSON(`{}`, "") + `]}`))
	f.Add([]byte(`{"items":[{"kind":"Deployment","metadata":{"labels":{"app.kubernetes.io/component":"worker"},"annotations":{"andrea/workers-before-stop":"x"}}}]}`))
	f.Add([]byte(`{"items":[null]}`))
	f.Fuzz(func(t *testing.T, list []byte) {
		s, err := StateOf("run7", list)
		if err == nil && s.Phase == "" {
			t.Error("a run without a phase")
		}
		if p := LastStep(list); p != nil && p.Loss == nil {
			t.Error("a step without a loss")
		}
	})
}
