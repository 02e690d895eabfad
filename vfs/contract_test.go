package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// onEach runs a test on the operating system's files and on the pretend ones: what the tests of
// crashes prove counts for the real thing only as far as both behave alike.
func onEach(t *testing.T, test func(t *testing.T, fsys vfs.FS, root string)) {
	t.Run("os", func(t *testing.T) { test(t, vfs.OS, t.TempDir()) })
	t.Run("crashfs", func(t *testing.T) { test(t, crashfs.New(), "root") })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, fsys vfs.FS, path, content string) {
	t.Helper()
	must(t, vfs.WriteFileSync(fsys, path, []byte(content), 0o644))
}

func want(t *testing.T, fsys vfs.FS, path, content string) {
	t.Helper()
	got, err := vfs.ReadFile(fsys, path, 1<<20)
	must(t, err)
	if string(got) != content {
		t.Fatalf("%s holds %q, want %q", path, got, content)
	}
}

func names(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestFilesAndNames(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, root string) {
		dir := filepath.Join(root, "a", "b")
		must(t, fsys.MkdirAll(dir))
		one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
		put(t, fsys, one, "first")
		put(t, fsys, one, "1")
		want(t, fsys, one, "1")
		put(t, fsys, two, "2")
		if got := names(t, fsys, dir); got != "one two" {
			t.Fatalf("names %q", got)
		}
		must(t, fsys.Rename(one, two))
		want(t, fsys, two, "1")
		if _, err := fsys.Stat(one); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("stat of a renamed file: %v", err)
		}
		must(t, fsys.SyncDir(dir))
		info, err := fsys.Stat(two)
		must(t, err)
		if info.Size() != 1 || info.IsDir() || info.Name() != "two" {
			t.Fatalf("stat gives %v %d %v", info.Name(), info.Size(), info.IsDir())
		}
		must(t, fsys.Remove(two))
		must(t, fsys.Remove(dir))
	})
}

func TestHandles(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, root string) {
		must(t, fsys.MkdirAll(root))
		path := filepath.Join(root, "f")
		f, err := fsys.CreateExclusive(path, 0o600)
		must(t, err)
		_, err = f.WriteAt([]byte("cd"), 2)
		must(t, err)
		_, err = f.Write([]byte("ab"))
		must(t, err)
		tail := make([]byte, 8)
		if n, err := f.ReadAt(tail, 1); n != 3 || err != io.EOF || string(tail[:3]) != "bcd" {
			t.Fatalf("ReadAt gives %d %v %q", n, err, tail[:n])
		}
		must(t, f.Sync())
		must(t, f.Close())
		if _, err := f.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("write to a closed file: %v", err)
		}
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("second close: %v", err)
		}
		a, err := fsys.OpenAppend(path)
		must(t, err)
		_, err = a.Write([]byte("ef"))
		must(t, err)
		if _, err := a.WriteAt([]byte("x"), 0); err == nil {
			t.Fatal("WriteAt on an appending file succeeded")
		}
		must(t, a.Close())
		want(t, fsys, path, "abcdef")
	})
}

