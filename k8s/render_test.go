package k8s

import (
	"strings"
	"testing"
)

// What is asked for is in the objects.
func TestOptionsAreRendered(t *testing.T) {
	run, err := Render(Options{
		Overlay: "12m", Components: []string{"worker-job"}, Name: "run7", Namespace: "ml", Workers: 9, GPU: true,
		Image: "reg.example.com:5000/andrea:v1", WorkerImage: "reg.example.com/cuda@sha256:0123", DataClaim: "books", DataPath: "/data/tokens/b",
		Job: []byte("name: other\nsteps: 70\ndata: {path: /home/me/tokens}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := Marshal(run.Objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"name: run7-coordinator", "app.kubernetes.io/instance: run7", "namespace: ml", "parallelism: 9", "nvidia.com/gpu: \"1\"",
		"image: reg.example.com:5000/andrea:v1", "image: reg.example.com/cuda@sha256:0123", "claimName: books", "value: /data/tokens/b",
		"claimName: run7-runs", "secretName: run7-worker", "serviceAccountName: run7-andrea", "name: run7\n    model:", "steps: 70",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, not := range []string{"andrea-12m", "kind: Deployment", "/home/me", "kind: Secret"} {
		if strings.Contains(string(text), not) {
			t.Errorf("%q is in\n%s", not, text)
		}
	}
}

// All faults of the options are named at once.
func TestBadOptionsAreRefused(t *testing.T) {
	for _, test := range []struct {
		o    Options
		want []string
	}{
		{Options{Overlay: "none", Components: []string{"no"}, Name: "7up", Workers: -1, DataPath: "/etc", Image: "andrea"},
			[]string{`overlay "none"`, "quickstart", `component "no"`, "worker-job", `"7up"`, "-1", `"/etc"`, `"andrea"`}},
		{Options{Overlay: "12m", Image: "host:5000/andrea"}, []string{"tag"}},
		{Options{Overlay: "12m", Image: "andrea:latest"}, []string{"latest"}},
		{Options{Overlay: "12m", Name: strings.Repeat("a", 41)}, []string{"up to 40"}},
		{Options{Overlay: "12m", DataPath: "/data/../etc/x"}, []string{"/data"}},
		{Options{Overlay: "quickstart", DataClaim: "books"}, []string{"its own text"}},
		{Options{Overlay: "12m", Job: []byte("stepz: 1")}, []string{"stepz"}},
	} {
		_, err := Render(test.o)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v does not name %s", test.o, err, want)
			}
		}
	}
}

// What pods mount is applied before them, or they wait for many seconds.
func TestPodsAreAppliedLast(t *testing.T) {
	for _, overlay := range Overlays() {
		run, err := Render(Options{Overlay: overlay})
		if err != nil {
			t.Fatal(err)
		}
		secret := Secret(run.Name, "", ServerSecret, nil)
		out, err := Marshal(append(run.Objects, secret))
		if err != nil {
			t.Fatal(err)
		}
		first := strings.Index("\n"+string(out), "\nkind: Job")
		if deployment := strings.Index("\n"+string(out), "\nkind: Deployment"); deployment < first {
			first = deployment
		}
		for _, kind := range []string{"Secret", "ConfigMap", "PersistentVolumeClaim", "ServiceAccount", "NetworkPolicy"} {
			if at := strings.LastIndex("\n"+string(out), "\nkind: "+kind+"\n"); at < 0 || at > first {
				t.Errorf("%s: a %s stands at %d, the first pods at %d", overlay, kind, at, first)
			}
		}
	}
}
