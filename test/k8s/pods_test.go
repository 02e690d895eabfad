//go:build linux

package k8s

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"andrea/test/k8s/cluster"
)

// patience bounds every wait for something that must come, on a busy machine.
const patience = 5 * time.Minute

// stage is a node and what a run's objects are made of.
type stage struct {
	t       *testing.T
	node    cluster.Node
	objects map[string]map[string]any // by kind and name
	pods    int                       // started up to now
}

// packed builds the real image once.
func packed(t *testing.T) cluster.Image {
	t.Helper()
	if err := cluster.Inside(); err != nil {
		t.Skip(err)
	}
	layout := filepath.Join(t.TempDir(), "layout")
	build(t, "../..", "run", "./scripts/image", "--arch", runtime.GOARCH, "--out", layout)
	root := t.TempDir()
	image, err := cluster.Unpack(layout, root)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// newStage renders a run of a job, with its Secrets, by the program in the image.
func newStage(t *testing.T, image cluster.Image, job string) *stage {
	t.Helper()
	s := &stage{t: t, objects: map[string]map[string]any{}}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // the image's user walks through it
		t.Fatal(err)
	}
	s.node = cluster.Node{Image: image, Dir: dir, Hosts: []string{"run7-coordinator"}, Files: s.files}
	file := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(file, []byte(job), 0o644); err != nil {
		t.Fatal(err)
	}
	s.add("render", "--name", "run7", "--overlay", "quickstart", "--job", file)
	s.add("keys", "--name", "run7")
	return s
}

// add reads the objects that a command of 'andrea k8s' prints.
func (s *stage) add(args ...string) {
	s.t.Helper()
	out, err := exec.Command(filepath.Join(s.node.Image.Root, s.node.Image.Entrypoint[0]), append([]string{"k8s"}, args...)...).Output()
	if err != nil {
		s.t.Fatalf("andrea k8s %v: %v", args, err)
	}
	for _, o := range objects(s.t, string(out)) {
		name, _ := o["metadata"].(map[string]any)["name"].(string)
		s.objects[strings.ToLower(fmt.Sprint(o["kind"]))+" "+name] = o
	}
}

// objects reads the documents of a text.
func objects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o map[string]any
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// files are the contents of a Secret or ConfigMap.
func (s *stage) files(kind, name string) (map[string][]byte, error) {
	o, found := s.objects[kind+" "+name]
	if !found {
		return nil, fmt.Errorf("there is no %s %s", kind, name)
	}
	files := map[string][]byte{}
	for _, key := range []string{"data", "stringData"} {
		contents, _ := o[key].(map[string]any)
		for file, content := range contents {
			files[file] = []byte(fmt.Sprint(content))
		}
	}
	return files, nil
}

// template is the pod template of an object.
func (s *stage) template(object string) (t cluster.Template) {
	s.t.Helper()
	spec, _ := s.objects[object]["spec"].(map[string]any)
	text, err := json.Marshal(spec["template"])
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil || len(t.Spec.Containers) != 1 {
		s.t.Fatalf("%s has no pods: %v", object, err)
	}
	return t
}

// start starts a pod of an object. Pods share one network, so each answers probes at an address of its own.
func (s *stage) start(object string) *cluster.Pod {
	s.t.Helper()
	s.pods++
	address := fmt.Sprintf("127.0.0.%d:8080", 10+s.pods)
	_, name, _ := strings.Cut(object, " ")
	p, err := s.node.Start(fmt.Sprintf("%s-%d", name, s.pods), s.template(object), func(args []string) []string {
		for i, arg := range args {
			if arg == "--http=:8080" {
				args[i] = "--http=" + address
			}
		}
		return args
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := p.Remove(); err != nil {
			s.t.Error(err)
		}
		if s.t.Failed() {
			s.t.Logf("%s printed\n%s", p.Name, p.Output())
		}
	})
	return p
}

func (s *stage) coordinator() *cluster.Pod { return s.start("job run7-coordinator") }
func (s *stage) worker() *cluster.Pod      { return s.start("deployment run7-worker") }

// signal sends a signal and expects an exit code.
func (s *stage) signal(p *cluster.Pod, with syscall.Signal, code int) {
	s.t.Helper()
	if err := p.Signal(with); err != nil {
		s.t.Fatalf("%s: %v", p.Name, err)
	}
	s.ends(p, code)
}

// ends waits for a pod's end and expects an exit code.
func (s *stage) ends(p *cluster.Pod, code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	select {
	case <-p.Ended():
	case <-ctx.Done():
		s.t.Fatalf("%s does not end", p.Name)
	}
	if p.Code() != code {
		s.t.Fatalf("%s ended with code %d, want %d\n%s", p.Name, p.Code(), code, p.Output())
	}
}

// reaches waits until a coordinator has printed a step, or a later one, and returns it.
func (s *stage) reaches(p *cluster.Pod, step int) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if now := lastStep(p.Output()); now >= step {
			return now
		}
		select {
		case <-p.Ended():
			s.t.Fatalf("%s ended with code %d before step %d\n%s", p.Name, p.Code(), step, p.Output())
		case <-ctx.Done():
			s.t.Fatalf("%s does not reach step %d", p.Name, step)
		case <-ticker.C:
		}
	}
}

