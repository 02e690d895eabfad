package launch_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"andrea/launch"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// Set where time is no matter: everything crashes in every operation, not in a sample of
// them. The seed of the sample is drawn when it is not set.
const (
	everythingVariable = "ANDREA_TEST_EVERYTHING"
	seedVariable       = "ANDREA_TEST_SEED"
)

// killSteps is how many steps the job of the kill matrix has.
const killSteps = 8

const killRun = "/run" // in memory

// memory is a file system in memory with a dataset, and a job that trains on it.
func memory(t *testing.T) (*crashfs.FS, pipeline.JobSpec) {
	t.Helper()
	fsys, from := crashfs.New(), tinyDataset(t)
	files, err := os.ReadDir(from)
	if err == nil {
		err = vfs.MkdirAllDurable(fsys, "/tokens")
	}
	for _, f := range files {
		data, readErr := os.ReadFile(filepath.Join(from, f.Name()))
		err = errors.Join(err, readErr, vfs.WriteFileAtomic(fsys, filepath.Join("/tokens", f.Name()), data, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	spec, err := pipeline.ParseJobSpec(fmt.Appendf(nil, `
name: kill
model: {d_model: 16, n_head: 2, n_layer: 1, context: 16}
batch: {tokens_per_step: 64, microbatch: 1, lanes: 2}
optimizer: {lr: 3e-3, min_lr: 3e-4, warmup_steps: 3}
steps: %d
eval: {every: 4, windows: 2}
checkpoint: {every: 3, keep_last: 2}
`, killSteps))
	if err != nil {
		t.Fatal(err)
	}
	spec.Data.Path, spec.Data.Validation = "/tokens", 0.05
	return fsys, spec
}

// trainOn creates the run, or goes on with it, until it ends.
func trainOn(t *testing.T, fsys vfs.FS, engine launch.Engine, spec pipeline.JobSpec) error {
	t.Helper()
	env := launch.Environment{FS: fsys, Engine: engine, Version: "test", Notify: func(pipeline.Notice) {}}
	exists, err := launch.Exists(fsys, killRun)
	if err != nil {
		return err
	}
	var run *launch.Run
	if exists {
		run, err = launch.Open(env, killRun, "")
	} else {
		run, err = launch.Create(env, killRun, spec)
	}
	if err != nil {
		return err
	}
	outcome, err := run.Train()
	if err = errors.Join(err, outcome.Err, run.Close()); err == nil && !outcome.Complete {
		err = fmt.Errorf("it stopped at step %d: %s", outcome.Step, outcome.Stopped)
	}
	return err
}

// ending is the bits that a finished run has left: the newest checkpoint's tensors and
// what the journal says of every step, each of which it has once.
func ending(t *testing.T, fsys vfs.FS, steps int64) string {
	t.Helper()
	var result string
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		data, err := vfs.ReadFile(fsys, filepath.Join(killRun, "checkpoints", fmt.Sprintf("step-%08d", steps), name), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		result += fmt.Sprintf("%x %s\n", sha256.Sum256(data), name)
	}
	journal, err := runner.ReadJournal(fsys, filepath.Join(killRun, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if journal.Last() != steps || journal.Torn != 0 {
		t.Errorf("the journal has %d steps and %d torn bytes", journal.Last(), journal.Torn)
	}
	for _, s := range journal.Steps {
		if s.Commit == nil {
			t.Fatalf("step %d has no commit record", s.Intent.Step)
		}
		result += fmt.Sprintf("step %d epoch %d lr %x root %v state %v loss %v\n", s.Intent.Step, s.Intent.Epoch, s.Intent.LR, s.Intent.RootDigest, s.Commit.StateDigest, s.Commit.Loss)
	}
	return result
}

// aftermaths are what a crash may leave, the first and the second time.
var aftermaths = []struct {
	name string
	left [2]func(f *crashfs.FS, seed uint64) *crashfs.FS
}{
	{"power cut", [2]func(*crashfs.FS, uint64) *crashfs.FS{powerCut, powerCut}},
	{"killed", [2]func(*crashfs.FS, uint64) *crashfs.FS{killed, killed}},
	{"power cut that kept some", [2]func(*crashfs.FS, uint64) *crashfs.FS{(*crashfs.FS).CrashRandom, (*crashfs.FS).CrashRandom}},
	{"killed, then power cut", [2]func(*crashfs.FS, uint64) *crashfs.FS{killed, powerCut}},
}

func powerCut(f *crashfs.FS, _ uint64) *crashfs.FS { return f.Crash() }
func killed(f *crashfs.FS, _ uint64) *crashfs.FS   { return f.Kill() }

// Kill anywhere: in whatever file operation the machine stops, and whatever of the
// unsynced bytes and names survives, the resumed run ends in the same bits, and the
// journal has each step once. Stopped a second time while it resumes, too. A run that says
// that it is complete survives a power cut.
func TestACrashInAnyFileOperation(t *testing.T) {
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	base, spec := memory(t)
	whole := base.Kill()
	count := counted(whole)
	if err := trainOn(t, whole, engine, spec); err != nil {
		t.Fatal(err)
	}
	want, operations := ending(t, whole, killSteps), count()
	chosen, seed := sample(t, operations*len(aftermaths), 25)
	for k := range operations {
		for _, after := range aftermaths {
			if !chosen() {
				continue
			}
			t.Run(fmt.Sprintf("%s in operation %d", after.name, k), func(t *testing.T) {
				t.Parallel() // a short run mostly waits for messages
				left := base
				for time := range after.left {
					fsys := left.Kill()
					fsys.Inject(crashfs.CrashAt(k))
					if err := trainOn(t, fsys, engine, spec); err != nil && !fsys.Fired() {
						t.Fatalf("it failed without a crash: %v", err)
					}
					left = after.left[time](fsys, seed+uint64(k))
				}
				if err := trainOn(t, left, engine, spec); err != nil {
					t.Fatalf("resuming: %v", err)
				}
				if got := ending(t, left.Crash(), killSteps); got != want {
					t.Errorf("other bits after a power cut at the end:\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// sample chooses about some of all cases, each with the same chance, or all of them.
// The seed is in the test's log.
func sample(t *testing.T, all, some int) (chosen func() bool, seed uint64) {
	t.Helper()
	seed = rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	if os.Getenv(everythingVariable) != "" {
		some = all
	}
	t.Logf("about %d of %d cases, drawn with %s=%d", min(some, all), all, seedVariable, seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	return func() bool { return rng.IntN(all) < some }, seed
}

// counted counts the operations on a file system from now on.
func counted(fsys *crashfs.FS) (count func() int) {
	n := 0
	fsys.Inject(func(op crashfs.Op) error {
		n = op.Index + 1
		return nil
	})
	return func() int {
		fsys.Inject(nil) // and so no operation runs beside the reading of n
		return n
	}
}
