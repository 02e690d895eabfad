package runner_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// ledger counts what the workers of a rig ask for and load.
type ledger struct {
	mu      sync.Mutex
	windows map[wire.TokensRequest]int // of training, by microbatch
	asked   map[string]int             // by subject
	loaded  int                        // buckets
}

// loading counts what is loaded into an engine.
type loading struct {
	model.Engine
	ledger *ledger
}

func (l loading) Load(bucket int, w, m, v []float32) error {
	l.ledger.mu.Lock()
	l.ledger.loaded++
	l.ledger.mu.Unlock()
	return l.Engine.Load(bucket, w, m, v)
}

// watch starts a worker with connections of its own whose requests are counted. Each microbatch
// takes pace of the bubble's time. before, unless nil, is called before each.
func (r *rig) watch(t *testing.T, l *ledger, id string, pace time.Duration, before func(wire.TokensRequest)) *hand {
	s := r.connect(t, "worker")
	s.bulk.set(func(b *bus) {
		b.asked = func(subject string, data []byte) {
			l.mu.Lock()
			if l.asked == nil {
				l.asked, l.windows = map[string]int{}, map[wire.TokensRequest]int{}
			}
			l.asked[subject]++
			request, err := wire.DecodeRequest[wire.TokensRequest](data)
			tokens := err == nil && !request.Validation // any other request has other fields
			if tokens {
				l.windows[request]++
			}
			l.mu.Unlock()
			if !tokens {
				return
			}
			if before != nil {
				before(request)
			}
			time.Sleep(pace)
		}
	})
	return r.start(t, id, s, func(o *runner.WorkerOptions) {
		plain := o.OpenEngine
		o.OpenEngine = func(c model.Config, microbatch, slots int) (model.Engine, error) {
			e, err := plain(c, microbatch, slots)
			return loading{e, l}, err
		}
	})
}

// mustAsk checks that every microbatch of the steps was computed once, and those of the steps
// that repeat names at most as often as it says.
func (l *ledger) mustAsk(t *testing.T, r *rig, repeat map[int64]int) {
	t.Helper()
	spec := r.plan.Spec
	for step := int64(1); step <= spec.Steps; step++ {
		for lane := range spec.Batch.Lanes {
			for microbatch := range r.plan.Sampler.MicrobatchesPerLane() {
				n := l.windows[wire.TokensRequest{Step: step, Lane: lane, Microbatch: microbatch}]
				if n < 1 || n > max(1, repeat[step]) {
					t.Errorf("microbatch %d of lane %d of step %d was asked for %d times", microbatch, lane, step, n)
				}
			}
		}
	}
}

// A worker that comes while others train pulls their state, bucket by bucket, from members.
func TestAWorkerJoinsInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newRig(t, "steps=3", "eval.every=0", "checkpoint.every=100", "batch={tokens_per_step: 4, lanes: 1}", "model={d_model: 64, vocab: 9000}")
	want := r.reference(t)
	joined := make(chan struct{})
	var w, x ledger
	fsys := crashfs.New()
	said := r.play(t, fsys, func(n pipeline.Notice, _ func(string)) {
		switch n := n.(type) {
		case pipeline.StepDone:
			if n.Record.Step == 1 {
				r.watch(t, &x, "x", 0, nil)
			}
		case pipeline.WorkerJoined:
			if n.Worker == "x" {
				close(joined)
			}
		}
	}, func() {
		r.watch(t, &w, "w", 0, func(request wire.TokensRequest) {
			if request.Step == 3 {
				<-joined
			}
		})
	})
	r.mustComplete(t, fsys, said, want)
	if n := x.asked[wire.PeerState("tiny", "x", "w")]; n < 2*wire.Parts {
		t.Errorf("x asked the member for %d chunks of two buckets", n)
	}
	if n := x.asked[wire.State("tiny", r.generation, "x")]; n != 0 || x.loaded != 2 {
		t.Errorf("x asked the coordinator for %d chunks and loaded %d buckets", n, x.loaded)
	}
}

const pace = 200 * time.Millisecond

