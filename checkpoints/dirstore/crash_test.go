package dirstore_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"andrea/checkpoints/dirstore"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

const dir = "runs/demo/checkpoints"

// withCheckpoints makes a file system with the checkpoints of these steps; the step is the seed of the
// state.
func withCheckpoints(t *testing.T, steps ...int) *crashfs.FS {
	t.Helper()
	fsys := crashfs.New()
	store := owned(t, fsys, dir)
	for _, step := range steps {
		must(t, newState(tiny(), uint64(step)).save(store, step))
	}
	return fsys
}

// afterwards gives file systems that may be found after the crash of fsys in operation k.
func afterwards(fsys *crashfs.FS, k int) []*crashfs.FS {
	return []*crashfs.FS{fsys.Crash(), fsys.Kill(), fsys.CrashRandom(uint64(2 * k)), fsys.CrashRandom(uint64(2*k + 1))}
}

// newestAfter restarts the owner on fsys, checks that every checkpoint is intact and holds the state of
// its step and that nothing else lies there, and returns the steps.
func newestAfter(t *testing.T, fsys *crashfs.FS) []int {
	t.Helper()
	store := owned(t, fsys, dir)
	steps, err := store.List()
	must(t, err)
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	if len(entries) != len(steps) {
		t.Fatalf("%d names for the checkpoints of %v", len(entries), steps)
	}
	for _, step := range steps {
		m, err := store.Verify(step)
		must(t, err)
		if m.StateDigest != newState(tiny(), uint64(step)).digest() {
			t.Fatalf("the checkpoint of step %d holds another state", step)
		}
	}
	return steps
}

// saveAndRetain is what a run does: a checkpoint, then the old ones go.
func saveAndRetain(fsys *crashfs.FS, step int) error {
	store, err := dirstore.OpenOwned(fsys, dir)
	if err != nil {
		return err
	}
	if err := newState(tiny(), uint64(step)).save(store, step); err != nil {
		return err
	}
	_, err = store.Retain(step, 2)
	return err
}

// Goal: whatever the moment of a crash, every checkpoint that is there afterwards is whole, the newest
// former one is never lost, and after a commit the new one is there.
// Method: crash in every operation of a save and the deletions after it, under each of the things that
// a crash may keep.
func TestCrashAnywhere(t *testing.T) {
	for k := 0; ; k++ {
		fsys := withCheckpoints(t, 1, 2)
		committed := false
		fsys.Inject(func(op crashfs.Op) error {
			// Retention begins with the first verification, which opens a manifest.
			committed = committed || op.Kind == "open" && strings.HasSuffix(op.Path, "manifest.json")
			return crashfs.CrashAt(k)(op)
		})
		err := saveAndRetain(fsys, 3)
		if fsys.Fired() == (err == nil) && err == nil {
			t.Fatalf("crash in operation %d: no error", k)
		}
		for i, left := range afterwards(fsys, k) {
			steps := newestAfter(t, left)
			allowed := [][]int{{1, 2}, {1, 2, 3}}
			if committed {
				allowed = [][]int{{1, 2, 3}, {2, 3}}
			}
			if err == nil {
				allowed = [][]int{{2, 3}}
			}
			if !slices.ContainsFunc(allowed, func(a []int) bool { return slices.Equal(a, steps) }) {
				t.Fatalf("crash in operation %d, variant %d: checkpoints %v, want one of %v", k, i, steps, allowed)
			}
		}
		if !fsys.Fired() {
			return
		}
	}
}

// Goal: what a restarted owner has committed or taken up survives a power cut, although a killed one began
// it. Method: kill in every operation, open again, or save again, and cut the power.
func TestPowerCutAfterAKill(t *testing.T) {
	for k := 0; ; k++ {
		fsys := withCheckpoints(t, 1, 2)
		fsys.Inject(crashfs.CrashAt(k))
		err := saveAndRetain(fsys, 3)
		opened := fsys.Kill()
		before := newestAfter(t, opened)
		if after := newestAfter(t, opened.Crash()); !slices.Equal(after, before) {
			t.Fatalf("killed in operation %d, opened, power cut: checkpoints %v, before %v", k, after, before)
		}
		saved := fsys.Kill()
		must(t, saveAndRetain(saved, 3))
		if after := newestAfter(t, saved.Crash()); !slices.Equal(after, []int{2, 3}) {
			t.Fatalf("killed in operation %d, saved again, power cut: checkpoints %v", k, after)
		}
		if !fsys.Fired() {
			must(t, err)
			return
		}
	}
}

