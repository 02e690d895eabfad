package k8s

import (
	"encoding/json"
	"reflect"
	"testing"
)

// A Job of a cluster can be made once more: it is what was submitted, with the values that the cluster has filled in.
func TestAgain(t *testing.T) {
	const ofCluster = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"run7-coordinator","namespace":"ml","uid":"u","resourceVersion":"5","generation":1,
"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app.kubernetes.io/instance":"run7"},"managedFields":[{"manager":"andrea"}],"annotations":{"batch.kubernetes.io/job-tracking":"","team":"x"}},
"spec":{"backoffLimit":10,"suspend":true,"completionMode":"NonIndexed","selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}},
"template":{"metadata":{"creationTimestamp":null,"labels":{"app.kubernetes.io/instance":"run7","batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"run7-coordinator","controller-uid":"u","job-name":"run7-coordinator"}},
"spec":{"containers":[{"name":"coordinator"}]}}},"status":{"failed":2}}`
	const want = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"run7-coordinator","namespace":"ml","labels":{"app.kubernetes.io/instance":"run7"},"annotations":{"team":"x"}},
"spec":{"backoffLimit":10,"completionMode":"NonIndexed","template":{"metadata":{"labels":{"app.kubernetes.io/instance":"run7"}},"spec":{"containers":[{"name":"coordinator"}]}}}}`
	job, before, wanted := decoded(t, ofCluster), decoded(t, ofCluster), decoded(t, want)
	if got := Again(job); !reflect.DeepEqual(plain(got), plain(wanted)) {
		t.Errorf("it is\n%v\nwant\n%v", got, wanted)
	}
	if !reflect.DeepEqual(job, before) {
		t.Error("the cluster's own was changed")
	}
	if got := Again(Object{}); got.Name() != "" { // whatever it is given
		t.Errorf("of nothing comes %v", got)
	}
}

func decoded(t *testing.T, text string) Object {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}
