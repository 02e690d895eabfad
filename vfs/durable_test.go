package vfs_test

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// withFile makes a file system that holds run/f durably.
func withFile(t *testing.T, content string) *crashfs.FS {
	t.Helper()
	fsys := crashfs.New()
	must(t, vfs.MkdirAllDurable(fsys, "run"))
	must(t, vfs.WriteFileAtomic(fsys, "run/f", []byte(content), 0o644))
	return fsys
}

func content(t *testing.T, fsys vfs.FS, path string) string {
	t.Helper()
	got, err := vfs.ReadFile(fsys, path, 1<<20)
	must(t, err)
	return string(got)
}

// Goal: a crash leaves the old content or the new, and after success the new.
// Method: crash in every operation, under each of the things that a crash may keep.
func TestWriteFileAtomicSurvivesEveryCrash(t *testing.T) {
	for k := 0; ; k++ {
		fsys := withFile(t, "old content")
		fsys.Inject(crashfs.CrashAt(k))
		err := vfs.WriteFileAtomic(fsys, "run/f", []byte("new"), 0o644)
		if fsys.Fired() == (err == nil) {
			t.Fatalf("crash in operation %d: fired %v, error %v", k, fsys.Fired(), err)
		}
		after := []*crashfs.FS{fsys.Crash(), fsys.Kill()}
		for seed := range uint64(20) {
			after = append(after, fsys.CrashRandom(seed))
		}
		for i, left := range after {
			got := content(t, left, "run/f")
			if got != "new" && (err == nil || got != "old content") {
				t.Fatalf("crash in operation %d, variant %d: holds %q, error was %v", k, i, got, err)
			}
		}
		if err == nil {
			return
		}
	}
}

func TestWriteFileAtomicSurvivesEveryError(t *testing.T) {
	for k := 0; ; k++ {
		fsys := withFile(t, "old content")
		fsys.Inject(crashfs.FailAt(k, syscall.ENOSPC))
		err := vfs.WriteFileAtomic(fsys, "run/f", []byte("new"), 0o644)
		if !fsys.Fired() {
			must(t, err)
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("operation %d failed, error is %v", k, err)
		}
		if got := content(t, fsys, "run/f"); got != "old content" && got != "new" {
			t.Fatalf("operation %d failed: holds %q", k, got)
		}
		if got := names(t, fsys, "run"); got != "f" {
			t.Fatalf("operation %d failed: names %q are left", k, got)
		}
	}
}

func TestOrderOfOperations(t *testing.T) {
	fsys := crashfs.New()
	must(t, vfs.MkdirAllDurable(fsys, filepath.Join("a", "b", "c")))
	must(t, vfs.WriteFileAtomic(fsys, "a/b/c/f", []byte("new"), 0o644))
	want := []string{
		"mkdir a/b/c", "syncdir .", "syncdir a", "syncdir a/b",
		"create a/b/c/f.tmp", "write a/b/c/f.tmp 3", "sync a/b/c/f.tmp", "close a/b/c/f.tmp",
		"rename a/b/c/f.tmp a/b/c/f", "syncdir a/b/c",
	}
	if got := fsys.Log(); !slices.Equal(got, want) {
		t.Fatalf("operations\n%q\nwant\n%q", got, want)
	}
}