// longJob is one in which something can happen between its steps.
var longJob = []string{"steps=8", "eval.every=4", "checkpoint.every=100"}

// A worker that is cut off for a while is lost, comes back and takes part again.
func TestAWorkerIsCutOffForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, longJob...)
		want := r.reference(t)
		var l ledger
		var x *hand
		back := false
		fsys := crashfs.New()
		f, err := open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		f.start.Workers = 2
		said := r.conduct(t, f, func(n pipeline.Notice, _ func(string)) {
			switch n := n.(type) {
			case pipeline.StepDone:
				if n.Record.Step == 2 {
					x.set(func(b *bus) { b.cut = true })
				}
			case pipeline.WorkerLeft:
				x.set(func(b *bus) { b.cut = false })
			case pipeline.WorkerJoined:
				back = n.Worker == "x" && n.Step >= 2
			}
		}, func() {
			r.watch(t, &l, "w", pace, nil)
			x = r.watch(t, &l, "x", pace, nil)
		})
		r.mustComplete(t, fsys, said, want)
		if gone := said.gone(); len(gone) != 1 || gone[0].Worker != "x" || gone[0].Expelled || !back {
			t.Errorf("gone: %+v, it came back: %v", gone, back)
		}
		l.mustAsk(t, r, map[int64]int{3: 2, 4: 2})
	})
}

// All workers are cut off: when they are back they go on from the state that they hold. Nothing
// is loaded, and no step but the one in flight is computed again.
func TestAllWorkersAreCutOffForAWhile(t *testing.T) {
	for workers := 1; workers <= 3; workers++ {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newQuietRig(t, longJob...)
				l, gone, chosen := allCutOff(t, r, workers, pace, time.Minute)
				if len(chosen) != 1 || chosen[0] != (pipeline.StateChosen{Step: 2, Holders: workers}) || gone != workers {
					t.Errorf("it went on %+v after %d had gone", chosen, gone)
				}
				if l.loaded != workers {
					t.Errorf("%d buckets were loaded, one is the state before training", l.loaded)
				}
				l.mustAsk(t, r, map[int64]int{3: 2})
			})
		})
	}
	t.Run("from a server", func(t *testing.T) { // where it is only certain that the bits are the same
		t.Parallel()
		_, gone, chosen := allCutOff(t, newRig(t, longJob...), 2, 0, 0)
		if len(chosen) < 1 || gone < 2 {
			t.Errorf("it went on %+v after %d had gone", chosen, gone)
		}
	})
}

// allCutOff trains with workers that are all cut off after step 2, and come back a while after the
// coordinator has given them up. It returns how many were, and what the run went on from then.
func allCutOff(t *testing.T, r *rig, workers int, pace, away time.Duration) (l *ledger, gone int, chosen []pipeline.StateChosen) {
	t.Helper()
	want := r.reference(t)
	l = &ledger{}
	cut := func(cut bool) {
		for _, h := range r.hands {
			h.set(func(b *bus) { b.cut = cut })
		}
	}
	fsys := crashfs.New()
	f, err := open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	f.start.Workers = workers
	said := r.conduct(t, f, func(n pipeline.Notice, _ func(string)) {
		switch n := n.(type) {
		case pipeline.StepDone:
			if n.Record.Step == 2 {
				cut(true)
			}
		case pipeline.WorkerLeft:
			if gone++; gone == workers {
				time.AfterFunc(away, func() { cut(false) })
			}
		}
	}, func() {
		for i := range workers {
			r.watch(t, l, "wxy"[i:i+1], pace, nil)
		}
	})
	r.mustComplete(t, fsys, said, want)
	for _, n := range said.notices {
		if c, ok := n.(pipeline.StateChosen); ok {
			chosen = append(chosen, c)
		}
	}
	return l, gone, chosen
}

