package runner

import (
	"fmt"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/wire"
)

// serveGrads lets the coordinator pull the contribution of this worker's lease. A
// request waits while the engine computes.
func (w *worker) serveGrads() (err error) {
	bucket := make([]float32, model.BucketSize)
	w.grads, err = serveState(w.Bulk, wire.WorkerGrad(w.Run, w.ID), w.layout.Buckets(), func(step int64, i int) (state, error) {
		w.engineMu.Lock()
		defer w.engineMu.Unlock()
		if w.engine == nil || step != w.graded {
			return state{}, fmt.Errorf("there is no contribution to step %d here: the newest is to step %d", step, w.graded)
		}
		lo, hi := w.layout.Bucket(i)
		return state{bucket[:hi-lo]}, w.engine.ReadGrad(0, i, bucket[:hi-lo])
	})
	return err
}

// pullRoot replaces slot 0 by the root and returns its digest.
func (w *worker) pullRoot(e pipeline.PullRoot) (pipeline.WorkerEvent, error) {
	w.graded = 0
	subject := wire.Root(w.Run, w.generation.Load(), w.ID)
	grad := make([]float32, model.BucketSize)
	var digest model.Digest
	for i := range w.layout.Buckets() {
		lo, hi := w.layout.Bucket(i)
		g := grad[:hi-lo]
		if err := pullPart(w.pulls, w.Bulk, subject, e.Step, i, 0, g); err != nil {
			return nil, fmt.Errorf("pulling the root of step %d: %w", e.Step, err)
		}
		if err := w.engine.WriteGrad(0, i, g); err != nil {
			return nil, err
		}
		digest = digest.Add(model.DigestOf(model.Gradient, lo, g))
	}
	return pipeline.RootPulled{Digest: digest}, nil
}
