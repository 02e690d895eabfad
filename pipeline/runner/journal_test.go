package runner_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

const lonely = "journal.jsonl"

// writeSteps appends steps to the journal until last is complete, from wherever it
// ended. It returns the newest intent that was said to be durable.
func writeSteps(fsys vfs.FS, last int64) (durable int64, err error) {
	j, err := runner.OpenJournal(fsys, lonely)
	if err != nil {
		return 0, err
	}
	durable = j.Last() // what a new coordinator read it may rely on
	defer func() { err = errors.Join(err, j.Close()) }()
	for step := max(1, j.Last()); step <= last; step++ {
		if j.Step(step) == nil {
			if err := j.WriteIntent(pipeline.Intent{Step: step, Action: pipeline.ActionApply, Tokens: step}); err != nil {
				return durable, err
			}
			durable = step
		}
		if j.Step(step).Commit == nil {
			if err := j.WriteCommit(pipeline.CommitRecord{Step: step, Tokens: step}); err != nil {
				return durable, err
			}
		}
	}
	return durable, nil
}

// content is the journal's file.
func content(t *testing.T, fsys vfs.FS) []byte {
	t.Helper()
	data, err := vfs.ReadFile(fsys, lonely, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// whole is the journal of so many steps.
func whole(t *testing.T, steps int64) []byte {
	t.Helper()
	fsys := crashfs.New()
	if err := runner.CreateJournal(fsys, lonely); err != nil {
		t.Fatal(err)
	}
	if _, err := writeSteps(fsys, steps); err != nil {
		t.Fatal(err)
	}
	return content(t, fsys)
}

// The machine stops in every operation, once; each time with the least, with the most
// and with some of what was not synced. The next coordinator finds every intent that
// was durable, and completes the journal to the same bytes.
func TestTheJournalSurvivesACrashInEveryOperation(t *testing.T) {
	want := whole(t, 3)
	for k := 0; ; k++ {
		before := crashfs.New()
		if err := runner.CreateJournal(before, lonely); err != nil {
			t.Fatal(err)
		}
		if _, err := writeSteps(before, 1); err != nil {
			t.Fatal(err)
		}
		before.Inject(crashfs.CrashAt(k))
		durable, err := writeSteps(before, 3)
		if !before.Fired() {
			if err != nil || k < 10 {
				t.Fatalf("%d operations, %v", k, err)
			}
			return
		}
		if err == nil || !errors.Is(err, crashfs.ErrCrashed) {
			t.Fatalf("crash in operation %d: %v", k, err)
		}
		for name, after := range map[string]*crashfs.FS{
			"the least": before.Crash(), "all": before.Kill(), "some": before.CrashRandom(uint64(k)), "other": before.CrashRandom(uint64(k) + 1000),
		} {
			j, err := runner.ReadJournal(after, lonely)
			if err != nil {
				t.Fatalf("crash in operation %d, %s survived: %v", k, name, err)
			}
			if j.Last() < max(1, durable) {
				t.Fatalf("crash in operation %d, %s survived: step %d is the last, %d was durable", k, name, j.Last(), durable)
			}
			if _, err := writeSteps(after, 3); err != nil {
				t.Fatalf("crash in operation %d, %s survived: %v", k, name, err)
			}
			if got := content(t, after); !bytes.Equal(got, want) {
				t.Fatalf("crash in operation %d, %s survived: the journal became\n%s", k, name, got)
			}
		}
	}
}

func TestATornTailIsCutOffWhenAJournalIsOpened(t *testing.T) {
	want := whole(t, 2)
	for cut := range len(want) {
		fsys := crashfs.New()
		if err := vfs.WriteFileAtomic(fsys, lonely, want[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		lines := want[:bytes.LastIndexByte(want[:cut], '\n')+1]
		j, err := runner.ReadJournal(fsys, lonely)
		if err != nil || j.Torn != cut-len(lines) || !bytes.Equal(content(t, fsys), want[:cut]) {
			t.Fatalf("cut at %d: reading counts %d torn bytes, %v, or touches the file", cut, j.Torn, err)
		}
		opened, err := runner.OpenJournal(fsys, lonely)
		if err != nil {
			t.Fatal(err)
		}
		if got := content(t, fsys); !bytes.Equal(got, lines) {
			t.Fatalf("cut at %d: opening leaves %q", cut, got)
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := writeSteps(fsys, 2); err != nil || !bytes.Equal(content(t, fsys), want) {
			t.Fatalf("cut at %d: %v, the journal becomes\n%s", cut, err, content(t, fsys))
		}
	}
}

// A predecessor that was only paused appends to a file that nobody reads.
func TestAPausedPredecessorWritesToNobody(t *testing.T) {
	fsys := crashfs.New()
	if err := runner.CreateJournal(fsys, lonely); err != nil {
		t.Fatal(err)
	}
	old, err := runner.OpenJournal(fsys, lonely)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeSteps(fsys, 2); err != nil {
		t.Fatal(err)
	}
	if err := old.WriteIntent(pipeline.Intent{Step: 1, Action: pipeline.ActionSkip}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, fsys); !bytes.Equal(got, whole(t, 2)) {
		t.Errorf("the journal is\n%s", got)
	}
}

func TestADamagedJournalIsNotTouched(t *testing.T) {
	fsys := crashfs.New()
	damaged := bytes.Replace(whole(t, 2), []byte(`"tokens":1`), []byte(`"tokens":7`), 1)
	if err := vfs.WriteFileAtomic(fsys, lonely, damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	if j, err := runner.OpenJournal(fsys, lonely); err == nil || j != nil || !strings.Contains(err.Error(), "journal.jsonl: reading the journal: line 2: ") {
		t.Errorf("%v, %v", j, err)
	}
	if !bytes.Equal(content(t, fsys), damaged) {
		t.Error("the file was changed")
	}
	later := bytes.Replace(whole(t, 4), []byte(`"kind":"intent","step":3`), []byte(`"kind":"intent","step":7`), 1)
	if err := vfs.WriteFileAtomic(fsys, lonely, later, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := runner.ReadJournal(fsys, lonely)
	if err == nil || !strings.Contains(err.Error(), "line 5: ") || !strings.Contains(err.Error(), "lines 1 to 4 are intact and prove steps 1 to 2: ") || !strings.Contains(err.Error(), "'head -n 4 journal.jsonl > journal.jsonl.kept'") {
		t.Errorf("what is left is not told: %v", err)
	}
	if _, err := runner.OpenJournal(fsys, "missing.jsonl"); err == nil || !strings.Contains(err.Error(), "the journal missing.jsonl") {
		t.Errorf("a missing journal: %v", err)
	}
}

// The disk fails once in every operation, and the machine stays up: the error comes
// out, and whoever opens the journal again completes it.
func TestADiskErrorInEveryOperationOfTheJournal(t *testing.T) {
	want := whole(t, 2)
	full := errors.New("no space left on device")
	for k := 0; ; k++ {
		fsys := crashfs.New()
		if err := runner.CreateJournal(fsys, lonely); err != nil {
			t.Fatal(err)
		}
		fsys.Inject(crashfs.FailAt(k, full))
		_, err := writeSteps(fsys, 2)
		if !fsys.Fired() {
			if err != nil || k < 10 {
				t.Fatalf("%d operations, %v", k, err)
			}
			return
		}
		if !errors.Is(err, full) || !strings.Contains(fmt.Sprint(err), "journal") {
			t.Fatalf("operation %d failed: %v", k, err)
		}
		fsys.Inject(nil)
		if _, err := writeSteps(fsys, 2); err != nil || !bytes.Equal(content(t, fsys), want) {
			t.Fatalf("operation %d failed: then %v, the journal becomes\n%s", k, err, content(t, fsys))
		}
	}
}

// A journal that was deleted or moved takes no more records: nobody would read them.
func TestAJournalThatHasGone(t *testing.T) {
	for what, record := range map[string]func(*runner.Journal) error{
		"intent": func(j *runner.Journal) error {
			return j.WriteIntent(pipeline.Intent{Step: 2, Action: pipeline.ActionApply})
		},
		"commit": func(j *runner.Journal) error { return j.WriteCommit(pipeline.CommitRecord{Step: 1}) },
		"sync":   (*runner.Journal).Sync,
	} {
		fsys := crashfs.New()
		if err := runner.CreateJournal(fsys, lonely); err != nil {
			t.Fatal(err)
		}
		j, err := runner.OpenJournal(fsys, lonely)
		if err == nil {
			err = j.WriteIntent(pipeline.Intent{Step: 1, Action: pipeline.ActionApply})
		}
		if err == nil && what == "intent" {
			err = j.WriteCommit(pipeline.CommitRecord{Step: 1})
		}
		if err == nil {
			err = fsys.Rename(lonely, "elsewhere")
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := record(j); err == nil || !strings.Contains(err.Error(), "deleted or moved") {
			t.Errorf("%s: got %v", what, err)
		}
		if err := j.Close(); err != nil {
			t.Errorf("%s: closing: %v", what, err)
		}
	}
}
