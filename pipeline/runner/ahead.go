package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/wire"
)

// rootPull is a root on its way into a slot of the engine, the last bucket first. One that is begun before the step is
// decided takes each bucket when the coordinator has summed it. Nobody relies on that: the digest of what arrived is
// compared with the committed one, and if it is another, all is pulled again.
type rootPull struct {
	step    int64
	slot    int
	decided chan struct{} // closed when the whole root is there to be pulled
	cancel  context.CancelFunc
	done    chan struct{} // closed when the results are there
	digest  model.Digest
	err     error
}

// pullAhead begins to pull the root of a step that the worker has computed its part of, and ends what it has begun for
// nothing.
func (w *worker) pullAhead() {
	step, slot, waits := w.machine.AwaitsRoot()
	if a := w.ahead; a != nil && (!waits || a.step != step || a.slot != slot) {
		w.stopAhead()
	}
	if waits && w.ahead == nil {
		w.ahead = w.beginRoot(step, slot)
	}
}

// stopAhead returns when nothing is pulled ahead any more.
func (w *worker) stopAhead() {
	if w.ahead != nil {
		w.ahead.cancel()
		<-w.ahead.done
		w.ahead = nil
	}
}

// beginRoot begins to pull a root into a slot, which holds no contribution any more.
func (w *worker) beginRoot(step int64, slot int) *rootPull {
	w.grads.set(slot, wire.GradRequest{})
	p := w.pulls.Load()
	ctx, cancel := context.WithCancel(p.ctx)
	r := &rootPull{step: step, slot: slot, decided: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer cancel()
		r.err = w.fillSlot(ctx, r, wire.Root(w.Run, p.membership.Generation, w.ID))
	}()
	return r
}

// fillSlot writes one bucket into the engine while the next one comes.
func (w *worker) fillSlot(ctx context.Context, r *rootPull, subject string) error {
	fetch := func(bucket int) <-chan error {
		arrived := make(chan error, 1)
		lo, hi := w.layout.Bucket(bucket)
		if room := &w.roots[bucket%2]; *room == nil {
			*room = make([]float32, largestBucket(w.layout))
		}
		dst := w.roots[bucket%2][:hi-lo]
		go func() { arrived <- w.pullSummed(ctx, r, subject, bucket, dst) }()
		return arrived
	}
	next := fetch(w.layout.Buckets() - 1)
	for bucket := w.layout.Buckets() - 1; bucket >= 0; bucket-- {
		if err := <-next; err != nil {
			return transferError{err}
		}
		if bucket > 0 {
			next = fetch(bucket - 1)
		}
		lo, hi := w.layout.Bucket(bucket)
		if err := w.takeBucket(r, bucket, lo, w.roots[bucket%2][:hi-lo]); err != nil {
			r.cancel()
			if bucket > 0 {
				<-next // it writes into memory that is used again
			}
			return err
		}
		w.progress.Add(1)
	}
	return nil
}

// takeBucket writes a bucket into the engine and measures it.
func (w *worker) takeBucket(r *rootPull, bucket, lo int, grad []float32) error {
	r.digest = r.digest.Add(w.Vectors.DigestOf(model.Gradient, lo, grad))
	w.engineMu.Lock()
	defer w.engineMu.Unlock()
	return w.engine.WriteGrad(r.slot, bucket, grad)
}

// pullSummed pulls a bucket of the root, and asks until it is summed. When the step is decided it is, or the root is
// another one.
func (w *worker) pullSummed(ctx context.Context, r *rootPull, subject string, bucket int, dst []float32) error {
	for {
		began, last := time.Now(), false
		select {
		case <-r.decided:
			last = true
		default:
		}
		err := w.puller.pullGrad(ctx, subject, r.step, 0, w.job.Batch.Lanes, bucket, dst)
		var refusal wire.Refusal
		if err == nil || last || !errors.As(err, &refusal) {
			return err
		}
		pause := time.NewTimer(max(0, pullStep-time.Since(began))) // after a long wait ask again at once
		select {
		case <-pause.C:
		case <-r.decided:
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() != nil {
			return err
		}
	}
}

// pullRoot returns the digest of the root, in the slot that the next update takes.
func (w *worker) pullRoot(e pipeline.PullRoot) (pipeline.WorkerEvent, error) {
	if r := w.ahead; r != nil && r.step == e.Step {
		w.ahead = nil
		close(r.decided)
		<-r.done
		if r.err == nil && r.digest == e.Digest {
			w.rootSlot = r.slot
			return pipeline.RootPulled{Digest: r.digest}, nil
		}
		w.Log.Info("the root that was pulled ahead is not the committed one: pulling it again", zap.Int64("step", e.Step), zap.Error(r.err))
	}
	w.stopAhead()
	r := w.beginRoot(e.Step, 0)
	close(r.decided)
	<-r.done
	if r.err != nil {
		return nil, fmt.Errorf("pulling the root of step %d: %w", e.Step, r.err)
	}
	w.rootSlot = 0
	return pipeline.RootPulled{Digest: r.digest}, nil
}
