package arrowfile

import (
	"context"
	"errors"
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
		if !errors.Is(err, broken) {
			t.Fatalf("operation %d failed, and the error is %v", k, err)
		}
		entries, err := fsys.ReadDir("/data")
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > 0 && !(len(entries) == 1 && isWhole(t, fsys)) {
			t.Fatalf("operation %d failed and left %s", k, entries[0].Name())
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
	if entries, err := fsys.ReadDir("/data"); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