func TestRefusals(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, root string) {
		must(t, fsys.MkdirAll(filepath.Join(root, "dir", "full")))
		file, dir, gone := filepath.Join(root, "file"), filepath.Join(root, "dir"), filepath.Join(root, "gone")
		put(t, fsys, file, "x")
		createExclusive := func() error { _, err := fsys.CreateExclusive(file, 0o644); return err }
		open := func(path string) error { _, err := fsys.Open(path); return err }
		create := func(path string) error { _, err := fsys.Create(path, 0o644); return err }
		readDir := func(path string) error { _, err := fsys.ReadDir(path); return err }
		for name, c := range map[string]struct {
			err  error
			kind error // nil: any
		}{
			"exclusive of a taken name": {createExclusive(), fs.ErrExist},
			"open nothing":              {open(gone), fs.ErrNotExist},
			"open a folder":             {open(dir), nil},
			"create over a folder":      {create(dir), nil},
			"create in nothing":         {create(filepath.Join(gone, "x")), fs.ErrNotExist},
			"create below a file":       {create(filepath.Join(file, "x")), nil},
			"rename nothing":            {fsys.Rename(gone, file), fs.ErrNotExist},
			"rename file to folder":     {fsys.Rename(file, dir), nil},
			"rename folder to file":     {fsys.Rename(dir, file), nil},
			"remove nothing":            {fsys.Remove(gone), fs.ErrNotExist},
			"remove a full folder":      {fsys.Remove(dir), nil},
			"mkdir below a file":        {fsys.MkdirAll(filepath.Join(file, "x")), nil},
			"readdir of a file":         {readDir(file), nil},
			"sync of no folder":         {fsys.SyncDir(gone), fs.ErrNotExist},
		} {
			if c.err == nil || c.kind != nil && !errors.Is(c.err, c.kind) {
				t.Errorf("%s: error %v, want %v", name, c.err, c.kind)
			}
		}
		want(t, fsys, file, "x")
	})
}

func TestReadFileIsCapped(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, root string) {
		must(t, fsys.MkdirAll(root))
		path := filepath.Join(root, "f")
		put(t, fsys, path, "12345")
		if _, err := vfs.ReadFile(fsys, path, 4); !errors.Is(err, vfs.ErrTooLarge) {
			t.Fatalf("5 bytes read with a limit of 4: %v", err)
		}
		if got, err := vfs.ReadFile(fsys, path, 5); err != nil || string(got) != "12345" {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

func TestReadFullAt(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, root string) {
		must(t, fsys.MkdirAll(root))
		path := filepath.Join(root, "f")
		put(t, fsys, path, "12345")
		f, err := fsys.Open(path)
		must(t, err)
		defer f.Close()
		b := make([]byte, 3)
		if err := vfs.ReadFullAt(f, b, 2); err != nil || string(b) != "345" {
			t.Fatalf("the last bytes: %q, %v", b, err)
		}
		for _, offset := range []int64{3, 5} {
			if err := vfs.ReadFullAt(f, b, offset); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "ends at byte 5: it is truncated") {
				t.Errorf("from %d: %v", offset, err)
			}
		}
		if err := vfs.ReadFullAt(f, b, -1); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("from -1: %v", err)
		}
	})
}

func TestRemoveAll(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, root string) {
		must(t, fsys.MkdirAll(filepath.Join(root, "d", "e")))
		put(t, fsys, filepath.Join(root, "d", "e", "f"), "x")
		put(t, fsys, filepath.Join(root, "d", "g"), "x")
		put(t, fsys, filepath.Join(root, "keep"), "x")
		must(t, vfs.RemoveAll(fsys, filepath.Join(root, "d")))
		must(t, vfs.RemoveAll(fsys, filepath.Join(root, "never there")))
		if got := names(t, fsys, root); got != "keep" {
			t.Fatalf("left: %q", got)
		}
	})
}

// A lock is held until the file is closed, by one at a time, and its bytes stay.
func TestLock(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, root string) {
		must(t, fsys.MkdirAll(root))
		path := filepath.Join(root, "lock")
		first, err := fsys.Lock(path)
		must(t, err)
		_, err = first.WriteAt([]byte("1234"), 0)
		must(t, err)
		if _, err := fsys.Lock(path); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), path) {
			t.Fatalf("the second lock: %v", err)
		}
		if runtime.GOOS != "windows" { // where a locked file cannot be opened
			want(t, fsys, path, "1234")
		}
		must(t, first.Close())
		if err := first.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("second close: %v", err)
		}
		second, err := fsys.Lock(path)
		must(t, err)
		must(t, second.Close())
		want(t, fsys, path, "1234")
		if _, err := fsys.Lock(filepath.Join(root, "gone", "lock")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a lock in no folder: %v", err)
		}
		if _, err := fsys.Lock(root); err == nil || errors.Is(err, vfs.ErrLocked) {
			t.Fatalf("a folder as lock: %v", err)
		}
	})
}
