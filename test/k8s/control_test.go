// Package k8s tests the manifests and 'andrea k8s' against a real API server.
package k8s

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"andrea/test/k8s/cluster"
)

// kubeconfigVariable names the kubeconfig of a cluster of somebody else, such as kind, to run the scenarios on.
const kubeconfigVariable = "ANDREA_KUBECONFIG"

func TestMain(m *testing.M) {
	if os.Getenv(kubeconfigVariable) != "" {
		os.Exit(m.Run()) // that cluster is reached through the machine's network
	}
	os.Exit(cluster.Enter(m.Run))
}

// startTime bounds the start of the control plane on a busy machine.
const startTime = 5 * time.Minute

// manifests is the folder with base, components and overlays.
const manifests = "../../k8s"

// user is somebody who has a cluster, kubectl and andrea.
type user struct {
	t          *testing.T
	kubeconfig string
	kubectl    string
	bin        string // folder with andrea, and kubectl
}

// newUser starts a control plane.
func newUser(t *testing.T) user {
	t.Helper()
	u := user{t: t, bin: t.TempDir()}
	u.startControl()
	u.buildProgram()
	return u
}

// buildProgram builds andrea.
func (u user) buildProgram() {
	u.t.Helper()
	build(u.t, "../..", "build", "-o", filepath.Join(u.bin, "andrea"), "./cmd/andrea")
}

// build runs the go command in a folder, for programs without the C library.
func build(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}

