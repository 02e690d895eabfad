package runner

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"andrea/enginetest"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// loopback is a bus on which requests reach the one who subscribed.
type loopback struct {
	transport.Bus
	handler func(transport.Message)
}

func (l *loopback) Subscribe(_ string, handler func(transport.Message)) (transport.Subscription, error) {
	l.handler = handler
	return nil, nil
}

func (l *loopback) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	answer := make(chan []byte, 1)
	l.handler(transport.NewMessage(subject, data, func(data []byte) error {
		answer <- slices.Clone(data)
		return nil
	}))
	select {
	case data := <-answer:
		return data, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// awaiting is a worker that may pull a root of step 1 while a coordinator sums it.
func awaiting(t *testing.T) (*worker, *root) {
	bus := &loopback{}
	w := &worker{
		WorkerOptions: WorkerOptions{Vectors: model.Plain{}, Log: zap.NewNop()},
		layout:        model.NewLayout(lentConfig), grads: newGrads(2), engine: enginetest.NewPlain(lentConfig, 1, 2), puller: puller{bus: bus},
	}
	w.job.Batch.Lanes = 2
	ctx, interrupt := context.WithCancel(t.Context())
	w.pulls.Store(&pulls{ctx: ctx, interrupt: interrupt})
	root := newRoot(w.layout, 2)
	if _, err := serveGrad(bus, "root", w.layout.Buckets(), root.await); err != nil {
		t.Fatal(err)
	}
	return w, root
}

// sum fills a bucket of a root.
func (r *root) sum(bucket int, with float32) {
	lo, hi := r.layout.Bucket(bucket)
	for i := lo; i < hi; i++ {
		r.grad[i] = with * float32(i)
	}
}

// sumAll fills a root and reveals it.
func (r *root) sumAll(with float32) {
	for bucket := r.layout.Buckets() - 1; bucket >= 0; bucket-- {
		r.sum(bucket, with)
		r.reveal(bucket)
	}
}

// inSlot reports that a bucket of a slot is the root's.
func (w *worker) inSlot(t *testing.T, slot, bucket int, r *root) bool {
	t.Helper()
	lo, hi := w.layout.Bucket(bucket)
	got := make([]float32, hi-lo)
	if err := w.engine.ReadGrad(slot, bucket, got); err != nil {
		t.Fatal(err)
	}
	return slices.Equal(got, r.grad[lo:hi])
}

// A worker gets each bucket of the root as soon as it is summed, and when the step is decided has it, if it is the
// committed one.
func TestTheRootTravelsWhileItIsSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := awaiting(t)
		defer r.drop()
		w.ahead = w.beginRoot(1, 1)
		synctest.Wait() // nothing is summed: it asks again
		r.begin(1)
		for bucket := w.layout.Buckets() - 1; bucket >= 0; bucket-- {
			r.sum(bucket, 1)
			time.Sleep(3 * gradPatience)
			if synctest.Wait(); w.inSlot(t, 1, bucket, r) {
				t.Errorf("bucket %d is there before it is summed", bucket)
			}
			if r.reveal(bucket); bucket == 0 {
				break // it comes when the step is decided
			}
			if synctest.Wait(); !w.inSlot(t, 1, bucket, r) {
				t.Errorf("bucket %d is summed and not there", bucket)
			}
		}
		want := model.DigestOf(model.Gradient, 0, r.grad)
		got, err := w.do(pipeline.PullRoot{Step: 1, Digest: want})
		if err != nil || got != (pipeline.RootPulled{Digest: want}) || w.rootSlot != 1 || w.ahead != nil {
			t.Errorf("%+v, %v, in slot %d", got, err, w.rootSlot)
		}
	})
}

// A root that was pulled ahead and is not the committed one does not count: the committed one is pulled.
func TestARootThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := awaiting(t)
		r.begin(1)
		r.sumAll(1)
		w.ahead = w.beginRoot(1, 1)
		<-w.ahead.done
		r.drop()
		r.begin(1)
		r.sumAll(2)
		want := model.DigestOf(model.Gradient, 0, r.grad)
		got, err := w.do(pipeline.PullRoot{Step: 1, Digest: want})
		if err != nil || got != (pipeline.RootPulled{Digest: want}) || w.rootSlot != 0 || !w.inSlot(t, 0, 0, r) {
			t.Errorf("%+v, %v, in slot %d", got, err, w.rootSlot)
		}
	})
}

