package runner_test

import (
	"sync"
	"testing"
	"time"

	"andrea/enginetest"
	"andrea/model"
	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// stepwise is an engine that hands out the last bucket of a gradient and goes on only when
// somebody has pulled it.
type stepwise struct {
	model.Engine
	buckets int
	pulled  func() <-chan struct{} // closed when a bucket has been pulled
	late    func()
}

func (s stepwise) AccumulateLast(slot, folds int, b model.Batch, final func(bucket int)) (model.Loss, error) {
	loss, err := s.Accumulate(slot, b)
	for i := 0; i < folds && err == nil; i++ {
		err = s.Fold(slot-i-1, slot-i)
	}
	if err != nil {
		return loss, err
	}
	pulled := s.pulled()
	final(s.buckets - 1)
	select {
	case <-pulled:
	case <-time.After(20 * time.Second): // a bound, not a measure
		s.late()
	}
	for bucket := s.buckets - 2; bucket >= 0; bucket-- {
		final(bucket)
	}
	return loss, nil
}

// While the engines still compute, the coordinator pulls what is final.
func TestGradientsTravelWhileTheEngineComputes(t *testing.T) {
	r := newRig(t, "steps=2", "eval.every=0", "batch={tokens_per_step: 8, lanes: 2}", "model={d_model: 64, vocab: 9000}")
	if r.plan.Layout.Buckets() < 2 {
		t.Fatal("the gradient has a single bucket")
	}
	want := r.reference(t)
	r.workers = 2
	var mu sync.Mutex
	waiting := []chan struct{}{}
	r.coordinator.bulk.set(func(b *bus) {
		b.reply = func(subject string, data []byte) []byte {
			if _, err := wire.DecodeReply(data); err == nil && (subject == wire.WorkerGrad("tiny", "w") || subject == wire.WorkerGrad("tiny", "x")) {
				mu.Lock()
				defer mu.Unlock()
				for _, w := range waiting {
					close(w)
				}
				waiting = nil
			}
			return data
		}
	})
	r.engine = func(c model.Config, microbatch, slots int) (model.Engine, error) {
		return stepwise{
			Engine: enginetest.NewPlain(c, microbatch, slots), buckets: r.plan.Layout.Buckets(),
			late: func() { t.Error("nobody pulled a final bucket while the engine computed") },
			pulled: func() <-chan struct{} {
				mu.Lock()
				defer mu.Unlock()
				w := make(chan struct{})
				waiting = append(waiting, w)
				return w
			},
		}, nil
	}
	fsys := crashfs.New()
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.mustComplete(t, fsys, said, want)
}
