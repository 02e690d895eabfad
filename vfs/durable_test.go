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

// Goal: a folder that MkdirAllDurable returned from survives a power cut, although the process that
// began to make it was killed. Method: kill in every operation, make it again, cut the power.
func TestFoldersOfAKilledProcessBecomeDurable(t *testing.T) {
	for k := 0; ; k++ {
		fsys := crashfs.New()
		fsys.Inject(crashfs.CrashAt(k))
		err := vfs.MkdirAllDurable(fsys, "a/b/c")
		left := fsys.Kill()
		must(t, vfs.MkdirAllDurable(left, "a/b/c/d"))
		if _, err := left.Crash().Stat("a/b/c/d"); err != nil {
			t.Fatalf("killed in operation %d, made again, power cut: %v", k, err)
		}
		if !fsys.Fired() {
			must(t, err)
			return
		}
	}
}

// The folder around one that exists may belong to the system: that it cannot be synced is no error,
// that the disk fails is one.
func TestFolderAroundTheExistingOne(t *testing.T) {
	for err, tolerated := range map[error]bool{syscall.EACCES: true, syscall.EPERM: true, syscall.EROFS: true, syscall.EINVAL: true, syscall.EIO: false} {
		fsys := crashfs.New()
		must(t, fsys.MkdirAll("home/me"))
		fsys.Inject(func(op crashfs.Op) error {
			if op.Kind == "syncdir" && op.Path == "home" {
				return err
			}
			return nil
		})
		if got := vfs.MkdirAllDurable(fsys, "home/me/run"); !fsys.Fired() || tolerated != (got == nil) {
			t.Errorf("%v: error %v", err, got)
		}
	}
}

func TestOrderOfOperations(t *testing.T) {
	fsys := crashfs.New()
	must(t, vfs.MkdirAllDurable(fsys, filepath.Join("a", "b", "c")))
	must(t, vfs.WriteFileAtomic(fsys, "a/b/c/f", []byte("new"), 0o644))
	want := []string{
		"mkdir a", "syncdir .", "mkdir a/b", "syncdir a", "mkdir a/b/c", "syncdir a/b",
		"create a/b/c/f.tmp", "write a/b/c/f.tmp 3", "sync a/b/c/f.tmp", "close a/b/c/f.tmp",
		"rename a/b/c/f.tmp a/b/c/f", "syncdir a/b/c",
	}
	if got := fsys.Log(); !slices.Equal(got, want) {
		t.Fatalf("operations\n%q\nwant\n%q", got, want)
	}
}
