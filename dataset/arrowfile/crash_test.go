package arrowfile

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// writeFaulty writes the small dataset on a file system that may fail, and aborts as a caller would.
func writeFaulty(fsys vfs.FS) error {
	w, err := Create(fsys, dir, meta(300))
	if err != nil {
		return err
	}
	w.batchTokens, w.shardTokens = 16, 32
	for _, document := range counting(300, 10, 1, 30, 5) {
		if err := w.Document(document); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	_, err = w.Commit()
	return err
}

func isWhole(t *testing.T, fsys vfs.FS) bool {
	t.Helper()
	d, err := Open(fsys, dir)
	if err != nil {
		return false
	}
	if err := errors.Join(d.Verify(context.Background()), d.Close()); err != nil {
		t.Fatalf("a dataset exists, but %v", err)
	}
	return true
}

// Any one operation fails: the error is told, and nothing is left behind. The only exception is the
// last operation, after which the dataset is whole but perhaps not durable.
func TestWriterFailsCleanly(t *testing.T) {
	broken := errors.New("disk on fire")
	for k := 0; ; k++ {
		fsys := crashfs.New()
		if err := fsys.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		fsys.Inject(crashfs.FailAt(k, broken))
		err := writeFaulty(fsys)
		if !fsys.Fired() {
			if err != nil || k < 20 {
				t.Fatalf("after %d operations: %v", k, err)
			}
			return
		}
		fsys.Inject(nil)
		if !errors.Is(err, broken) && !(err == nil && isWhole(t, fsys.Crash())) { // the lock could not be removed
			t.Fatalf("operation %d failed, and the error is %v", k, err)
		}
		if left := besides(t, fsys, dir); left != "" && !(left == filepath.Base(dir) && isWhole(t, fsys)) {
			t.Fatalf("operation %d failed and left %s", k, left)
		}
	}
}

// The process dies at any operation: the next one writes the dataset, if it is not there, and leaves
// nothing of the first.
func TestNextWriterClearsUpAfterAKill(t *testing.T) {
	for k := 0; ; k++ {
		fsys := crashfs.New()
		fsys.Inject(crashfs.CrashAt(k))
		err := writeFaulty(fsys)
		left := fsys.Kill()
		if !isWhole(t, left) {
			if err := writeFaulty(left); err != nil {
				t.Fatalf("killed in operation %d: the next writer: %v", k, err)
			}
			if left = left.Crash(); !isWhole(t, left) {
				t.Fatalf("killed in operation %d: the next dataset is gone after a power cut", k)
			}
		}
		if names := besides(t, left, dir); names != filepath.Base(dir) {
			t.Fatalf("killed in operation %d: in the folder: %s", k, names)
		}
		if !fsys.Fired() {
			if err != nil || k < 20 {
				t.Fatalf("after %d operations: %v", k, err)
			}
			return
		}
	}
}

// The machine stops at any operation: afterwards there is no dataset or a whole one, whatever part
// of the unsynced changes reached the disk; and a whole one for certain once Commit has returned.
func TestDatasetExistsWholeOrNot(t *testing.T) {
	for k := 0; ; k++ {
		fsys := crashfs.New()
		fsys.Inject(crashfs.CrashAt(k))
		err := writeFaulty(fsys)
		done := err == nil
		for seed := range uint64(10) {
			if whole := isWhole(t, fsys.CrashRandom(seed)); done && !whole {
				t.Fatal("committed, but gone after a power cut")
			}
		}
		if whole := isWhole(t, fsys.Crash()); done && !whole {
			t.Fatal("committed, but gone after a power cut")
		}
		isWhole(t, fsys.Kill())
		if !fsys.Fired() {
			if !done {
				t.Fatal(err)
			}
			return
		}
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	fsys := crashfs.New()
	w := must[*Writer](t)(Create(fsys, dir, meta(300)))
	w.batchTokens = 16
	if err := w.Document(counting(300, 100)[0]); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Abort(), w.Abort()); err != nil {
		t.Fatal(err)
	}
	if left := besides(t, fsys, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
