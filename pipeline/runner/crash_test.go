package runner_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"andrea/pipeline"
	"andrea/vfs/crashfs"
)

// shortJob is one that is trained some hundred times: two steps of one microbatch,
// with a checkpoint after each.
var shortJob = []string{"steps=2", "eval.every=0", "batch={tokens_per_step: 4, lanes: 1}"}

// disturbed trains in fsys, whose fault is injected already, and checks that a fault
// is told and never passes for success.
func (r *rig) disturbed(t *testing.T, fsys *crashfs.FS, k int, fault error) {
	t.Helper()
	said, err := r.train(t, fsys, nil)
	if err == nil && said.outcome.Err == nil && !said.outcome.Complete {
		t.Fatalf("operation %d: the run ended without a word: %+v", k, said.outcome)
	}
	for _, e := range []error{err, said.outcome.Err} {
		if e != nil && !errors.Is(e, fault) {
			t.Fatalf("operation %d: the reason is lost: %v", k, e)
		}
	}
	early := pipeline.ErrStopped{}
	if failure := said.outcome.Err; failure != nil && (!errors.As(said.left, &early) || early.Reason != nobodyNext) {
		t.Fatalf("operation %d: the run failed with %v, the worker did not wait for its next coordinator and left with %v", k, failure, said.left)
	}
}

// The machine stops in every operation of a whole run, once. What the disk kept is
// enough to end in the same bits, with each step once in the journal.
func TestACrashInEveryOperationOfARun(t *testing.T) { synctest.Test(t, crashEverywhere) }

func crashEverywhere(t *testing.T) {
	r := newQuietRig(t, shortJob...)
	want := r.reference(t)
	for k := 0; ; k++ {
		before := crashfs.New()
		before.Inject(crashfs.CrashAt(k))
		r.disturbed(t, before, k, crashfs.ErrCrashed)
		if !before.Fired() {
			if k < 50 {
				t.Fatalf("a run has only %d operations", k)
			}
			return
		}
		after := before.CrashRandom(uint64(k))
		mustOpen(t, after, k)
		r.mustGoOn(t, after, k, want)
	}
}

// The disk refuses every operation of a whole run, once, and the process lives on to
// say so. The checkpoint before stays intact.
func TestADiskErrorInEveryOperationOfARun(t *testing.T) { synctest.Test(t, failEverywhere) }

func failEverywhere(t *testing.T) {
	r := newQuietRig(t, shortJob...)
	want := r.reference(t)
	full := errors.New("no space left on device")
	for k := 0; ; k++ {
		fsys := crashfs.New()
		fsys.Inject(crashfs.FailAt(k, full))
		r.disturbed(t, fsys, k, full)
		if !fsys.Fired() {
			return
		}
		fsys.Inject(nil)
		mustOpen(t, fsys, k)
		if k%3 == 0 { // the crashes above resume after every operation
			r.mustGoOn(t, fsys, k, want)
		}
	}
}

// mustOpen opens what a fault in operation k has left: no checkpoint is damaged.
func mustOpen(t *testing.T, fsys *crashfs.FS, k int) {
	t.Helper()
	f, err := open(fsys)
	if err != nil {
		t.Fatalf("operation %d: %v", k, err)
	}
	if len(f.damaged) > 0 {
		t.Fatalf("operation %d: a checkpoint is damaged: %v", k, f.damaged)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
}

// mustGoOn resumes a run that a fault in operation k has ended.
func (r *rig) mustGoOn(t *testing.T, fsys *crashfs.FS, k int, want string) {
	t.Helper()
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatalf("operation %d: the resumed run: %v", k, err)
	}
	if o := said.outcome; !o.Complete {
		t.Fatalf("operation %d: the resumed run ended with %+v", k, o)
	}
	if got := bits(t, fsys); strings.Count(got, "\n") != 2 {
		t.Fatalf("operation %d: the journal:\n%s", k, got)
	}
	r.mustComplete(t, fsys, said, want)
}