// A worker that is asked to go in the middle of a lease finishes it, so that nothing is computed
// again.
func TestAWorkerLeavesInTheMiddleOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, longJob...)
		want := r.reference(t)
		var l ledger
		fsys := crashfs.New()
		f, err := open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		f.start.Workers = 2
		said := r.conduct(t, f, nil, func() {
			var x *hand
			r.watch(t, &l, "w", pace, nil)
			x = r.watch(t, &l, "x", pace, func(request wire.TokensRequest) {
				if request.Step == 3 {
					x.leave()
				}
			})
		})
		if left := (pipeline.ErrLeft{}); !errors.As(said.left, &left) {
			t.Errorf("x left with %v", said.left)
		}
		said.left = nil
		r.mustComplete(t, fsys, said, want)
		if gone := said.gone(); len(gone) != 1 || gone[0] != (pipeline.WorkerLeft{Worker: "x", Reason: "left"}) {
			t.Errorf("gone: %+v", gone)
		}
		l.mustAsk(t, r, nil)
	})
}

// The last worker goes when the state is on disk, and the next one begins there.
func TestTheLastWorkerLeavesACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, longJob...)
		want := r.reference(t)
		var w, y ledger
		saved := int64(-1)
		fsys := crashfs.New()
		said := r.play(t, fsys, func(n pipeline.Notice, _ func(string)) {
			switch n := n.(type) {
			case pipeline.CheckpointSaved:
				saved = n.Step
			case pipeline.WorkerLeft:
				if n.Worker != "w" || n.Reason != "left" || saved != 3 {
					t.Errorf("%+v after a checkpoint of step %d", n, saved)
				}
				r.watch(t, &y, "y", pace, nil)
			}
		}, func() {
			var h *hand
			h = r.watch(t, &w, "w", pace, func(request wire.TokensRequest) {
				if request.Step == 3 {
					h.leave()
				}
			})
		})
		if left := (pipeline.ErrLeft{}); !errors.As(said.left, &left) {
			t.Errorf("w left with %v", said.left)
		}
		said.left = nil
		r.mustComplete(t, fsys, said, want)
		if y.asked[wire.State("tiny", r.generation, "y")] != wire.Parts || len(w.windows)+len(y.windows) != 8*4 {
			t.Errorf("y asked %v", y.asked)
		}
		for request, n := range y.windows {
			if n != 1 || w.windows[request] != 0 {
				t.Errorf("%+v was computed again", request)
			}
		}
	})
}

// Two processes that want to be one worker: the first takes part and the second waits, and says so, until
// the first has gone.
func TestTwoProcessesAreOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, longJob...)
		want := r.reference(t)
		var first ledger
		var asked atomic.Int64 // of the second, for data: several goroutines pull
		var one *hand
		log, said := observer.New(zap.InfoLevel)
		fsys := crashfs.New()
		told := r.play(t, fsys, func(n pipeline.Notice, _ func(string)) {
			if done, ok := n.(pipeline.StepDone); ok && done.Record.Step == 6 {
				one.leave()
			}
		}, func() {
			one = r.watch(t, &first, "w", 2*time.Second, func(request wire.TokensRequest) {
				if request.Step == 2 && len(r.hands) == 1 {
					two := r.connect(t, "worker")
					two.bulk.set(func(b *bus) { b.asked = func(string, []byte) { asked.Add(1) } })
					r.start(t, "w", two, func(o *runner.WorkerOptions) { o.Incarnation, o.Log = "another", zap.New(log) })
				}
			})
		})
		if left := (pipeline.ErrLeft{}); !errors.As(told.left, &left) {
			t.Errorf("the first left with %v", told.left)
		}
		told.left = nil
		r.mustComplete(t, fsys, told, want)
		if gone := told.gone(); len(gone) != 1 || gone[0].Reason != "left" || asked.Load() == 0 {
			t.Errorf("gone: %+v; the second asked for data %d times", gone, asked.Load())
		}
		refused := 0
		for _, n := range told.notices {
			if w, ok := n.(pipeline.WorkerRefused); ok && strings.Contains(w.Reason, "another process takes part as worker w") {
				refused++
			}
		}
		if waits := said.FilterMessage("waiting to take part").Len(); refused != 1 || waits != 1 {
			t.Errorf("the coordinator said %d times that there are two, and the second %d times that it waits", refused, waits)
		}
	})
}
