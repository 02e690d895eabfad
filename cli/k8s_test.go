package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// fakeKubectl stands for kubectl: it writes down its arguments, one call a line, and what it is told to
// apply or create, and answers with files. Of several answers to one question each is given once, the last one ever
// after; one that begins with "unreachable" is a failure, and so is one with a line "broken", after what is before it.
const fakeKubectl = `#!/bin/sh
cd "$(dirname "$0")" || exit 9
echo "$*" >> calls
case "$1" in
apply) cat > "applied-$(grep -c ^apply calls)"; key=apply ;;
create) cat > created; key=create ;;
get) key="get-$2" ;;
*) key="$1" ;;
esac
key=$(printf %s "$key" | tr , -)
n=$(cat "count-$key" 2>/dev/null || echo 0)
n=$((n + 1))
if [ -e "$key-$n" ]; then echo $n > "count-$key"; else n=$((n - 1)); fi
[ -e "$key-fails" ] && { cat "$key-fails" >&2; exit 1; }
[ -e "$key-$n" ] && grep -q ^unreachable "$key-$n" && { cat "$key-$n" >&2; exit 1; }
[ -e "$key-$n" ] && grep -q ^broken "$key-$n" && { sed '/^broken/,$d' "$key-$n"; echo "unexpected EOF" >&2; exit 1; }
[ -e "$key-$n" ] && cat "$key-$n"
exit 0
`

// cluster is a place with a fake kubectl.
type cluster struct {
	place
	bin string
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake kubectl is a shell script")
	}
	c := cluster{newPlace(t), t.TempDir()}
	if err := os.WriteFile(filepath.Join(c.bin, "kubectl"), []byte(fakeKubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", c.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return c
}

// answers sets the answers to one question, and forgets those that were given.
func (c cluster) answers(key string, texts ...string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.bin, "count-"+key), []byte("0"), 0o644); err != nil {
		c.t.Fatal(err)
	}
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(c.bin, fmt.Sprintf("%s-%d", key, i+1)), []byte(text), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
}

// calls returns the calls with a verb.
func (c cluster) calls(verb string) (calls []string) {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.bin, "calls"))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, verb+" ") {
			calls = append(calls, strings.TrimSpace(line))
		}
	}
	return calls
}

// applied is what the n-th apply was given.
func (c cluster) applied(n int) string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.bin, fmt.Sprintf("applied-%d", n)))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

// k8s runs a command of 'andrea k8s'.
func (c cluster) k8s(wantCode int, args ...string) result {
	c.t.Helper()
	r := c.run("", append([]string{"k8s"}, args...)...)
	if r.code != wantCode {
		c.t.Fatalf("%v: exit %d, want %d\n%s%s", args, r.code, wantCode, r.stdout, r.stderr)
	}
	return r
}

// Answers of a cluster. The states are lists of a Job, perhaps a pod of it, and the workers.
const (
	readyPod   = `{"kind":"Pod","metadata":{"name":"run7-coordinator-a","labels":{"app.kubernetes.io/component":"coordinator"},"creationTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	deployment = `{"kind":"Deployment","metadata":{"name":"run7-worker","labels":{"app.kubernetes.io/component":"worker"}},"spec":{"replicas":3}},
	{"kind":"Pod","metadata":{"name":"run7-worker-x","labels":{"app.kubernetes.io/component":"worker"}},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}},
	{"kind":"Pod","metadata":{"name":"run7-worker-y","labels":{"app.kubernetes.io/component":"worker"}},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/2 nodes are available: 2 Insufficient nvidia.com/gpu."}]}}`
	failedPod = `{"kind":"Pod","metadata":{"name":"run7-coordinator-b","labels":{"app.kubernetes.io/component":"coordinator"},"creationTimestamp":"2026-01-01T00:01:00Z"},"status":{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":2,"reason":"Error","message":"andrea: d_model is 100: it must be divisible by n_head\n"}}}]}}`
)

func jobWith(spec, condition string) string {
	return fmt.Sprintf(`{"kind":"Job","metadata":{"name":"run7-coordinator","labels":{"app.kubernetes.io/component":"coordinator"}},"spec":%s,"status":{"conditions":[%s]}}`, spec, condition)
}

func itemsOf(objects ...string) string { return `{"items":[` + strings.Join(objects, ",") + `]}` }

