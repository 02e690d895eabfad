package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/pipeline/runner"
	"andrea/vfs"
)

// A place is an empty folder in which a user types commands.
type place struct {
	t   *testing.T
	dir string
}

func newPlace(t *testing.T) place { return place{t, t.TempDir()} }

// result is what a command left on the screen.
type result struct {
	code           int
	killed         bool
	stdout, stderr string
}

// run types a command; fault is empty for the real program.
func (p place) run(fault string, args ...string) result {
	p.t.Helper()
	c := exec.Command(binary, args...)
	c.Env = append(os.Environ(), "HOME="+p.dir)
	if fault != "" {
		self, err := os.Executable()
		if err != nil {
			p.t.Fatal(err)
		}
		c.Path = self
		c.Env = append(c.Env, faultVariable+"="+fault)
	}
	c.Dir = p.dir
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	code := c.ProcessState.ExitCode()
	return result{code, code == -1, stdout.String(), stderr.String()}
}

// text writes a small corpus of invented sentences into the place.
func (p place) text() {
	p.t.Helper()
	words := strings.Fields("the river a mountain runs under every house light falls beside some wind stone holds again")
	rng := rand.New(rand.NewPCG(3, 5))
	for doc := range 8 {
		var text strings.Builder
		for range 300 {
			text.WriteString(words[rng.IntN(len(words))])
			text.WriteString(" \n"[rng.IntN(8)/7:][:1])
		}
		p.write(filepath.Join("text", fmt.Sprintf("%d.txt", doc)), text.String())
	}
}

