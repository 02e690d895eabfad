package runner_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/wire"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// A whole run: what is on disk afterwards, what was said, and that nothing still runs.
func TestARunTrainsToItsLastStep(t *testing.T) {
	r := newRig(t, "steps=12", "checkpoint.every=11", "checkpoint.keep_last=2")
	fsys := crashfs.New()
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.mustComplete(t, fsys, said, bits(t, fsys))
	var steps, saved []int64
	for _, n := range said.notices {
		switch n := n.(type) {
		case pipeline.StepDone:
			steps = append(steps, n.Record.Step)
			if n.Again || n.Record.Seconds <= 0 || n.Record.TokensPerSecond != 16/n.Record.Seconds {
				t.Errorf("step %+v", n)
			}
		case pipeline.CheckpointSaved:
			saved = append(saved, n.Step)
		}
	}
	if !slices.Equal(steps, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) || !slices.Equal(saved, []int64{11, 12}) {
		t.Errorf("steps %v, checkpoints %v", steps, saved)
	}
	if joined, ok := said.notices[0].(pipeline.WorkerJoined); !ok || joined.Worker != "w" || joined.Device != "a test" {
		t.Errorf("the first notice is %+v", said.notices[0])
	}
	r.checkTokens(t, fsys)
	r.checkManifest(t, fsys)
	r.close(t)
	if stacks := goroutinesOf("andrea/pipeline/runner"); len(stacks) > 0 {
		t.Errorf("%d goroutines still run:\n%s", len(stacks), strings.Join(stacks, "\n\n"))
	}
}

// checkTokens compares the digests of the ids that the worker says it received with
// those of the windows that each lane should have had.
func (r *rig) checkTokens(t *testing.T, fsys vfs.FS) {
	t.Helper()
	j, err := runner.ReadJournal(fsys, journalPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, recorded := range j.Steps {
		for lane, got := range recorded.Intent.Leases[0].TokenDigests {
			var ids []uint32
			for microbatch := range r.plan.Sampler.MicrobatchesPerLane() {
				start, n := r.plan.Index.Span(r.window(t, uint64(recorded.Intent.Step), lane, microbatch))
				window := make([]uint32, n)
				if err := (stream{}).Read(window, start); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, window...)
			}
			if want := model.TokenDigestOf(0, ids); got != want || len(ids) != 2*5 {
				t.Errorf("step %d, lane %d: the tokens have digest %s, want %s", recorded.Intent.Step, lane, got, want)
			}
		}
	}
}

// checkManifest looks at the checkpoint before the last: 11 steps of 4 windows are one
// epoch, so it stands at the beginning of the next.
func (r *rig) checkManifest(t *testing.T, fsys vfs.FS) {
	t.Helper()
	f, err := dirstore.Open(fsys, checkpointsDir).OpenStep(11)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := f.Manifest()
	if m.Run != "tiny" || m.EngineClass != "plain-fp32-n1" || m.CreatedBy != "a test" || m.Tokenizer != "bytes" || m.Model != r.plan.Model || m.Job != string(r.plan.Spec.Marshal()) {
		t.Errorf("manifest %+v", m)
	}
	if want := (checkpoints.DataPosition{Position: 44, Epoch: 1, Fingerprint: "f"}); m.Data != want {
		t.Errorf("the data position is %+v, want %+v", m.Data, want)
	}
	if got := string(f.Tokenizer()); got != `{"kind":"bytes"}` {
		t.Errorf("tokenizer %s", got)
	}
}

// loseLeasesAfter makes a step the last one that is computed.
func loseLeasesAfter(step int64) func(string, []byte) bool {
	return func(_ string, data []byte) bool {
		c, err := wire.DecodeControl(data)
		lease, ok := c.Message.(pipeline.Lease)
		return err == nil && ok && lease.Step > step
	}
}