var (
	runningState  = itemsOf(jobWith(`{}`, ``), readyPod, deployment)
	completeState = itemsOf(jobWith(`{}`, `{"type":"Complete","status":"True"}`), readyPod, deployment)
	stoppingState = itemsOf(jobWith(`{"suspend":true}`, ``), readyPod, deployment)
	stoppedState  = itemsOf(jobWith(`{"suspend":true}`, `{"type":"Suspended","status":"True"}`), deployment)
	failedState   = itemsOf(jobWith(`{}`, `{"type":"Failed","status":"True","reason":"PodFailurePolicy","message":"Container coordinator failed with exit code 2"}`), readyPod, failedPod, deployment)
)

const states = "get-job-deployment-pod"

// A new run gets its Secrets, and the cluster checks all of it before it makes any.
func TestSubmitChecksThenMakes(t *testing.T) {
	c := newCluster(t)
	r := c.k8s(0, "submit", "--name", "run7", "--image", "reg/andrea:v1", "-n", "ml")
	if !strings.Contains(r.stdout, "run7 is submitted") || !strings.Contains(r.stdout, "status run7 -n ml") {
		t.Errorf("it says %s", r.stdout)
	}
	applies := c.calls("apply")
	if len(applies) != 2 || !strings.Contains(applies[0], "--dry-run=server") || strings.Contains(applies[1], "dry-run") ||
		!strings.Contains(applies[1], "--server-side") || !strings.Contains(applies[1], "--validate=strict") || !strings.Contains(applies[1], "--namespace=ml") {
		t.Errorf("it applied by %q", applies)
	}
	if c.applied(1) != c.applied(2) {
		t.Error("the cluster checked something else than it made")
	}
	for _, want := range []string{"name: run7-coordinator", "name: run7-server", "tls.key: |", `"run": "run7"`, "tls://run7-coordinator:4222", "name: run7-observer", "namespace: ml", "image: reg/andrea:v1"} {
		if !strings.Contains(c.applied(2), want) {
			t.Errorf("%q is missing in what is applied", want)
		}
	}
}

// The same run again keeps its Secrets and its number of workers; another job is refused, with the
// difference, and nothing is applied.
func TestSubmitAgain(t *testing.T) {
	c := newCluster(t)
	c.write("job.yaml", "steps: 70\n")
	rendered := c.k8s(0, "render", "--name", "run7", "--job", "job.yaml").stdout
	_, spec, _ := strings.Cut(rendered, "job.yaml: |")
	spec, _, _ = strings.Cut(spec, "\nimmutable:")
	quoted := strings.NewReplacer("\n    ", `\n`, "\"", `\"`, "\n", `\n`).Replace(spec)
	c.answers("get-configmap", `{"data":{"job.yaml":"`+quoted+`"}}`)
	c.answers("get-secret", "secret/x\n")
	c.answers(states, runningState)

	if r := c.k8s(0, "submit", "--name", "run7", "--job", "job.yaml"); !strings.Contains(r.stdout, "as submitted") {
		t.Errorf("it says %s", r.stdout)
	}
	if text := c.applied(2); strings.Contains(text, "kind: Secret\n") || !strings.Contains(text, "replicas: 3\n") {
		t.Errorf("it applied new Secrets or another number of workers:\n%s", text)
	}
	c.k8s(0, "submit", "--name", "run7", "--job", "job.yaml", "--workers", "5")
	if !strings.Contains(c.applied(4), "replicas: 5\n") {
		t.Error("the wanted number of workers was not applied")
	}
	if !strings.Contains(c.applied(4), "kind: PersistentVolumeClaim\n") {
		t.Error("a claim that is not there was not applied")
	}
	c.answers("get-persistentvolumeclaim", `{"kind":"PersistentVolumeClaim","metadata":{"name":"run7-runs"}}`)
	c.k8s(0, "submit", "--name", "run7", "--job", "job.yaml")
	if strings.Contains(c.applied(6), "kind: PersistentVolumeClaim\n") {
		t.Error("a claim that is there was applied: it may have grown, and cannot shrink")
	}
	c.write("job.yaml", "steps: 71\noptimizer: {lr: 2e-3}\n")
	r := c.k8s(2, "submit", "--name", "run7", "--job", "job.yaml")
	if !strings.Contains(r.stderr, "steps: 70 became 71") || !strings.Contains(r.stderr, "optimizer.lr: 0.001 became 0.002") {
		t.Errorf("it says %s", r.stderr)
	}
	if len(c.calls("apply")) != 6 {
		t.Error("it applied another job")
	}
}

