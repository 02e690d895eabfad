package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"andrea/dataset/arrowfile"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// do executes one effect.
func (w *worker) do(effect pipeline.WorkerEffect) (pipeline.WorkerEvent, error) {
	if e, pull := effect.(pipeline.PullRoot); pull {
		return w.pullRoot(e)
	}
	w.stopAhead() // the slot may be needed
	if _, update := effect.(pipeline.Update); !update {
		w.rootSlot = 0 // a root that was pulled is applied next, or never
	}
	switch e := effect.(type) {
	case pipeline.Accumulate:
		return w.accumulate(e)
	case pipeline.Conclude:
		return w.conclude(e)
	case pipeline.EvalWindow:
		return w.evaluate(e)
	case pipeline.LoadBucket:
		return w.loadBucket(e)
	}
	w.engineMu.Lock()
	defer w.engineMu.Unlock()
	switch e := effect.(type) {
	case pipeline.OpenEngine:
		return w.open(e)
	case pipeline.Zero:
		w.grads.set(e.Slot, wire.GradRequest{})
		return nil, w.engine.Zero(e.Slot)
	case pipeline.Fold:
		return nil, w.engine.Fold(e.Dst, e.Src)
	case pipeline.Update:
		return w.update(e)
	case pipeline.Keep:
		return w.keepState(e)
	case pipeline.TakeSnapshot:
		digest, err := w.snapshot.take(e.Step, w.layout, w.engine, w.Vectors)
		return pipeline.SnapshotCopied{Digest: digest}, err
	}
	return nil, fmt.Errorf("executing %T: this worker cannot", effect)
}

// transferError is a failure to get at what another process has, whatever it says.
type transferError struct{ error }

func (e transferError) Unwrap() error { return e.error }

// transferFailed reports that an effect failed because of another process or the network.
func transferFailed(err error) bool {
	var transfer transferError
	if errors.As(err, &transfer) {
		return true
	}
	for _, of := range []error{transport.ErrNoResponders, transport.ErrTimeout, transport.ErrDisconnected, context.Canceled, context.DeadlineExceeded, wire.ErrDamaged} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// fetch pulls windows and returns them as one batch.
func (w *worker) fetch(r wire.TokensRequest, windows int) (model.Batch, error) {
	p := w.pulls.Load()
	length := w.config.Context
	var rows [][]uint32
	err := w.puller.pull(p.ctx, wire.Tokens(w.Run, p.membership.Generation, w.ID), wire.EncodeRequest(r), func(payload []byte) (err error) {
		rows, err = arrowfile.DecodeWindows(payload, windows, length+1, w.config.Vocab)
		return err
	})
	if err != nil {
		return model.Batch{}, err
	}
	batch := model.Batch{Windows: windows, T: length}
	for _, row := range rows {
		batch.Tokens = append(batch.Tokens, row...)
	}
	return batch, nil
}

func (w *worker) accumulate(e pipeline.Accumulate) (pipeline.WorkerEvent, error) {
	began := time.Now()
	batch, err := w.fetchMicrobatch(e)
	if err != nil {
		return nil, err
	}
	w.engineMu.Lock()
	defer w.engineMu.Unlock()
	loss, err := w.engine.Accumulate(e.Slot, batch)
	return accumulated(e, loss, batch, began), err
}

// fetchMicrobatch pulls a microbatch.
func (w *worker) fetchMicrobatch(e pipeline.Accumulate) (model.Batch, error) {
	return w.fetch(wire.TokensRequest{Step: e.Step, Lane: e.Lane, Microbatch: e.Microbatch}, w.job.Batch.Microbatch)
}

// accumulated is the result of a microbatch.
func accumulated(e pipeline.Accumulate, loss model.Loss, b model.Batch, began time.Time) pipeline.Accumulated {
	digest := model.TokenDigestOf(e.Microbatch*len(b.Tokens), b.Tokens)
	return pipeline.Accumulated{Loss: loss, TokenDigest: digest, Seconds: time.Since(began).Seconds()}
}

func (w *worker) evaluate(e pipeline.EvalWindow) (pipeline.WorkerEvent, error) {
	batch, err := w.fetch(wire.TokensRequest{Validation: true, Microbatch: e.Window}, 1)
	if err != nil {
		return nil, err
	}
	w.engineMu.Lock()
	defer w.engineMu.Unlock()
	loss, err := w.engine.Eval(batch)
	if err != nil || !e.Last {
		return pipeline.WindowEvaluated{Loss: loss}, err
	}
	digest, err := w.stateDigest()
	return pipeline.WindowEvaluated{Loss: loss, StateDigest: digest}, err
}

// stateDigest measures the state in the engine.
func (w *worker) stateDigest() (digest model.Digest, err error) {
	for i := range w.layout.Buckets() {
		d, err := w.engine.StateDigest(i)
		if err != nil {
			return digest, err
		}
		digest = digest.Add(d)
	}
	return digest, nil
}

// update applies the root; until it is done nobody may read the state.
func (w *worker) update(e pipeline.Update) (pipeline.WorkerEvent, error) {
	w.held = -1
	slot := w.rootSlot
	w.rootSlot = 0 // where a lone worker has summed it
	digest, err := w.engine.Update(slot, e.Scale, e.Hyper)
	if err == nil {
		w.held = e.Step
	}
	return pipeline.Updated{Digest: digest}, err
}

// keepState gives the state the number of a step that was skipped.
func (w *worker) keepState(e pipeline.Keep) (pipeline.WorkerEvent, error) {
	digest, err := w.stateDigest()
	if err == nil {
		w.held = e.Step
	}
	return pipeline.Updated{Digest: digest}, err
}