// stopAfter trains up to a step, stops and checks what is left.
func (r *rig) stopAfter(t *testing.T, fsys *crashfs.FS, step int64) {
	t.Helper()
	r.coordinator.control.set(func(b *bus) { b.publish = loseLeasesAfter(step) })
	defer r.coordinator.control.set(func(b *bus) { b.publish = nil })
	said, err := r.train(t, fsys, func(n pipeline.Notice, stop func(string)) {
		_, joined := n.(pipeline.WorkerJoined)
		if done, ok := n.(pipeline.StepDone); ok && done.Record.Step == step || joined && step == 0 {
			stop("SIGTERM")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := said.outcome; o.Err != nil || o.Complete || o.Stopped != "SIGTERM" || o.Step != step || o.Checkpoint != step {
		t.Fatalf("outcome %+v", o)
	}
	if early := (pipeline.ErrStopped{}); !errors.As(said.left, &early) || early.Reason != "SIGTERM" {
		t.Fatalf("the worker left with %v", said.left)
	}
}

// A stop after any step leaves a checkpoint, from which the run ends in the same bits.
func TestAStoppedRunIsResumedToTheSameBits(t *testing.T) {
	r := newRig(t, "steps=4", "checkpoint.every=100")
	want := r.reference(t)
	for step := range int64(4) {
		t.Run(fmt.Sprint("after step ", step), func(t *testing.T) {
			fsys := crashfs.New()
			r.stopAfter(t, fsys, step)
			said, err := r.train(t, fsys, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.mustComplete(t, fsys, said, want)
		})
	}
}

// A stop while the worker computes gives the step up, or finishes it when its answer
// was faster; either way the run goes on to the same bits.
func TestAStopInTheMiddleOfAStep(t *testing.T) {
	r := newRig(t)
	want := r.reference(t)
	fsys := crashfs.New()
	stop, asked := func(string) {}, 0
	r.worker.bulk.set(func(b *bus) {
		b.reply = func(subject string, data []byte) []byte {
			if asked++; asked == 7 { // step 1 has four microbatches and no evaluation
				stop("SIGTERM")
			}
			return data
		}
	})
	said, err := r.train(t, fsys, func(n pipeline.Notice, request func(string)) {
		if _, joined := n.(pipeline.WorkerJoined); joined {
			r.worker.bulk.set(func(*bus) { stop = request })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := said.outcome; o.Err != nil || o.Stopped != "SIGTERM" || o.Step < 1 || o.Step > 2 || o.Checkpoint != o.Step {
		t.Fatalf("outcome %+v", o)
	}
	if said, err = r.train(t, fsys, nil); err != nil {
		t.Fatal(err)
	}
	r.mustComplete(t, fsys, said, want)
}

// A model of two buckets, each of several chunks, on its way from the worker to the
// disk and back.
func TestAStateOfSeveralBuckets(t *testing.T) {
	r := newRig(t, append(shortJob, "model={d_model: 64, vocab: 9000}")...)
	if n := r.plan.Layout.Buckets(); n != 2 {
		t.Fatalf("the model has %d buckets", n)
	}
	want := r.reference(t)
	fsys := crashfs.New()
	r.stopAfter(t, fsys, 1)
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.mustComplete(t, fsys, said, want)
}

// Any number of workers gives the bits of one, also when there are more than lanes.
func TestSeveralWorkersGiveTheSameBits(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 2, 8} {
		r := newRig(t, fmt.Sprint("batch={tokens_per_step: 32, lanes: ", lanes, "}"))
		want := r.reference(t)
		for _, r.workers = range []int{2, 3, 5} {
			fsys := crashfs.New()
			said, err := r.train(t, fsys, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d lanes, %d workers", lanes, r.workers)
			r.mustComplete(t, fsys, said, want)
			r.mustShare(t, fsys, min(lanes, r.workers))
		}
	}
}

// mustShare checks that so many workers have computed the steps in fsys together.
func (r *rig) mustShare(t *testing.T, fsys vfs.FS, workers int) {
	t.Helper()
	j, err := runner.ReadJournal(fsys, journalPath)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range j.Steps {
		for _, l := range s.Intent.Leases {
			seen[l.Worker] = true
		}
	}
	if len(seen) < min(2, workers) || len(seen) > r.workers {
		t.Errorf("%d workers computed: %v", len(seen), seen)
	}
}

// Messages of another coordinator, to another life of the worker or to another worker,
// and bytes that are none, change nothing.
func TestStrayMessagesAreIgnored(t *testing.T) {
	r := newRig(t)
	want := r.reference(t)
	fsys := crashfs.New()
	said, err := r.train(t, fsys, func(n pipeline.Notice, _ func(string)) {
		if _, joined := n.(pipeline.WorkerJoined); !joined {
			return
		}
		life, finish, failed := r.workerOptions().Incarnation, pipeline.Finish{Reason: "stray"}, pipeline.Failed{Reason: "stray"}
		w, c := wire.ToWorker("tiny", "w"), wire.ToCoordinator("tiny", r.generation, "w")
		for _, stray := range []struct {
			from    *bus
			subject string
			message wire.Control
		}{
			{r.coordinator.control, w, wire.Control{Generation: r.generation - 1, Worker: "w", Incarnation: life, Message: finish}},
			{r.coordinator.control, w, wire.Control{Generation: r.generation, Worker: "w", Incarnation: "life-0", Message: finish}},
			{r.coordinator.control, w, wire.Control{Generation: r.generation, Worker: "v", Incarnation: life, Message: finish}},
			{r.worker.control, c, wire.Control{Generation: r.generation - 1, Worker: "w", Incarnation: life, Message: failed}},
			{r.worker.control, c, wire.Control{Generation: r.generation, Worker: "w", Incarnation: "life-0", Message: failed}},
			{r.worker.control, c, wire.Control{Generation: r.generation, Worker: "v", Incarnation: life, Message: failed}},
			{r.worker.control, wire.ToCoordinator("tiny", r.generation, "v"), wire.Control{Generation: r.generation, Worker: "w", Incarnation: life, Message: failed}},
			{r.worker.control, wire.Hello("tiny", "v"), wire.Control{Generation: r.generation, Worker: "w", Incarnation: life, Message: failed}},
		} {
			data, err := wire.EncodeControl(stray.message)
			if err == nil {
				err = stray.from.Publish(stray.subject, data)
			}
			if err == nil {
				err = stray.from.Publish(stray.subject, data[1:])
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.mustComplete(t, fsys, said, want)
}

// What is lost on disk is computed again and compared with the journal.
func TestRecomputedStepsAreNotRecordedAgain(t *testing.T) {
	r := newRig(t)
	want := r.reference(t)
	fsys := crashfs.New()
	if _, err := r.train(t, fsys, nil); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove(checkpointsDir + "/step-00000003/manifest.json"); err != nil {
		t.Fatal(err)
	}
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for _, n := range said.notices {
		if done, ok := n.(pipeline.StepDone); ok && done.Again {
			again++
		}
	}
	if again != 3 {
		t.Errorf("%d steps were computed again, want 3", again)
	}
	r.mustComplete(t, fsys, said, want)
}

// A bit that flips on the way, in tokens, in the state of a checkpoint or in the
// snapshot for the next, is noticed, and the data is asked for again.
func TestDamagedRepliesAreAskedForAgain(t *testing.T) {
	r := newRig(t, "checkpoint.every=2")
	want := r.reference(t)
	fsys := crashfs.New()
	r.stopAfter(t, fsys, 1)
	// Coordinator and worker ask in goroutines of their own.
	var mu sync.Mutex
	asked, flipped := map[string]int{}, map[string]bool{}
	flip := func(subject string, data []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if asked[subject]++; asked[subject] == 2 { // the first arrives whole, the second is damaged once
			flipped[subject] = true
			data[4+len(data)/2] ^= 0x10
		}
		return data
	}
	r.worker.bulk.set(func(b *bus) { b.reply = flip })
	r.coordinator.bulk.set(func(b *bus) { b.reply = flip })
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.mustComplete(t, fsys, said, want)
	for _, subject := range []string{wire.Tokens("tiny", r.generation, "w"), wire.State("tiny", r.generation, "w"), wire.WorkerState("tiny", "w")} {
		if !flipped[subject] {
			t.Errorf("nothing on %s was damaged", subject)
		}
	}
}

// Messages that are lost are repeated: the hello, the lease, the answer.
func TestLostMessagesAreRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := r.reference(t)
	var mu sync.Mutex // coordinator and worker send at the same time
	lost := map[string]bool{}
	// lose loses the first message of each wanted kind.
	lose := func(kinds ...string) func(string, []byte) bool {
		return func(_ string, data []byte) bool {
			c, err := wire.DecodeControl(data)
			if err != nil {
				t.Error(err)
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			kind := reflect.TypeOf(c.Message).Name()
			if lost[kind] || !slices.Contains(kinds, kind) {
				return false
			}
			lost[kind] = true
			return true
		}
	}
	r.worker.control.set(func(b *bus) { b.publish = lose("Hello") })
	r.coordinator.control.set(func(b *bus) { b.publish = lose("Commit") })
	fsys := crashfs.New()
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.mustComplete(t, fsys, said, want)
	if !lost["Hello"] || !lost["Commit"] {
		t.Errorf("lost: %v", lost)
	}
}

// A worker that cannot open its engine, or is of the wrong class, ends with the reason; the
// run waits for others.
func TestWorkersThatCannotTakePart(t *testing.T) {
	r := newRig(t, "engine=plain")
	said := r.play(t, crashfs.New(), func(n pipeline.Notice, stop func(string)) {
		switch n.(type) {
		case pipeline.WorkerRefused:
			r.start(t, "broken", r.worker, func(o *runner.WorkerOptions) {
				o.OpenEngine = func(model.Config, int, int) (model.Engine, error) { return nil, errors.New("no device") }
			})
		case pipeline.WorkerLeft:
			stop("nobody is left")
		}
	}, func() {
		r.start(t, "foreign", r.worker, func(o *runner.WorkerOptions) { o.Class = "cuda-fp32-n1" })
	})
	for _, want := range []string{"the coordinator refused: its engine class is cuda-fp32-n1: the job asks for plain", "no device"} {
		if said.left == nil || !strings.Contains(said.left.Error(), want) {
			t.Errorf("the workers left with %v, want %q", said.left, want)
		}
	}
	if o := said.outcome; o.Err != nil || o.Stopped != "nobody is left" || o.Checkpoint != -1 {
		t.Errorf("outcome %+v", o)
	}
	if n, ok := said.notices[0].(pipeline.WorkerRefused); !ok || n.Worker != "foreign" {
		t.Errorf("notices %+v", said.notices)
	}
	if gone := said.gone(); len(gone) != 1 || gone[0] != (pipeline.WorkerLeft{Worker: "broken", Reason: "failed: no device"}) {
		t.Errorf("gone: %+v", gone)
	}
}

// A worker whose context is done leaves at once, whether or not anybody answers it.
func TestAWorkerLeavesWhenItsContextIsDone(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.worker.control.set(func(b *bus) {
		b.publish = func(string, []byte) bool { cancel(); return false } // with its first hello
	})
	if err := runner.Work(ctx, r.workerOptions()); !errors.Is(err, context.Canceled) {
		t.Errorf("the worker left with %v", err)
	}
}