// A checkpoint that is in its place already is durable when Commit has said so.
func TestCommitOfTheSameStateIsDurable(t *testing.T) {
	fsys := withCheckpoints(t, 1)
	store := owned(t, fsys, dir)
	moved := false
	fsys.Inject(func(op crashfs.Op) error {
		moved = moved || op.Kind == "rename"
		if moved && op.Kind == "syncdir" && op.Path == dir {
			return syscall.EIO
		}
		return nil
	})
	if err := newState(tiny(), 2).save(store, 2); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the folder cannot be synced: %v", err)
	}
	if err := newState(tiny(), 2).save(store, 2); !errors.Is(err, syscall.EIO) {
		t.Fatalf("it still cannot: %v", err)
	}
	fsys.Inject(nil)
	must(t, newState(tiny(), 2).save(store, 2))
	if steps := newestAfter(t, fsys.Crash()); !slices.Equal(steps, []int{1, 2}) {
		t.Fatalf("committed, but after a power cut there are only %v", steps)
	}
}

// An error instead of a crash: the process lives on, nothing half done stays, and the
// next attempt succeeds.
func TestErrorAnywhere(t *testing.T) {
	for k := 0; ; k++ {
		fsys := withCheckpoints(t, 1, 2)
		fsys.Inject(crashfs.FailAt(k, syscall.ENOSPC))
		err := saveAndRetain(fsys, 3)
		if !fsys.Fired() {
			must(t, err)
			return
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("operation %d failed, error %v does not say so", k, err)
		}
		fsys.Inject(nil)
		if steps := newestAfter(t, fsys); !slices.Contains(steps, 2) || err == nil && !slices.Contains(steps, 3) {
			t.Fatalf("operation %d failed: checkpoints %v are left", k, steps)
		}
		must(t, saveAndRetain(fsys, 3))
		for i, left := range afterwards(fsys, k) {
			if steps := newestAfter(t, left); !slices.Equal(steps, []int{2, 3}) {
				t.Fatalf("operation %d failed: after another attempt, variant %d, checkpoints %v", k, i, steps)
			}
		}
	}
}

// A crash while a damaged checkpoint is being replaced may lose the damaged one and nothing else.
func TestCrashWhileReplacingADamagedOne(t *testing.T) {
	for k := 0; ; k++ {
		fsys := withCheckpoints(t, 1, 2)
		must(t, fsys.Remove(filepath.Join(dir, "step-00000002", "config.json")))
		must(t, fsys.SyncDir(filepath.Join(dir, "step-00000002")))
		store := owned(t, fsys, dir)
		fsys.Inject(crashfs.CrashAt(k))
		err := newState(tiny(), 2).save(store, 2)
		for i, left := range afterwards(fsys, k) {
			r, damages, openErr := owned(t, left, dir).Newest(nil)
			must(t, openErr)
			if step := r.Manifest().Step; step != 2 && (err == nil || step != 1) {
				t.Fatalf("crash in operation %d, variant %d: step %d is the newest, %v", k, i, step, damages)
			}
			must(t, r.Close())
		}
		if !fsys.Fired() {
			must(t, err)
			return
		}
	}
}

func TestOrderOfOperations(t *testing.T) {
	fsys := crashfs.New()
	must(t, saveAndRetain(fsys, 1))
	must(t, saveAndRetain(fsys, 2))
	fsys.Inject(nil)
	must(t, saveAndRetain(fsys, 3))
	got := strings.Join(fsys.Log(), "\n") + "\n"
	path := filepath.Join("testdata", "operations.golden")
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := vfs.ReadFile(vfs.OS, path, 1<<20)
	must(t, err)
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Fatalf("operations differ from %s (go test -update writes it anew):\n%s", path, got)
	}
}