func (u *user) startControl() {
	u.t.Helper()
	if err := cluster.Inside(); err != nil {
		u.t.Skip(err)
	}
	tools, err := cluster.FindTools("tools")
	if err != nil {
		u.t.Fatal(err)
	}
	if missing := tools.Missing(cluster.ControlPrograms); len(missing) > 0 {
		u.t.Skipf("%v are missing: %v", missing, cluster.ErrNotBuilt)
	}
	ctx, cancel := context.WithTimeout(u.t.Context(), startTime)
	defer cancel()
	control, err := cluster.StartControl(ctx, tools, u.t.TempDir())
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(control.Stop)
	u.kubeconfig, u.kubectl = control.Kubeconfig, control.Kubectl
	if err := os.Symlink(control.Kubectl, filepath.Join(u.bin, "kubectl")); err != nil {
		u.t.Fatal(err)
	}
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// unreached is what kubectl says when a request has not come to the API server, which on a busy machine may take too long to
// shake hands.
const unreached = "Unable to connect to the server"

// run runs a program with an input, and again if it could not reach the API server.
func (u user) run(input, program string, args ...string) (r result) {
	u.t.Helper()
	const tries = 5
	for range tries {
		r = u.once(input, program, args...)
		if r.code == 0 || !strings.Contains(r.stderr, unreached) {
			break
		}
	}
	return r
}

func (u user) once(input, program string, args ...string) result {
	u.t.Helper()
	c := exec.CommandContext(u.t.Context(), program, args...)
	var stdout, stderr strings.Builder
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &stdout, &stderr
	c.Env = append(os.Environ(), "KUBECONFIG="+u.kubeconfig, "HOME="+u.bin, "PATH="+u.bin+":"+os.Getenv("PATH"))
	if err := c.Run(); c.ProcessState == nil {
		u.t.Fatalf("%s: %v", program, err)
	}
	return result{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// kube runs kubectl, which must succeed without a warning.
func (u user) kube(input string, args ...string) string {
	u.t.Helper()
	r := u.run(input, u.kubectl, args...)
	if r.code != 0 || strings.Contains(r.stderr, "arning") {
		u.t.Fatalf("kubectl %v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// andrea runs 'andrea k8s', which must end with a code.
func (u user) andrea(code int, args ...string) result {
	u.t.Helper()
	r := u.run("", filepath.Join(u.bin, "andrea"), append([]string{"k8s"}, args...)...)
	if r.code != code {
		u.t.Fatalf("andrea k8s %v: exit %d, want %d\n%s%s", args, r.code, code, r.stdout, r.stderr)
	}
	return r
}

// namespace makes a namespace that refuses pods which are not restricted, and warns of what would make such.
func (u user) namespace(name string) {
	u.t.Helper()
	u.kube(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/warn":"restricted"}}}`, name),
		"apply", "--server-side", "-f", "-")
}

// contents are all objects of a namespace, with who set which field when. Their resource versions are left out: the API
// server stores a claim once more, with the same content, when it is applied for the second time.
func (u user) contents(namespace string) map[string]string {
	u.t.Helper()
	out := u.kube("", "get", "job,deployment,service,configmap,secret,serviceaccount,networkpolicy,poddisruptionbudget,persistentvolumeclaim",
		"-n", namespace, "-o", "json", "--show-managed-fields")
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		u.t.Fatal(err)
	}
	contents := map[string]string{}
	for _, o := range list.Items {
		metadata, _ := o["metadata"].(map[string]any)
		delete(metadata, "resourceVersion")
		contents[fmt.Sprint(o["kind"], " ", metadata["name"])] = fmt.Sprint(o)
	}
	return contents
}

// unchanged fails when the objects of a namespace are not as before.
func (u user) unchanged(namespace, after string, before map[string]string) {
	u.t.Helper()
	now := u.contents(namespace)
	for name, content := range now {
		if before[name] != content {
			u.t.Errorf("%s has changed %s from\n%s\nto\n%s", after, name, before[name], content)
		}
	}
	if len(now) != len(before) {
		u.t.Errorf("%s has left %d objects, of %d", after, len(now), len(before))
	}
}

func folders(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(manifests, dir))
	if err != nil || len(entries) < 5 {
		t.Fatalf("%d of %s: %v", len(entries), dir, err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Every overlay is applied by kubectl alone, strictly, in a namespace that enforces "restricted"; its pods would be let in; and
// applied again it changes nothing.
func testOverlays(t *testing.T, u user) {
	for _, overlay := range folders(t, "overlays") {
		t.Run(overlay, func(t *testing.T) {
			u := u
			u.t = t
			apply := []string{"apply", "-k", filepath.Join(manifests, "overlays", overlay), "--server-side", "--validate=strict"}
			namespace := "andrea-ci" // the overlay of this name brings its own
			if overlay != "ci" {
				namespace = "overlay-" + overlay
				u.namespace(namespace)
				apply = append(apply, "-n", namespace)
			}
			u.kube("", apply...)
			before := u.contents(namespace)
			if len(before) < 8 {
				t.Errorf("only %d objects were made: %v", len(before), before)
			}
			u.kube("", apply...)
			u.unchanged(namespace, "applying again", before)
			u.podsAreLetIn(namespace)
		})
	}
}

// podsAreLetIn makes the pods that the controllers would make, without keeping them.
func (u user) podsAreLetIn(namespace string) {
	u.t.Helper()
	out := u.kube("", "get", "job,deployment", "-n", namespace, "-o", "json")
	var list struct {
		Items []struct {
			Spec struct {
				Template struct {
					Metadata map[string]any `json:"metadata"`
					Spec     map[string]any `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		u.t.Fatal(err)
	}
	if len(list.Items) != 2 {
		u.t.Errorf("%d objects have pods, want 2", len(list.Items))
	}
	for i, o := range list.Items {
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": o.Spec.Template.Spec, "metadata": map[string]any{
			"name": fmt.Sprintf("pod-%d", i), "namespace": namespace, "labels": o.Spec.Template.Metadata["labels"],
		}}
		text, err := json.Marshal(pod)
		if err != nil {
			u.t.Fatal(err)
		}
		u.kube(string(text), "create", "--dry-run=server", "--validate=strict", "-f", "-")
	}
}

// The claim for datasets and the pod that fills it are let in.
func testData(t *testing.T, u user) {
	u.namespace("data")
	u.kube(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`, "create", "-n", "data", "-f", "-") // as a controller does
	u.kube("", "apply", "-f", filepath.Join(manifests, "data.yaml"), "--server-side", "--validate=strict", "-n", "data")
}

// Every overlay with every component is what the API server takes.
func testComponents(t *testing.T, u user) {
	u.namespace("components")
	for _, overlay := range folders(t, "overlays") {
		if overlay == "ci" {
			continue // it has a namespace of its own
		}
		for _, component := range folders(t, "components") {
			t.Run(overlay+"+"+component, func(t *testing.T) {
				u := u
				u.t = t
				text := u.andrea(0, "render", "--overlay", overlay, "--component", component, "--name", "run7").stdout
				u.kube(text, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", "components", "-f", "-")
			})
		}
	}
}

// A run is submitted once; again it changes nothing; another job or image is refused and changes nothing; it is
// stopped and resumed.
func testSubmit(t *testing.T, u user) {
	const namespace = "submit"
	u.namespace(namespace)
	submit := []string{"submit", "--name", "run7", "-n", namespace}
	u.andrea(0, submit...)
	before := u.contents(namespace)
	if before["Secret run7-server"] == "" {
		t.Error("it has no Secrets")
	}
	u.andrea(0, submit...)
	u.unchanged(namespace, "submitting again", before)
	job := filepath.Join(u.bin, "job.yaml")
	if err := os.WriteFile(job, []byte("steps: 70\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := u.andrea(2, append(submit, "--job", job)...); !strings.Contains(r.stderr, "steps: 400 became 70") {
		t.Errorf("another job: %s", r.stderr)
	}
	if r := u.andrea(2, append(submit, "--image", "andrea:v99")...); !strings.Contains(r.stderr, "choose another --name") {
		t.Errorf("another image: %s", r.stderr)
	}
	u.unchanged(namespace, "what was refused", before)
	u.scaled(namespace)
}

// scaled: whoever scales a run, it keeps the number when it is submitted again, stopped and resumed.
func (u user) scaled(namespace string) {
	u.t.Helper()
	replicas := func(want string) {
		u.t.Helper()
		if got := u.kube("", "get", "deployment", "run7-worker", "-n", namespace, "-o", "jsonpath={.spec.replicas}"); got != want {
			u.t.Errorf("it has %s workers, want %s", got, want)
		}
	}
	u.kube("", "scale", "deployment", "run7-worker", "--replicas=5", "-n", namespace)
	u.andrea(0, "submit", "--name", "run7", "-n", namespace)
	replicas("5")
	u.andrea(0, "stop", "run7", "-n", namespace)
	replicas("0")
	if r := u.andrea(0, "status", "run7", "-n", namespace); !strings.Contains(r.stdout, "run7: stopped") {
		u.t.Errorf("it is %s", r.stdout)
	}
	u.andrea(0, "submit", "--name", "run7", "-n", namespace) // does not start it
	replicas("0")
	u.andrea(0, "resume", "run7", "-n", namespace)
	replicas("5")
	if r := u.andrea(0, "status", "run7", "-n", namespace); !strings.Contains(r.stdout, "run7: waiting") {
		u.t.Errorf("it is %s", r.stdout)
	}
}

// One control plane serves all tests.
func TestAgainstAnAPIServer(t *testing.T) {
	u := newUser(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, user)
	}{{"Overlays", testOverlays}, {"Components", testComponents}, {"Data", testData}, {"Submit", testSubmit}} {
		t.Run(test.name, func(t *testing.T) {
			u := u
			u.t = t
			test.run(t, u)
		})
	}
}
