package runner_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"andrea/checkpoints/dirstore"
	"andrea/pipeline"
	"andrea/pipeline/wire"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

var errLater = errors.New("a later coordinator")

// doomed ends a coordinator that it is given to as the check for a later one.
type doomed struct{ dead atomic.Bool }

func (d *doomed) superseded() error {
	if d.dead.Load() {
		return errLater
	}
	return nil
}

// firstLife runs workers and a coordinator that ends without a word: when it has confirmed the
// step last, or when all have applied it and it does not know that yet.
func (r *rig) firstLife(t *testing.T, fsys *crashfs.FS, l *ledger, workers int, last int64, confirmed bool) {
	t.Helper()
	f, err := open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	f.start.Workers = workers
	var d doomed
	applied := map[pipeline.WorkerID]bool{}
	r.coordinator.control.set(func(b *bus) {
		b.incoming = func(_ string, data []byte) bool {
			c, err := wire.DecodeControl(data)
			if m, ok := c.Message.(pipeline.Applied); err != nil || confirmed || !ok || m.Step != last {
				return false
			}
			if applied[c.Worker] = true; len(applied) == workers {
				b.cut = true // its lock is held
				d.dead.Store(true)
			}
			return true
		}
	})
	said := r.coordinate(t, f, r.coordinator, func(n pipeline.Notice, _ func(string)) {
		if done, ok := n.(pipeline.StepDone); ok && confirmed && done.Record.Step == last {
			r.coordinator.set(func(b *bus) { b.cut = true })
			d.dead.Store(true)
		}
	}, func() {
		for i := range workers {
			r.watch(t, l, "wxy"[i:i+1], pace, nil)
		}
	}, d.superseded)
	if !errors.Is(said.outcome.Err, errLater) {
		t.Fatalf("the first coordinator ended with %+v", said.outcome)
	}
	r.coordinator.set(func(b *bus) { b.cut, b.incoming = false, nil })
}

// A coordinator that is killed and started again on the same disk goes on from the state that
// its workers hold, however old the checkpoint: also when a step was applied and has no record
// yet, which then gets its validation loss, and when the power cut has taken the record.
func TestACoordinatorIsKilledAndStartedAgain(t *testing.T) {
	disks := map[string]func(*crashfs.FS) *crashfs.FS{"killed": (*crashfs.FS).Kill, "power cut": (*crashfs.FS).Crash}
	for name, survive := range disks {
		for _, confirmed := range []bool{true, false} {
			for _, last := range []int64{1, 4} {
				t.Run(fmt.Sprintf("%s, step %d, confirmed %v", name, last, confirmed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						killedAndStartedAgain(t, newQuietRig(t, longJob...), survive, last, confirmed)
					})
				})
			}
		}
	}
}

// The same on a server, where it is only certain that the bits are the same.
func TestACoordinatorIsKilledAndStartedAgainOnAServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, longJob...)
	want := r.reference(t)
	before := crashfs.New()
	r.firstLife(t, before, &ledger{}, 2, 4, false)
	after := before.Crash()
	r.mustComplete(t, after, r.play(t, after, nil, func() {}), want)
}

// A coordinator whose disk is full ends, and the one after it goes on from the state that its workers hold, not from the
// checkpoint: whether a record could not be written or an intent.
func TestAFullDiskCostsNoState(t *testing.T) {
	for operation := range 4 {
		t.Run(fmt.Sprintf("operation %d after step 4", operation), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fullDisk(t, newQuietRig(t, longJob...), operation) })
		})
	}
}

func fullDisk(t *testing.T, r *rig, operation int) {
	const workers, last = 2, 4
	want := r.reference(t)
	fsys, full := crashfs.New(), errors.New("no space left on device")
	f, err := open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	f.start.Workers = workers
	var l ledger
	said := r.coordinate(t, f, r.coordinator, func(n pipeline.Notice, _ func(string)) {
		if done, ok := n.(pipeline.StepDone); ok && done.Record.Step == last {
			fsys.Inject(crashfs.FailAt(operation, full))
		}
	}, func() {
		for i := range workers {
			r.watch(t, &l, "wxy"[i:i+1], pace, nil)
		}
	}, nil)
	if !errors.Is(said.outcome.Err, full) {
		t.Fatalf("the first coordinator ended with %+v", said.outcome)
	}
	fsys.Inject(nil)
	said = r.play(t, fsys, nil, func() {})
	r.mustComplete(t, fsys, said, want)
	if chosen, ok := said.notices[0].(pipeline.StateChosen); !ok || chosen.Step < last || chosen.Holders != workers {
		t.Errorf("it went on from %+v", said.notices[0])
	}
	if l.loaded != workers {
		t.Errorf("%d buckets were loaded, one is the state before training", l.loaded)
	}
}