func (p place) write(name, content string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) read(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// tiny is the command that trains the tiny model for 20 steps in runs/demo.
var tiny = []string{"train", "--text", "text", "--tokenizer", "bytes", "--steps", "20",
	"--set", "model.d_model=32", "--set", "model.n_head=2", "--set", "model.n_layer=2", "--set", "model.context=32",
	"--set", "batch.tokens_per_step=256", "--set", "batch.lanes=4", "--set", "checkpoint.every=5",
	"--set", "eval.every=10", "--set", "eval.windows=3", "--set", "data.validation=0.05"}

// sums are the digests of the final tensor files and the steps of the journal.
func (p place) sums(run string) string {
	p.t.Helper()
	var b strings.Builder
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		fmt.Fprintf(&b, "%x %s\n", sha256.Sum256([]byte(p.read(filepath.Join(run, "checkpoints/step-00000020", name)))), name)
	}
	journal, err := runner.ReadJournal(vfs.OS, filepath.Join(p.dir, run, "journal.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range journal.Steps {
		if s.Commit == nil {
			p.t.Fatalf("step %d has no commit record", s.Intent.Step)
		}
		fmt.Fprintf(&b, "step %d state %s loss %v\n", s.Intent.Step, s.Commit.StateDigest, s.Commit.Loss)
	}
	return b.String()
}

// newestCheckpoint is the highest step that a run has a checkpoint of. Where a
// signal stops a run depends on when it arrives.
func (p place) newestCheckpoint(run string) int {
	p.t.Helper()
	steps, err := dirstore.Open(vfs.OS, filepath.Join(p.dir, run, "checkpoints")).List()
	if err != nil || len(steps) == 0 {
		p.t.Fatalf("no checkpoints: %v", err)
	}
	return steps[len(steps)-1]
}

// The headline: interrupted in the middle of a step, killed around a checkpoint's
// rename, resumed: the same bits, and each step once in the journal.
func TestInterruptedRunsEndInTheSameBits(t *testing.T) {
	want := trained(t, 1).sums("runs/demo")
	if n := strings.Count(want, "step "); n != 20 {
		t.Fatalf("the journal shows %d steps, want 20", n)
	}
	// 8 microbatches a step: 37 is in step 5, before its checkpoint; 101 in step 13. The
	// run takes the signal as soon as it can: at the next microbatch, or later.
	for i, c := range []struct {
		fault string
		code  int // -1: killed
	}{
		{"accumulate:1", 143}, {"accumulate:37", 143}, {"accumulate:101", 143}, {"accumulate:130", 143},
		{"before-rename:1", -1}, {"before-rename:3", -1}, {"after-rename:1", -1}, {"after-rename:2", -1}, {"after-rename:4", -1},
	} {
		if !sampled(i, 4) {
			continue
		}
		t.Run(c.fault, func(t *testing.T) {
			p := newPlace(t)
			p.text()
			r := p.run(c.fault, tiny...)
			if r.code != c.code {
				t.Fatalf("exit %d, want %d\n%s", r.code, c.code, r.stderr)
			}
			if c.code == 143 && !strings.Contains(r.stderr, "resume with") {
				t.Errorf("no hint how to go on:\n%s", r.stderr)
			}
			if r := p.run("", "resume", "runs/demo"); r.code != 0 {
				t.Fatalf("resume: exit %d\n%s", r.code, r.stderr)
			}
			if got := p.sums("runs/demo"); got != want {
				t.Errorf("other bits:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestOneJSONLineForEveryStep(t *testing.T) {
	p := newPlace(t)
	p.text()
	r := p.run("", tiny...)
	if r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != 20 {
		t.Fatalf("%d lines on standard output, want 20:\n%s", len(lines), r.stdout)
	}
	for i, line := range lines {
		var step struct {
			Step int     `json:"step"`
			Loss float64 `json:"loss"`
		}
		if err := json.Unmarshal([]byte(line), &step); err != nil || step.Step != i+1 || step.Loss <= 0 {
			t.Errorf("line %d is %q (%v)", i+1, line, err)
		}
	}
	for _, want := range []string{"checkpoint  runs/demo/checkpoints/step-00000020", "sample"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("standard error lacks %q:\n%s", want, r.stderr)
		}
	}
	if strings.Contains(r.stderr, "resume with") {
		t.Errorf("a complete run is to be resumed:\n%s", r.stderr)
	}
}

func TestPreparedTokensAreUsedAgain(t *testing.T) {
	p := newPlace(t)
	p.text()
	if r := p.run("", tiny...); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	r := p.run("", tiny...)
	if r.code != 0 || !strings.Contains(r.stderr, "tokens reused") || !strings.Contains(r.stderr, "runs/demo-2") {
		t.Fatalf("the second run: exit %d\n%s", r.code, r.stderr)
	}
	if p.sums("runs/demo") != p.sums("runs/demo-2") {
		t.Error("the second run of the same job gave other bits")
	}
	p.write("text/0.txt", "something else altogether\n")
	if r := p.run("", tiny...); r.code != 0 || strings.Contains(r.stderr, "tokens reused") {
		t.Fatalf("after a change of the text: exit %d\n%s", r.code, r.stderr)
	}
}

func TestACompleteRunSaysSo(t *testing.T) {
	p := trained(t, 1)
	before := p.sums("runs/demo")
	r := p.run("", "resume", "demo")
	if r.code != 0 || !strings.Contains(r.stderr, "complete") || r.stdout != "" {
		t.Errorf("exit %d, stdout %q\n%s", r.code, r.stdout, r.stderr)
	}
	if p.sums("runs/demo") != before {
		t.Error("resuming a complete run changed it")
	}
}

// A damaged newest checkpoint is named and passed over; the run ends in the same bits.
func TestADamagedCheckpointIsPassedOver(t *testing.T) {
	want := trained(t, 1).sums("runs/demo")
	for i, c := range []struct {
		name   string
		damage func(p place, file string)
	}{
		{"flipped", func(p place, file string) {
			data := []byte(p.read(file))
			data[len(data)/2] ^= 4
			p.write(file, string(data))
		}},
		{"truncated", func(p place, file string) { p.write(file, p.read(file)[:1000]) }},
		{"deleted", func(p place, file string) {
			if err := os.Remove(filepath.Join(p.dir, file)); err != nil {
				p.t.Fatal(err)
			}
		}},
	} {
		if !sampled(i, 3) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.text()
			if r := p.run("accumulate:101", tiny...); r.code != 143 {
				t.Fatalf("exit %d\n%s", r.code, r.stderr)
			}
			newest := p.newestCheckpoint("runs/demo")
			c.damage(p, filepath.Join("runs/demo/checkpoints", checkpoints.StepFolder(newest), "optimizer.safetensors"))
			r := p.run("", "resume", "runs/demo")
			if r.code != 0 || !strings.Contains(r.stderr, fmt.Sprintf("step %d is passed over", newest)) || !strings.Contains(r.stderr, "optimizer.safetensors") {
				t.Fatalf("exit %d\n%s", r.code, r.stderr)
			}
			if got := p.sums("runs/demo"); got != want {
				t.Errorf("other bits:\n%s", got)
			}
		})
	}
}

// What is wrong is refused before anything is written, and all of it is named.
func TestBadInputChangesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"heads", []string{"train", "--text", "text", "--set", "model.d_model=512", "--set", "model.n_head=7"}, []string{"512", "7", "remainder: 1", "remainder 1"}},
		{"no heads and a negative width", []string{"train", "--text", "text", "--set", "model.n_head=0", "--set", "model.d_model=-3", "--set", "steps=0"}, []string{"n_head is 0", "d_model is -3", "steps is 0"}},
		{"vocabulary", []string{"train", "--text", "text", "--tokenizer", "bytes", "--set", "model.vocab=200"}, []string{"vocab 200", "256"}},
		{"unknown key", []string{"train", "--text", "text", "--set", "model.width=3"}, []string{"unknown key", "width"}},
		{"unknown engine", []string{"train", "--text", "text", "--set", "engine=gpu"}, []string{"engine", "gpu", "auto"}},
		{"precision of the engine", []string{"train", "--text", "text", "--engine", "cpu", "--set", "precision=bf16"}, []string{"bf16", "cpu", "fp32"}},
		{"unknown kind of engine", []string{"train", "--text", "text", "--engine", "gpu"}, []string{"gpu", "auto", "cuda"}},
		{"a GPU in a plain build", []string{"train", "--text", "text", "--engine", "cuda"}, []string{"built without CUDA", "-tags cuda"}},
		{"unknown variant", []string{"train", "--text", "text", "--variant", "7b"}, []string{"7b", "12m"}},
		{"nothing to train on", []string{"train"}, []string{"--text"}},
		{"a tokenizer for a dataset", []string{"train", "--data", "text", "--tokenizer", "bytes"}, []string{"--tokenizer", "without --text"}},
		{"no such text", []string{"train", "--text", "nowhere"}, []string{"nowhere"}},
		{"no such run", []string{"resume", "nowhere"}, []string{"nowhere"}},
		{"unknown flag", []string{"train", "--colour"}, []string{"--colour"}},
		{"help about nothing", []string{"help", "trane"}, []string{`"trane"`}},
		{"help about nothing below a command", []string{"help", "data", "prepair"}, []string{`"prepair"`, "andrea data"}},
		{"too little text", []string{"train", "--text", "text", "--tokenizer", "bytes", "--set", "model.context=16384", "--set", "batch.tokens_per_step=131072"}, []string{"16385"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.text()
			r := p.run("", c.args...)
			if r.code != 2 {
				t.Errorf("exit %d, want 2\n%s", r.code, r.stderr)
			}
			found := false
			for _, want := range c.want {
				found = strings.Contains(r.stderr, want)
				if !found && !strings.HasPrefix(want, "remainder") {
					t.Errorf("the message lacks %q:\n%s", want, r.stderr)
				}
			}
			if _, err := os.Stat(filepath.Join(p.dir, "runs")); err == nil {
				t.Error("a run was created")
			}
		})
	}
}

