package runner

import (
	"fmt"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/wire"
)

// serveGrads lets the coordinator pull the contributions of this worker's leases. A
// request waits while the engine computes.
func (w *worker) serveGrads() error {
	var kept wire.GradRequest // whose bucket is in buffer
	buffer := make([]float32, largestBucket(w.layout))
	served, err := serveGrad(w.Bulk, wire.WorkerGrad(w.Run, w.ID), w.layout.Buckets(), func(r wire.GradRequest) ([]float32, error) {
		w.engineMu.Lock()
		defer w.engineMu.Unlock()
		slot, err := w.slotOf(r)
		if err != nil {
			return nil, err
		}
		lo, hi := w.layout.Bucket(r.Bucket)
		r.Offset = 0
		if kept == r {
			return buffer[:hi-lo], nil
		}
		kept = wire.GradRequest{}
		if err := w.engine.ReadGrad(slot, r.Bucket, buffer[:hi-lo]); err != nil {
			return nil, err
		}
		kept = r
		return buffer[:hi-lo], nil
	})
	return w.keep(served, err)
}

// slotOf is where the contribution lies.
func (w *worker) slotOf(r wire.GradRequest) (int, error) {
	for slot, held := range w.slots {
		if w.engine != nil && held.Step == r.Step && held.Lo == r.Lo && held.Hi == r.Hi && r.Step != 0 {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("there is no contribution of lanes [%d, %d) to step %d here", r.Lo, r.Hi, r.Step)
}

// pullRoot replaces slot 0 by the root and returns its digest.
func (w *worker) pullRoot(e pipeline.PullRoot) (pipeline.WorkerEvent, error) {
	w.slots[0] = wire.GradRequest{}
	p := w.pulls.Load()
	subject := wire.Root(w.Run, p.membership.Generation, w.ID)
	grad := make([]float32, largestBucket(w.layout))
	var digest model.Digest
	for i := range w.layout.Buckets() {
		lo, hi := w.layout.Bucket(i)
		g := grad[:hi-lo]
		if err := pullGrad(p.ctx, w.Bulk, subject, e.Step, 0, w.job.Batch.Lanes, i, g); err != nil {
			return nil, transferError{fmt.Errorf("pulling the root of step %d: %w", e.Step, err)}
		}
		if err := w.engine.WriteGrad(0, i, g); err != nil {
			return nil, err
		}
		digest = digest.Add(w.Vectors.DigestOf(model.Gradient, lo, g))
		w.progress.Add(1)
	}
	return pipeline.RootPulled{Digest: digest}, nil
}