func killedAndStartedAgain(t *testing.T, r *rig, survive func(*crashfs.FS) *crashfs.FS, last int64, confirmed bool) {
	const workers = 2
	want := r.reference(t)
	var l ledger
	before := crashfs.New()
	r.firstLife(t, before, &l, workers, last, confirmed)
	after := survive(before)
	said := r.play(t, after, nil, func() {})
	r.mustComplete(t, after, said, want)
	if chosen, ok := said.notices[0].(pipeline.StateChosen); !ok || chosen != (pipeline.StateChosen{Step: last, Holders: workers}) {
		t.Errorf("it went on from %+v", said.notices[0])
	}
	recorded := map[int64]bool{}
	for _, n := range said.notices {
		if done, ok := n.(pipeline.StepDone); ok {
			recorded[done.Record.Step] = true
			if done.Again {
				t.Errorf("step %d was computed again", done.Record.Step)
			}
		}
	}
	if !confirmed && !recorded[last] {
		t.Errorf("step %d got no record", last)
	}
	if l.loaded != workers {
		t.Errorf("%d buckets were loaded, one is the state before training", l.loaded)
	}
	for request, n := range l.windows {
		if n > 2 || n > 1 && request.Step != last+1 {
			t.Errorf("%+v was asked for %d times", request, n)
		}
	}
}

// secondOn opens the run for another coordinator and returns how to run it.
func (r *rig) secondOn(t *testing.T, fsys vfs.FS) (run func() told) {
	f, err := open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	s := r.connect(t, "coordinator")
	return func() told { return r.coordinate(t, f, s, nil, func() {}, nil) }
}

// journalBytes is the journal as it lies on disk.
func journalBytes(t *testing.T, fsys vfs.FS) []byte {
	t.Helper()
	data, err := vfs.ReadFile(fsys, journalPath, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A coordinator that another one has replaced ends at once, and sends the workers to it.
func TestALaterCoordinatorTakesTheRunOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, longJob...)
		want := r.reference(t)
		var l ledger
		fsys := crashfs.New()
		f, err := open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		var d doomed
		var second told
		ended := make(chan struct{})
		first := r.coordinate(t, f, r.coordinator, func(n pipeline.Notice, _ func(string)) {
			if done, ok := n.(pipeline.StepDone); ok && done.Record.Step == 2 {
				run := r.secondOn(t, fsys)
				d.dead.Store(true)
				go func() {
					defer close(ended)
					second = run()
				}()
			}
		}, func() {
			r.watch(t, &l, "w", pace, nil)
			r.watch(t, &l, "x", pace, nil)
		}, d.superseded)
		<-ended
		second.left = r.sendOff(t, second.outcome)
		r.mustComplete(t, fsys, second, want)
		if !errors.Is(first.outcome.Err, errLater) || first.outcome.Step != 2 {
			t.Errorf("the first one ended with %+v", first.outcome)
		}
		if l.loaded != 2 {
			t.Errorf("%d buckets were loaded, one for each worker is the state before training", l.loaded)
		}
	})
}

// A coordinator that stood still while another one did all its work wakes up, ends and changes
// nothing.
func TestAPausedCoordinatorWakesUpTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, longJob...)
		want := r.reference(t)
		var l ledger
		fsys := crashfs.New()
		f, err := open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		var d doomed
		var second told
		var journal []byte
		first := r.coordinate(t, f, r.coordinator, func(n pipeline.Notice, _ func(string)) {
			if done, ok := n.(pipeline.StepDone); !ok || done.Record.Step != 2 {
				return
			}
			r.coordinator.set(func(b *bus) { b.cut = true })
			second = r.secondOn(t, fsys)()
			journal = journalBytes(t, fsys)
			d.dead.Store(true)
			r.coordinator.set(func(b *bus) { b.cut = false })
		}, func() {
			r.watch(t, &l, "w", pace, nil)
			r.watch(t, &l, "x", pace, nil)
		}, d.superseded)
		second.left = r.sendOff(t, second.outcome)
		r.mustComplete(t, fsys, second, want)
		if !errors.Is(first.outcome.Err, errLater) || first.outcome.Step != 2 {
			t.Errorf("the first one ended with %+v", first.outcome)
		}
		if !bytes.Equal(journalBytes(t, fsys), journal) {
			t.Error("the first one has changed the journal")
		}
	})
}

// A checkpoint that is under way when another coordinator takes over is not put among its.
func TestAPausedCoordinatorWritesNoCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, "steps=8", "checkpoint.every=2")
		fsys := crashfs.New()
		f, err := open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		var d doomed
		r.coordinator.bulk.set(func(b *bus) {
			b.asked = func(subject string, _ []byte) {
				if subject == wire.WorkerState("tiny", "w") {
					d.dead.Store(true)
				}
			}
		})
		first := r.coordinate(t, f, r.coordinator, nil, func() { r.start(t, "w", r.worker, nil) }, d.superseded)
		r.sendOff(t, first.outcome)
		if !errors.Is(first.outcome.Err, errLater) || first.outcome.Checkpoint != -1 {
			t.Errorf("it ended with %+v", first.outcome)
		}
		if steps, err := dirstore.Open(fsys, checkpointsDir).List(); err != nil || len(steps) > 0 {
			t.Errorf("checkpoints %v, %v", steps, err)
		}
		if strings.Contains(first.outcome.Err.Error(), "writing the checkpoint") {
			t.Errorf("it says %v", first.outcome.Err)
		}
	})
}
