package crashfs_test

import (
	"errors"
	"io/fs"
	"testing"

	"andrea/vfs"
	"andrea/vfs/crashfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read gives the content, or "-" for a missing file.
func read(t *testing.T, fsys *crashfs.FS, path string) string {
	t.Helper()
	got, err := vfs.ReadFile(fsys, path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(t, err)
	return string(got)
}

func create(t *testing.T, fsys *crashfs.FS, path, content string) vfs.File {
	t.Helper()
	f, err := fsys.Create(path, 0o644)
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, err)
	return f
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	fsys := crashfs.New()
	f := create(t, fsys, "f", "abc")
	if got := read(t, fsys.Crash(), "f"); got != "-" {
		t.Fatalf("nothing synced, yet f holds %q", got)
	}
	must(t, f.Sync())
	if got := read(t, fsys.Crash(), "f"); got != "-" {
		t.Fatalf("name not synced, yet f holds %q", got)
	}
	must(t, fsys.SyncDir("."))
	_, err := f.Write([]byte("def"))
	must(t, err)
	if got := read(t, fsys.Crash(), "f"); got != "abc" {
		t.Fatalf("after a crash f holds %q, want abc", got)
	}
	if got := read(t, fsys.Kill(), "f"); got != "abcdef" {
		t.Fatalf("after a kill f holds %q, want abcdef", got)
	}
}

// The death of a process syncs nothing: a power cut after it loses what one before it would have lost,
// and what is synced in between stays.
func TestCrashAfterKill(t *testing.T) {
	fsys := crashfs.New()
	must(t, create(t, fsys, "f", "abc").Sync())
	must(t, fsys.SyncDir("."))
	must(t, create(t, fsys, "g", "xyz").Sync())
	must(t, fsys.Rename("f", "moved"))
	f, err := fsys.OpenAppend("moved")
	must(t, err)
	_, err = f.Write([]byte("def"))
	must(t, err)
	killed := fsys.Kill()
	if read(t, killed, "moved") != "abcdef" || read(t, killed, "g") != "xyz" || read(t, killed, "f") != "-" {
		t.Fatal("the kill lost something")
	}
	if left := killed.Crash(); read(t, left, "f") != "abc" || read(t, left, "g") != "-" || read(t, left, "moved") != "-" {
		t.Fatal("the power cut after the kill kept what was never synced")
	}
	f, err = killed.OpenAppend("moved")
	must(t, err)
	must(t, f.Sync())
	must(t, killed.SyncDir("."))
	if left := killed.Crash(); read(t, left, "moved") != "abcdef" || read(t, left, "g") != "xyz" {
		t.Fatal("the power cut lost what was synced after the kill")
	}
	if read(t, fsys.Crash(), "moved") != "-" {
		t.Fatal("a sync after the kill reached the file system before it")
	}
}

func TestSyncedNameOfUnsyncedFileIsEmpty(t *testing.T) {
	fsys := crashfs.New()
	create(t, fsys, "f", "abc")
	must(t, fsys.SyncDir("."))
	if got := read(t, fsys.Crash(), "f"); got != "" {
		t.Fatalf("f holds %q, want nothing: this is how a missing sync shows", got)
	}
}

func TestRenameLastsFromSyncDir(t *testing.T) {
	fsys := crashfs.New()
	must(t, create(t, fsys, "old", "abc").Sync())
	must(t, fsys.SyncDir("."))
	must(t, fsys.Rename("old", "new"))
	left := fsys.Crash()
	if read(t, left, "old") != "abc" || read(t, left, "new") != "-" {
		t.Fatal("a rename that was not synced survived the crash")
	}
	must(t, fsys.SyncDir("."))
	left = fsys.Crash()
	if read(t, left, "old") != "-" || read(t, left, "new") != "abc" {
		t.Fatal("a synced rename did not survive the crash")
	}
}

// Every prefix of the writes, torn or not, must come up, and nothing else.
func TestCrashRandomKeepsAPrefix(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(300) {
		fsys := crashfs.New()
		f := create(t, fsys, "f", "ab")
		must(t, f.Sync())
		must(t, fsys.SyncDir("."))
		for _, s := range []string{"cd", "ef"} {
			_, err := f.Write([]byte(s))
			must(t, err)
		}
		seen[read(t, fsys.CrashRandom(seed), "f")] = true
	}
	for _, prefix := range []string{"ab", "abc", "abcd", "abcde", "abcdef"} {
		if !seen[prefix] {
			t.Errorf("%q never came up", prefix)
		}
		delete(seen, prefix)
	}
	if len(seen) != 0 {
		t.Errorf("impossible contents: %v", seen)
	}
}

func TestCrashRandomKeepsRenamesWhole(t *testing.T) {
	for seed := range uint64(100) {
		fsys := crashfs.New()
		must(t, create(t, fsys, "a", "x").Sync())
		must(t, fsys.SyncDir("."))
		must(t, fsys.Rename("a", "b"))
		must(t, fsys.Rename("b", "c"))
		entries, err := fsys.CrashRandom(seed).ReadDir(".")
		must(t, err)
		if len(entries) != 1 {
			t.Fatalf("seed %d: %d names, want one", seed, len(entries))
		}
	}
}

func TestFaults(t *testing.T) {
	fsys := crashfs.New()
	full := errors.New("disk full")
	fsys.Inject(crashfs.FailAt(1, full)) // 0 create, 1 write
	f, err := fsys.Create("f", 0o644)
	must(t, err)
	if n, err := f.Write([]byte("abcd")); n != 2 || !errors.Is(err, full) {
		t.Fatalf("failed write gives %d, %v", n, err)
	}
	if _, err := f.Write([]byte("ef")); err != nil {
		t.Fatalf("the fault struck twice: %v", err)
	}
	if got := read(t, fsys, "f"); got != "abef" {
		t.Fatalf("f holds %q, want the half of the failed write and the next one", got)
	}
	fsys.Inject(crashfs.CrashAt(0))
	if err := f.Sync(); !errors.Is(err, crashfs.ErrCrashed) || !fsys.Fired() {
		t.Fatalf("sync after the crash: %v", err)
	}
	if _, err := fsys.Stat("f"); !errors.Is(err, crashfs.ErrCrashed) {
		t.Fatalf("the machine still answers: %v", err)
	}
	if n, err := f.Write([]byte("gh")); n != 0 || !errors.Is(err, crashfs.ErrCrashed) {
		t.Fatalf("the machine still writes: %d, %v", n, err)
	}
	if got := read(t, fsys.Kill(), "f"); got != "abef" {
		t.Fatalf("after the crash f holds %q", got)
	}
	if log := fsys.Log(); len(log) != 0 {
		t.Fatalf("failed operations are logged: %q", log)
	}
}

// The death of a process ends its locks; another's lock stays.
func TestLocksEndWithTheProcess(t *testing.T) {
	fsys := crashfs.New()
	_, err := fsys.Lock("lock")
	must(t, err)
	for name, left := range map[string]*crashfs.FS{"crash": fsys.Crash(), "kill": fsys.Kill(), "random": fsys.CrashRandom(1)} {
		if _, err := left.Lock("lock"); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	if _, err := fsys.Lock("lock"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("where nobody died: %v", err)
	}
}