// What the cluster refuses is refused as a whole, and told.
func TestSubmitRefused(t *testing.T) {
	c := newCluster(t)
	c.write("apply-fails", "")
	fails := filepath.Join(c.bin, "apply-fails")
	for _, test := range []struct {
		says string
		code int
		want string
	}{
		{"forbidden: no rights", 1, "no rights"},
		{"spec.template: field is immutable", 2, "choose another --name"},
	} {
		if err := os.WriteFile(fails, []byte(test.says), 0o644); err != nil {
			t.Fatal(err)
		}
		before := countCalls(c)
		if r := c.k8s(test.code, "submit", "--name", "run7"); !strings.Contains(r.stderr, test.want) {
			t.Errorf("it says %s", r.stderr)
		}
		if countCalls(c) != before+1 {
			t.Error("it applied what the cluster refuses")
		}
	}
	c.k8s(2, "submit", "--gpu", "2")
	c.k8s(2, "submit", "--job", "nowhere.yaml")
	if r := c.k8s(2, "submit", "--overlay", "external-nats"); !strings.Contains(r.stderr, "creds.txt") {
		t.Errorf("it says %s", r.stderr)
	}
	t.Setenv("PATH", t.TempDir())
	if r := c.k8s(2, "status", "run7"); !strings.Contains(r.stderr, "kubectl is not there") {
		t.Errorf("it says %s", r.stderr)
	}
}

func countCalls(c cluster) int {
	if _, err := os.Stat(filepath.Join(c.bin, "calls")); err != nil {
		return 0
	}
	return len(c.calls("apply"))
}

// Waiting ends on success and on failure, and says why.
func TestWaitEndsEitherWay(t *testing.T) {
	c := newCluster(t)
	c.answers(states, itemsOf(jobWith(`{}`, ``), deployment), runningState, stoppedState, runningState, completeState)
	r := c.k8s(0, "wait", "run7", "--every", "1ms")
	if got := strings.Count(r.stderr, "\n"); got != 5 || !strings.Contains(r.stderr, "run7: complete") {
		t.Errorf("it says %s", r.stderr)
	}
	c.answers(states, runningState, failedState, failedState, failedState, failedState)
	r = c.k8s(1, "wait", "run7", "--every", "1ms")
	if !strings.Contains(r.stderr, "PodFailurePolicy") || !strings.Contains(r.stderr, "d_model is 100") {
		t.Errorf("it says %s", r.stderr)
	}
	c.answers(states, runningState, runningState, runningState, runningState, runningState)
	if r := c.k8s(1, "wait", "run7", "--every", "1ms", "--timeout", "50ms"); !strings.Contains(r.stderr, "goes on in the cluster") {
		t.Errorf("it says %s", r.stderr)
	}
	c.answers(states, runningState, "unreachable: TLS handshake timeout\n", "unreachable: TLS handshake timeout\n", completeState, completeState)
	r = c.k8s(0, "wait", "run7", "--every", "1ms")
	if got := strings.Count(r.stderr, "\n"); got != 3 || !strings.Contains(r.stderr, "run7: unknown") || !strings.Contains(r.stderr, "TLS handshake timeout") {
		t.Errorf("of a cluster that does not answer for a moment it says %s", r.stderr)
	}
	c.answers(states, "unreachable: no such host\n")
	c.k8s(1, "wait", "run7", "--every", "1ms") // it has never answered
	c.answers(states, itemsOf(), itemsOf(), itemsOf(), itemsOf(), itemsOf())
	c.k8s(2, "wait", "run7")
	c.k8s(2, "wait", "run7", "--every", "0s")
}