func lastStep(output string) (step int) {
	for line := range strings.Lines(output) {
		var row struct{ Step int }
		if json.Unmarshal([]byte(line), &row) == nil && row.Step > 0 {
			step = row.Step
		}
	}
	return step
}

// sum is the SHA-256 of the weights after a step.
func (s *stage) sum(step int) string {
	s.t.Helper()
	path := filepath.Join(s.node.Dir, "claims", "run7-runs", "run7", "checkpoints", fmt.Sprintf("step-%08d", step), "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// shortJob has steps enough to be disturbed in.
const (
	steps    = 60
	shortJob = `model: {variant: 12m, d_model: 64, n_head: 2, n_layer: 2, context: 128}
data: {validation: 0.1}
batch: {tokens_per_step: 1024, microbatch: 1, lanes: 8}
steps: 60
eval: {every: 20, windows: 4}
checkpoint: {every: 10, keep_last: 2}
`
)

// The pods of a run, from the real image, with its read-only root, its user and the volumes of the manifests, end in
// the same weights however they are drained, killed and scaled. Where there are real nodes, those do it better.
func TestPodsSurvive(t *testing.T) {
	if tools, err := cluster.FindTools("tools"); err == nil && whatIsMissing(tools) == "" {
		t.Skip("pods as processes stand in for nodes, which are there: TestInACluster")
	}
	image := packed(t)
	want := undisturbed(t, image)
	for _, test := range []struct {
		name    string
		disturb func(*stage, *cluster.Pod) *cluster.Pod // returns the coordinator that ends the run
	}{
		{"coordinator drained", coordinatorDrained},
		{"coordinator killed", coordinatorKilled},
		{"workers drained and killed", workersLost},
		{"scaled", scaledUpAndDown},
		{"all gone", allGone},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, image, shortJob)
			last := test.disturb(s, s.coordinator())
			s.ends(last, 0)
			if got := s.sum(steps); got != want {
				t.Errorf("other weights: %s, undisturbed %s", got, want)
			}
		})
	}
	t.Run("bad job", func(t *testing.T) { badJob(t, image) })
}

// undisturbed is the sum of a run to which nothing happens. Its workers idle at the end, until they are told to go.
func undisturbed(t *testing.T, image cluster.Image) string {
	s := newStage(t, image, shortJob)
	c, workers := s.coordinator(), []*cluster.Pod{s.worker(), s.worker()}
	s.ends(c, 0)
	for _, w := range workers {
		s.signal(w, syscall.SIGTERM, 143)
	}
	return s.sum(steps)
}

func coordinatorDrained(s *stage, c *cluster.Pod) *cluster.Pod {
	s.worker()
	s.worker()
	at := s.reaches(c, 15)
	s.signal(c, syscall.SIGTERM, 143)
	next := s.coordinator() // the same arguments
	if again := s.reaches(next, 1); again < at {
		s.t.Errorf("it went back to step %d, and was at %d", again, at)
	}
	return next
}

func coordinatorKilled(s *stage, c *cluster.Pod) *cluster.Pod {
	s.worker()
	s.worker()
	s.reaches(c, 15)
	s.signal(c, syscall.SIGKILL, 128+9)
	return s.coordinator()
}

func workersLost(s *stage, c *cluster.Pod) *cluster.Pod {
	first, second := s.worker(), s.worker()
	s.reaches(c, 10)
	s.signal(first, syscall.SIGTERM, 143)
	s.worker()
	at := s.reaches(c, lastStep(c.Output())+5)
	s.signal(second, syscall.SIGKILL, 128+9)
	s.reaches(c, at+5)
	s.worker()
	return c
}

// scaledUpAndDown: 3, 1, 5, 0, 3.
func scaledUpAndDown(s *stage, c *cluster.Pod) *cluster.Pod {
	workers := []*cluster.Pod{s.worker(), s.worker(), s.worker()}
	at := s.reaches(c, 5)
	for _, n := range []int{1, 5, 0, 3} {
		for len(workers) > n {
			s.signal(workers[0], syscall.SIGTERM, 143)
			workers = workers[1:]
		}
		for len(workers) < n {
			workers = append(workers, s.worker())
		}
		if n > 0 {
			at = s.reaches(c, at+5)
		}
	}
	return c
}

// allGone: a power cut.
func allGone(s *stage, c *cluster.Pod) *cluster.Pod {
	w := s.worker()
	s.reaches(c, 25)
	s.signal(w, syscall.SIGKILL, 128+9)
	s.signal(c, syscall.SIGKILL, 128+9)
	next := s.coordinator()
	s.worker()
	return next
}

// badJob ends with the code that podFailurePolicy takes as final, and says why.
func badJob(t *testing.T, image cluster.Image) {
	s := newStage(t, image, strings.ReplaceAll(shortJob, "n_head: 2", "n_head: 3"))
	c := s.coordinator()
	s.ends(c, 2)
	if said := c.Output(); !strings.Contains(said, "64") || !strings.Contains(said, "3") || !strings.Contains(said, "n_head") {
		t.Errorf("it says %s", said)
	}
}
