package runner_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// hanging is an engine that does not come back from a microbatch of its second step until it is
// let go. Its worker goes on giving signs of life.
type hanging struct {
	model.Engine
	updates int
	let     <-chan struct{}
}

func (h *hanging) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if h.updates > 0 {
		<-h.let
	}
	return h.Engine.Accumulate(slot, b)
}

func (h *hanging) Update(slot int, scale float32, hyper model.Hyper) (model.Digest, error) {
	h.updates++
	return h.Engine.Update(slot, scale, hyper)
}

// hang starts a worker with such an engine.
func (r *rig) hang(t *testing.T, id string, let <-chan struct{}) {
	s := r.connect(t, "worker")
	s.bulk.set(func(b *bus) { b.asked = func(string, []byte) { time.Sleep(pace) } })
	r.start(t, id, s, func(o *runner.WorkerOptions) {
		plain := o.OpenEngine
		o.OpenEngine = func(c model.Config, microbatch, slots int) (model.Engine, error) {
			e, err := plain(c, microbatch, slots)
			return &hanging{Engine: e, let: let}, err
		}
	})
}

// A worker whose engine hangs is helped out by another one at once and given up later, though it
// gives signs of life.
func TestAHangingWorkerIsHelpedOutAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, longJob...)
		want := r.reference(t)
		done := make(chan struct{})
		fsys := crashfs.New()
		f, err := open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		f.start.Workers = 2
		var l ledger
		said := r.conduct(t, f, func(n pipeline.Notice, _ func(string)) {
			if saved, ok := n.(pipeline.CheckpointSaved); ok && saved.Step == 8 {
				close(done)
			}
		}, func() {
			r.watch(t, &l, "w", pace, nil)
			r.hang(t, "x", done)
		})
		r.mustComplete(t, fsys, said, want)
		if gone := said.gone(); len(gone) != 1 || gone[0] != (pipeline.WorkerLeft{Worker: "x", Reason: "was lost: it lives and gets nothing done"}) {
			t.Errorf("gone: %+v", gone)
		}
		if n := l.windows[wire.TokensRequest{Step: 2}] + l.windows[wire.TokensRequest{Step: 2, Lane: 1}]; n != 2 {
			t.Errorf("w computed %d of both lanes of step 2", n)
		}
	})
}

// A worker that is alone and hangs is given up, and the next one goes on from the checkpoint.
func TestAHangingWorkerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, "steps=4", "checkpoint.every=1")
		want := r.reference(t)
		done := make(chan struct{})
		var l ledger
		fsys := crashfs.New()
		said := r.play(t, fsys, func(n pipeline.Notice, _ func(string)) {
			switch n := n.(type) {
			case pipeline.WorkerLeft:
				r.watch(t, &l, "y", pace, nil)
			case pipeline.CheckpointSaved:
				if n.Step == 4 {
					close(done)
				}
			}
		}, func() { r.hang(t, "x", done) })
		r.mustComplete(t, fsys, said, want)
		if gone := said.gone(); len(gone) != 1 || gone[0].Worker != "x" || !strings.Contains(gone[0].Reason, "it lives and gets nothing done") {
			t.Errorf("gone: %+v", gone)
		}
		for request := range l.windows {
			if request.Step < 2 {
				t.Errorf("%+v was computed again", request)
			}
		}
	})
}

// A fault that follows the job, whoever computes it, ends the run.
func TestAFaultThatFollowsTheJobEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t)
		broken := func(id string) {
			r.start(t, id, r.connect(t, "worker"), func(o *runner.WorkerOptions) {
				plain := o.OpenEngine
				o.OpenEngine = func(c model.Config, microbatch, slots int) (model.Engine, error) {
					e, err := plain(c, microbatch, slots)
					return failing{e}, err
				}
			})
		}
		names := "abcdefghij"
		said := r.play(t, crashfs.New(), func(n pipeline.Notice, _ func(string)) {
			if _, left := n.(pipeline.WorkerLeft); left {
				names = names[1:]
				broken(names[:1])
			}
		}, func() { broken(names[:1]) })
		if o := said.outcome; o.Err == nil || !strings.Contains(o.Err.Error(), "8 workers failed in step 1, the last one, h: the device is full") {
			t.Errorf("outcome %+v", o)
		}
		if len(said.gone()) != 8 {
			t.Errorf("gone: %+v", said.gone())
		}
	})
}

// failing is an engine that computes nothing.
type failing struct{ model.Engine }

func (failing) Accumulate(int, model.Batch) (model.Loss, error) {
	return model.Loss{}, errors.New("the device is full")
}