func TestPrintJobIsAWholeJob(t *testing.T) {
	p := newPlace(t)
	r := p.run("", "train", "--print-job", "--steps", "7")
	if r.code != 0 || !strings.Contains(r.stdout, "steps: 7") {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	p.text()
	p.write("job.yaml", r.stdout)
	again := p.run("", "train", "--job", "job.yaml", "--print-job")
	if again.stdout != r.stdout {
		t.Errorf("the printed job reads back as\n%s\nwant\n%s", again.stdout, r.stdout)
	}
}

// What train would refuse whatever the dataset is not printed.
func TestPrintJobRefusesWhatTrainRefuses(t *testing.T) {
	p := newPlace(t)
	for set, want := range map[string]string{
		"optimizer.lr=.nan":          "optimizer.lr is NaN",
		"optimizer.betas=[3, 3]":     "optimizer.betas[0] is 3",
		"precision=fp16":             `precision is "fp16"`,
		"audit=2":                    "audit is 2",
		"model.d_model=999999999999": "d_model",
		"batch.tokens_per_step=1":    "batch: ",
		"steps=010":                  "plain decimal",
	} {
		if r := p.here(outside{}, "train", "--print-job", "--set", set); r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d\n%s%s", set, r.code, r.stdout, r.stderr)
		}
	}
	for _, args := range [][]string{{"--steps", "010"}, {"--seed", "0x1"}, {"--steps", "1_000"}} {
		if r := p.here(outside{}, append([]string{"train", "--print-job"}, args...)...); r.code != 2 || !strings.Contains(r.stderr, "decimal digits") {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	for _, set := range []string{"model.vocab=300", "precision=bf16", "data.fingerprint=abc"} { // a dataset's, or another machine's, business
		if r := p.here(outside{}, "train", "--print-job", "--set", set); r.code != 0 {
			t.Errorf("%s: exit %d\n%s", set, r.code, r.stderr)
		}
	}
}
