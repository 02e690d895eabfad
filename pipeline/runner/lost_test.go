package runner_test

import (
	"errors"
	"strings"
	"testing"

	"andrea/pipeline"
	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// A worker whose copy cannot be read ends the run, but not before another one has saved the
// state; from there it goes on to the same bits.
func TestAnotherWorkerSavesWhatOneHasLost(t *testing.T) {
	r := newRig(t, "checkpoint.every=1")
	want := r.reference(t)
	r.workers = 2
	lost := "" // the subject of whoever is asked first; workers join in any order
	r.coordinator.bulk.set(func(b *bus) {
		b.reply = func(subject string, data []byte) []byte {
			copied := subject == wire.WorkerState("tiny", "w") || subject == wire.WorkerState("tiny", "x")
			if lost == "" && copied {
				lost = subject
			}
			if subject == lost {
				return wire.EncodeRefusal(errors.New("the copy is gone"))
			}
			return data
		}
	})
	fsys := crashfs.New()
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := said.outcome; o.Err == nil || !strings.Contains(o.Err.Error(), "was lost: writing the checkpoint of step 1: reading the worker's copy") || o.Step < 1 || o.Checkpoint != o.Step {
		t.Fatalf("outcome %+v", o)
	}
	if early := (pipeline.ErrStopped{}); !errors.As(said.left, &early) {
		t.Errorf("the workers left with %v", said.left)
	}
	r.coordinator.bulk.set(func(b *bus) { b.reply = nil })
	if said, err = r.train(t, fsys, nil); err != nil {
		t.Fatal(err)
	}
	r.mustComplete(t, fsys, said, want)
}
