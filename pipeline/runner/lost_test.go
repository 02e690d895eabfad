package runner_test

import (
	"errors"
	"strings"
	"testing"

	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// A worker whose copy cannot be read is lost, and another one saves the state.
func TestAnotherWorkerSavesWhatOneHasLost(t *testing.T) {
	t.Parallel()
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
	r.mustComplete(t, fsys, said, want)
	if gone := said.gone(); len(gone) == 0 || !strings.Contains(gone[0].Reason, "was lost: writing the checkpoint of step 1: reading the worker's copy") || gone[0].Expelled {
		t.Errorf("gone: %+v", gone)
	}
}