// Whatever else the worker has to do ends what it pulls ahead, and so does the end of its membership.
func TestNothingIsPulledAheadOfOtherWork(t *testing.T) {
	for name, end := range map[string]func(w *worker) error{
		"another effect": func(w *worker) error {
			_, err := w.do(pipeline.Zero{Slot: 1})
			return err
		},
		"a decided step whose root is not there": func(w *worker) error {
			if _, err := w.do(pipeline.PullRoot{Step: 1}); !transferFailed(err) {
				return err
			}
			return nil
		},
		"the membership": func(w *worker) error {
			w.pulls.Load().interrupt()
			<-w.ahead.done
			w.stopAhead()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := awaiting(t)
				defer r.drop()
				r.begin(1)
				r.reveal(w.layout.Buckets() - 1)
				w.ahead = w.beginRoot(1, 1)
				synctest.Wait()
				if err := end(w); err != nil || w.ahead != nil {
					t.Errorf("it goes on: %v", err)
				}
				if err := w.engine.Zero(1); err != nil { // with the race detector: nobody writes there
					t.Error(err)
				}
			})
		})
	}
}

// The root of a step that was begun anew is refused to who asks for another one's.
func TestOnlyTheRootThatIsSummedIsWaitedFor(t *testing.T) {
	_, r := awaiting(t)
	r.begin(2)
	for _, request := range []wire.GradRequest{{Step: 1, Hi: 2}, {Step: 3, Hi: 2}, {Step: 2, Hi: 1}, {Step: 2, Lo: 1, Hi: 2}} {
		if later, err := r.read(request, func([]float32) error { return nil }); later != nil || err == nil {
			t.Errorf("%+v: %v", request, err)
		}
	}
}

// A root that was pulled ahead and not applied, since the membership ended then, is not taken for the next one.
func TestARootThatIsNotApplied(t *testing.T) {
	w, r := awaiting(t)
	defer r.drop()
	r.begin(1)
	r.sumAll(1)
	w.ahead = w.beginRoot(1, 1)
	if _, err := w.do(pipeline.PullRoot{Step: 1, Digest: model.DigestOf(model.Gradient, 0, r.grad)}); err != nil || w.rootSlot != 1 {
		t.Fatalf("%v, in slot %d", err, w.rootSlot)
	}
	alone := enginetest.NewPlain(lentConfig, 1, 2)
	for _, slot := range []int{0, 1} { // the worker computes it all anew, in slot 0
		if _, err := w.do(pipeline.Zero{Slot: slot}); err != nil {
			t.Fatal(err)
		}
	}
	for bucket := range w.layout.Buckets() {
		lo, hi := w.layout.Bucket(bucket)
		for _, engine := range []model.Engine{w.engine, alone} {
			if err := engine.WriteGrad(0, bucket, r.grad[lo:hi]); err != nil {
				t.Fatal(err)
			}
		}
	}
	hyper := model.Hyper{LR: 0.01, OneMinusBeta1: 1, OneMinusBeta2: 1, Correction1: 1, Correction2: 1, Eps: 1e-8}
	want, err := alone.Update(0, 1, hyper)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.do(pipeline.Update{Step: 1, Scale: 1, Hyper: hyper}); err != nil || got != (pipeline.Updated{Digest: want}) {
		t.Errorf("%+v, %v: want %s", got, err, want)
	}
}

// A contribution to an earlier step, or an earlier round, is not served from the slot that a root is pulled into.
func TestARootIsNotServedAsAContribution(t *testing.T) {
	w, r := awaiting(t)
	r.begin(1)
	r.sumAll(1)
	earlier := wire.GradRequest{Step: 1, Lo: 1, Hi: 2}
	w.grads.set(1, earlier)
	w.ahead = w.beginRoot(1, 1)
	<-w.ahead.done
	if _, _, later := w.grads.find(earlier); later == nil {
		t.Error("it is still there")
	}
}