// Status tells the step, and what keeps a worker from running.
func TestStatusOfARunInACluster(t *testing.T) {
	c := newCluster(t)
	c.answers(states, runningState)
	c.answers("logs", "note\n"+`{"step":41,"steps":50,"loss":2.5,"tokens_per_second":1000,"eta_seconds":1}`+"\n"+`{"step":42,"steps":50,"loss":2.25,"tokens_per_second":1000,"eta_seconds":1}`+"\n")
	r := c.k8s(0, "status", "run7")
	for _, want := range []string{"run7: running", "1 of 3 ready", "run7-worker-y: Unschedulable: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", "42/50  loss 2.250"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.stdout)
		}
	}
	if r := c.k8s(0, "status", "run7", "--json"); !strings.Contains(r.stdout, `"phase":"running"`) || !strings.Contains(r.stdout, `"step":42`) {
		t.Errorf("it says %s", r.stdout)
	}
	if call := c.calls("get")[0]; !strings.Contains(call, "--selector=app.kubernetes.io/instance=run7") {
		t.Errorf("it asked %s", call)
	}
}

// A run is stopped from the coordinator on, so that it can write a checkpoint of what its workers hold, and
// resumed with as many workers as it had.
func TestStopAndResume(t *testing.T) {
	c := newCluster(t)
	c.answers(states, runningState, stoppingState, stoppedState)
	c.k8s(0, "stop", "run7", "--every", "1ms")
	want := []string{
		`patch job run7-coordinator --type=merge --patch={"spec":{"suspend":true}}`,
		`patch deployment run7-worker --type=merge --patch={"metadata":{"annotations":{"andrea/workers-before-stop":"3"}},"spec":{"replicas":0}}`,
	}
	if got := c.calls("patch"); !slices.Equal(got, want) {
		t.Errorf("stopping: %q", got)
	}
	gone := strings.NewReplacer(`"replicas":3`, `"replicas":0`, `"name":"run7-worker",`, `"name":"run7-worker","annotations":{"andrea/workers-before-stop":"3"},`).Replace(stoppedState)
	c.answers(states, gone, gone, gone)
	c.k8s(0, "stop", "run7", "--every", "1ms") // again: it remembers 3, not 0
	c.k8s(0, "resume", "run7")
	want = append(want,
		`patch job run7-coordinator --type=merge --patch={"spec":{"suspend":true}}`,
		`patch deployment run7-worker --type=merge --patch={"metadata":{"annotations":{"andrea/workers-before-stop":null}},"spec":{"replicas":3}}`,
		`patch job run7-coordinator --type=merge --patch={"spec":{"suspend":false}}`)
	if got := c.calls("patch"); !slices.Equal(got, want) {
		t.Errorf("resuming: %q", got)
	}
	c.answers(states, completeState, completeState, completeState)
	c.k8s(2, "resume", "run7")
	c.k8s(0, "stop", "run7") // sends the workers away
	if got := c.calls("patch"); len(got) != len(want)+1 || !strings.Contains(got[len(want)], `"replicas":0`) {
		t.Errorf("stopping a complete run: %q", got)
	}
}

