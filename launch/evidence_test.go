package launch_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/ledger"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// finished is a file system in memory with a run that has trained all its steps, and has checkpoints of steps 6 and 8.
func finished(t *testing.T) (*crashfs.FS, launch.Environment) {
	t.Helper()
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	fsys, spec := memory(t)
	if err := trainOn(t, fsys, engine, spec); err != nil {
		t.Fatal(err)
	}
	return fsys, launch.Environment{FS: fsys, Engine: engine, Version: "test", Notify: func(pipeline.Notice) {}}
}

func verify(t *testing.T, env launch.Environment) (ledger.Report, error) {
	t.Helper()
	return launch.VerifyRun(env, killRun, "", func(step, steps int64) {
		if step < 1 || step > steps || steps > killSteps {
			t.Errorf("told of step %d of %d", step, steps)
		}
	})
}

func replay(env launch.Environment, from, to int64) (launch.Replayed, error) {
	return launch.Replay(env, killRun, "", from, to, func(int64, int64) {})
}

// rewrite replaces text in a file of the run.
func rewrite(t *testing.T, fsys vfs.FS, name, old, with string) {
	t.Helper()
	path := filepath.Join(killRun, name)
	data, err := vfs.ReadFile(fsys, path, 1<<30)
	if err != nil || !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s: %v, or no %q", path, err, old)
	}
	if err := vfs.WriteFileAtomic(fsys, path, bytes.Replace(data, []byte(old), []byte(with), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A run is true and gives the same bits again, also while its owner holds it, and looking changes nothing.
func TestLookingAtARunThatIsInUse(t *testing.T) {
	fsys, env := finished(t)
	owner, err := launch.Open(env, killRun, "")
	if err != nil {
		t.Fatal(err)
	}
	fsys.Inject(nil) // the log of changes begins here
	report, err := verify(t, env)
	if err != nil || !report.True() || report.Committed != killSteps || report.Checkpoints != 2 || report.Windows != 8*4 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, c := range []struct{ from, to, after, end int64 }{{1, 0, 0, 8}, {6, 7, 0, 7}, {7, 7, 6, 7}, {8, 0, 6, 8}} {
		r, err := replay(env, c.from, c.to)
		if err != nil || len(r.Faults) != 0 || r.After != c.after || r.To != c.end || r.Same != c.end-c.after || len(r.Damaged) != 0 {
			t.Errorf("from %d to %d: %+v, %v", c.from, c.to, r, err)
		}
	}
	if changes := fsys.Log(); len(changes) != 0 {
		t.Errorf("looking has changed %v", changes)
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
}

// What is killed anywhere is true as far as it goes, and can be computed again.
func TestLookingAtARunThatWasKilled(t *testing.T) {
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for write := 3; write < 40; write += 3 { // of the journal: two a step
		fsys, spec := memory(t)
		left := write
		fsys.Inject(func(op crashfs.Op) error {
			if op.Kind == "write" && filepath.Base(op.Path) == "journal.jsonl" {
				if left--; left == 0 {
					return crashfs.ErrCrashed
				}
			}
			return nil
		})
		if err := trainOn(t, fsys, engine, spec); err == nil {
			break
		}
		killed := fsys.Kill()
		env := launch.Environment{FS: killed, Engine: engine, Version: "test", Notify: func(pipeline.Notice) {}}
		report, err := verify(t, env)
		if err != nil || !report.True() {
			t.Fatalf("killed in write %d: %+v, %v", write, report, err)
		}
		seen[report.Steps-report.Committed] = true
		if r, err := replay(env, 1, 0); err != nil || len(r.Faults) != 0 || r.Same != report.Steps {
			t.Errorf("killed in write %d: %+v, %v", write, r, err)
		}
	}
	if !seen[0] || !seen[1] {
		t.Error("no run was killed between an intent and its record, or none behind one")
	}
}

// forge changes what the journal says of a step and writes the chain behind anew.
func forge(t *testing.T, fsys vfs.FS, step int64, change func(*pipeline.Recorded)) {
	t.Helper()
	path := filepath.Join(killRun, "journal.jsonl")
	data, err := vfs.ReadFile(fsys, path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	j, err := pipeline.ParseJournal(data)
	if err != nil {
		t.Fatal(err)
	}
	change(j.Step(step))
	forged, data := &pipeline.Journal{}, nil
	for _, r := range j.Steps {
		intent, err := forged.AppendIntent(r.Intent)
		record, recordErr := forged.AppendCommit(*r.Commit)
		if err := errors.Join(err, recordErr); err != nil {
			t.Fatal(err)
		}
		data = append(append(data, intent...), record...)
	}
	if err := vfs.WriteFileAtomic(fsys, path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAForgedStepIsNamed(t *testing.T) {
	fsys, env := finished(t)
	forge(t, fsys, 5, func(r *pipeline.Recorded) { r.Intent.Leases[0].TokenDigests[1][0]++ })
	report, err := verify(t, env)
	if err != nil || len(report.Faults) != 3 || report.Faults[0].Step != 5 || report.Faults[1].Step != 6 || report.Faults[2].Step != 8 {
		t.Errorf("the step and the checkpoints behind it: %+v, %v", report, err)
	}
	r, err := replay(env, 7, 0)
	if err != nil || r.Same != 4 || len(r.Faults) != 1 || r.Faults[0].Step != 5 || len(r.Damaged) != 1 || r.Damaged[0].Step != 6 {
		t.Errorf("%+v, %v", r, err)
	}
	if !strings.Contains(r.Faults[0].Error(), "step 5: the token digest of lane 1 is ") {
		t.Error(r.Faults[0])
	}
}

// A checkpoint that has a flipped bit is passed over by a replay, as by a run.
func TestReplayingPassesOverADamagedCheckpoint(t *testing.T) {
	fsys, env := finished(t)
	path := filepath.Join(killRun, "checkpoints", "step-00000006", "model.safetensors")
	data, err := vfs.ReadFile(fsys, path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := vfs.WriteFileAtomic(fsys, path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := replay(env, 8, 0)
	if err != nil || len(r.Faults) != 0 || r.After != 0 || r.Same != 8 || len(r.Damaged) != 1 || r.Damaged[0].Step != 6 {
		t.Errorf("%+v, %v", r, err)
	}
	if report, err := verify(t, env); err != nil || !report.True() {
		t.Errorf("the manifests are true: %+v, %v", report, err)
	}
}

// An engine whose bits are others is found in the first step, and one that says so is refused.
func TestReplayingOnAnotherEngine(t *testing.T) {
	_, env := finished(t)
	good := env.Engine.Open
	env.Engine.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
		e, err := good(c, microbatch, slots)
		return &wrong{Engine: e, at: 4*4 + 1}, err // in the fifth step
	}
	if r, err := replay(env, 1, 0); err != nil || r.Same != 4 || len(r.Faults) == 0 || r.Faults[0].Step != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	env.Engine.Class = "cpu-fp32-n9"
	if _, err := replay(env, 1, 0); err == nil || !strings.Contains(err.Error(), "cpu-fp32-n9") {
		t.Errorf("another class: %v", err)
	}
}

// wrong computes one microbatch wrongly.
type wrong struct {
	model.Engine
	at int
}

func (w *wrong) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if w.at--; w.at == 0 {
		b.Tokens = slices.Clone(b.Tokens)
		b.Tokens[0] ^= 1
	}
	return w.Engine.Accumulate(slot, b)
}

func TestWhatCannotBeLookedAt(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, fsys *crashfs.FS)
		says   string
	}{
		{"no job", func(t *testing.T, fsys *crashfs.FS) { remove(t, fsys, "job.yaml") }, "job.yaml"},
		{"another job", func(t *testing.T, fsys *crashfs.FS) { rewrite(t, fsys, "job.yaml", "seed: 1", "seed: x") }, "job.yaml"},
		{"no journal", func(t *testing.T, fsys *crashfs.FS) { remove(t, fsys, "journal.jsonl") }, "journal.jsonl"},
		{"no dataset", func(t *testing.T, fsys *crashfs.FS) { rewrite(t, fsys, "job.yaml", "/tokens", "/nowhere") }, "nowhere/dataset.json: file does not exist: the dataset is not where it lay: say where it lies now with --data"},
		{"another dataset", func(t *testing.T, fsys *crashfs.FS) { rewrite(t, fsys, "job.yaml", "fingerprint: ", "fingerprint: 0") }, "pinned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys, env := finished(t)
			c.damage(t, fsys)
			report, err := verify(t, env)
			if err == nil || !strings.Contains(err.Error(), c.says) || report.Steps != 0 || !report.True() {
				t.Errorf("%+v, %v", report, err)
			}
			if _, err := replay(env, 1, 1); err == nil {
				t.Errorf("replaying: %v", err)
			}
		})
	}
}

// A checkpoint whose files are not there, or not as long as they were, is not true, and keeps nobody from the rest.
func TestDamagedCheckpointsAreNotTrue(t *testing.T) {
	const step = "checkpoints/step-00000006/"
	empty := func(t *testing.T, fsys *crashfs.FS, name string) {
		t.Helper()
		if err := vfs.WriteFileAtomic(fsys, filepath.Join(killRun, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, damage := range map[string]func(t *testing.T, fsys *crashfs.FS){
		"manifest.json": func(t *testing.T, fsys *crashfs.FS) {
			rewrite(t, fsys, step+"manifest.json", `"step": 6`, `"step": 7`)
		},
		"no manifest.json":      func(t *testing.T, fsys *crashfs.FS) { remove(t, fsys, step+"manifest.json") },
		"model.safetensors":     func(t *testing.T, fsys *crashfs.FS) { empty(t, fsys, step+"model.safetensors") },
		"optimizer.safetensors": func(t *testing.T, fsys *crashfs.FS) { remove(t, fsys, step+"optimizer.safetensors") },
	} {
		fsys, env := finished(t)
		damage(t, fsys)
		report, err := verify(t, env)
		if err != nil || report.Steps != killSteps || len(report.Faults) != 1 || report.Faults[0].Step != 6 || !strings.Contains(report.Faults[0].What, strings.TrimPrefix(name, "no ")) {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		if _, err := replay(env, 1, 1); err != nil {
			t.Errorf("%s: replaying: %v", name, err)
		}
	}
}

func remove(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	if err := fsys.Remove(filepath.Join(killRun, name)); err != nil {
		t.Fatal(err)
	}
}

// Steps that are not recorded cannot be computed again, nor those of a journal that is broken.
func TestReplayingWhatIsNotRecorded(t *testing.T) {
	fsys, env := finished(t)
	for _, c := range [][2]int64{{0, 0}, {-1, 2}, {9, 0}, {9, 9}, {3, 2}, {3, 9}} {
		if _, err := replay(env, c[0], c[1]); err == nil || !strings.Contains(err.Error(), "its journal has steps 1 to 8") {
			t.Errorf("from %d to %d: %v", c[0], c[1], err)
		}
	}
	rewrite(t, fsys, "journal.jsonl", `"step":4,"loss"`, `"step":5,"loss"`)
	if _, err := replay(env, 1, 0); err == nil || !strings.Contains(err.Error(), "step 4: ") {
		t.Errorf("a broken journal: %v", err)
	}
	report, err := verify(t, env)
	if last := report.Faults[len(report.Faults)-1]; err != nil || report.Faults[0].Step != 4 || last.Step != 8 || report.Steps != 4 {
		t.Errorf("%+v, %v", report, err)
	}
}