// A run that has failed goes on when its Job is made anew, after the old one and its pods have gone.
func TestResumeAFailedRun(t *testing.T) {
	c := newCluster(t)
	c.answers(states, failedState)
	c.answers("get-job", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"run7-coordinator","uid":"u"},"spec":{"activeDeadlineSeconds":12345678,"selector":{"matchLabels":{"controller-uid":"u"}}},"status":{"failed":11}}`)
	if r := c.k8s(0, "status", "run7"); !strings.Contains(r.stdout, "andrea k8s resume run7") {
		t.Errorf("it does not say how to go on: %s", r.stdout)
	}
	c.k8s(0, "resume", "run7")
	made, err := os.ReadFile(filepath.Join(c.bin, "created"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(made); !strings.Contains(text, `"name":"run7-coordinator"`) || !strings.Contains(text, "12345678") || strings.Contains(text, "selector") || strings.Contains(text, "status") {
		t.Errorf("it made %s", text)
	}
	if got := c.calls("delete"); len(got) != 1 || !strings.Contains(got[0], "delete job run7-coordinator --cascade=foreground") {
		t.Errorf("deleting: %q", got)
	}
	if got := c.calls("patch"); len(got) != 1 || !strings.Contains(got[0], `"replicas":3`) {
		t.Errorf("the workers: %q", got)
	}
	if err := os.WriteFile(filepath.Join(c.bin, "create-fails"), []byte("no quota"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := c.k8s(1, "resume", "run7"); !strings.Contains(r.stderr, "no quota") || !strings.Contains(r.stderr, "submit the run again") {
		t.Errorf("it says %s", r.stderr)
	}
}

// Logs follow one coordinator after the other until the run ends, over streams that break: everything is printed, and once.
func TestLogsFollowCoordinators(t *testing.T) {
	c := newCluster(t)
	second := strings.ReplaceAll(completeState, "run7-coordinator-a", "run7-coordinator-b")
	c.answers(states, itemsOf(jobWith(`{}`, ``), deployment), runningState, runningState, runningState, second)
	const one, two, three, four = "2026-01-01T00:00:01.5Z one 1\n", "2026-01-01T00:00:01.5Z two\n", "2026-01-01T00:00:01.75Z three\n", "2026-01-01T00:00:03Z four\n"
	c.answers("logs", one+"broken\n", one+two, two+three, three+four, "2026-01-01T00:01:00Z second\n")
	r := c.k8s(0, "logs", "-f", "run7", "--every", "1ms")
	if r.stdout != "one 1\ntwo\nthree\nfour\nsecond\n" {
		t.Errorf("it printed %q", r.stdout)
	}
	got := c.calls("logs")
	const first, next = "run7-coordinator-a --container=coordinator --follow=true --timestamps", "run7-coordinator-b --container=coordinator --follow=true --timestamps"
	want := []string{first, first + " --since-time=2026-01-01T00:00:01.5Z", first + " --since-time=2026-01-01T00:00:01.5Z", first + " --since-time=2026-01-01T00:00:01.75Z", next, next + " --since-time=2026-01-01T00:01:00Z"}
	for i := range want {
		want[i] = "logs " + want[i]
	}
	if !slices.Equal(got, want) {
		t.Errorf("it asked %q, want %q", got, want)
	}
	c.k8s(0, "logs", "run7", "--workers")
	if got := c.calls("logs")[len(want)]; !strings.Contains(got, "component=worker") || !strings.Contains(got, "--max-log-requests=3") {
		t.Errorf("it asked %s", got)
	}
}

// A log that cannot be had at all is a failure, with what kubectl says.
func TestLogsThatCannotBeHad(t *testing.T) {
	c := newCluster(t)
	c.answers(states, runningState)
	c.answers("logs", "unreachable: forbidden\n")
	for _, args := range [][]string{{"logs", "run7"}, {"logs", "-f", "run7"}} {
		if r := c.k8s(1, args...); !strings.Contains(r.stderr, "forbidden") {
			t.Errorf("%q: it says %s", args, r.stderr)
		}
	}
}

// Nor is one that can be had no more asked for without end.
func TestLogsThatCannotBeHadAnyMore(t *testing.T) {
	c := newCluster(t)
	c.answers(states, runningState)
	c.answers("logs", "2026-01-01T00:00:01.5Z one\nbroken\n", "unreachable: forbidden\n")
	if r := c.k8s(1, "logs", "-f", "run7", "--every", "1ms"); !strings.Contains(r.stderr, "forbidden") || r.stdout != "one\n" {
		t.Errorf("it printed %q and says %s", r.stdout, r.stderr)
	}
	if n := len(c.calls("logs")); n != 1+mostBroken {
		t.Errorf("it asked %d times", n)
	}
}

// A log that cannot be written is not asked for again and again.
func TestLogsThatCannotBeWritten(t *testing.T) {
	c := newCluster(t)
	c.answers(states, runningState)
	c.answers("logs", "2026-01-01T00:00:01.5Z one\n")
	for _, args := range [][]string{{"logs", "run7"}, {"logs", "-f", "run7", "--every", "1ms"}} {
		r := c.here(outside{stdout: fullDevice{}}, append([]string{"k8s"}, args...)...)
		if r.code != 1 || !strings.Contains(r.stderr, "no space left") {
			t.Errorf("%q: exit %d\n%s", args, r.code, r.stderr)
		}
	}
}

// The Secrets of a run that kubectl applies are made by a command of their own, new ones each time.
func TestKeysForACluster(t *testing.T) {
	p := newPlace(t)
	first, second := p.run("", "k8s", "keys", "--name", "quickstart"), p.run("", "k8s", "keys", "--name", "quickstart")
	if first.code != 0 || first.stdout == second.stdout || strings.Count(first.stdout, "kind: Secret\n") != 3 {
		t.Errorf("exit %d\n%s", first.code, first.stdout)
	}
	if r := p.run("", "k8s", "keys"); r.code != 2 {
		t.Errorf("without a name: exit %d", r.code)
	}
}
