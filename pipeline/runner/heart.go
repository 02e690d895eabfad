package runner

import (
	"context"
	"errors"
	"time"

	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// How many signs of life in a row may stay without an answer before a worker looks for
// its coordinator elsewhere.
const (
	maxUnheard = 20 // answers that did not come in time: the coordinator may be busy
	maxNobody  = 3  // nobody listens, or the connection is cut
)

// heart sends a worker's signs of life under one membership, whatever its engine is busy
// with. The coordinator answers each, so the worker knows that the coordinator lives, too.
type heart struct {
	membership pipeline.Membership
	cancel     context.CancelFunc
	gone       chan struct{}
}

// newHeart starts it. It calls unheard, once, when the coordinator answers no
// more; its context ends with the heart.
func newHeart(w *worker, membership pipeline.Membership, unheard func(context.Context, error)) *heart {
	ctx, cancel := context.WithCancel(w.ctx)
	h := &heart{membership: membership, cancel: cancel, gone: make(chan struct{})}
	go func() {
		defer close(h.gone)
		if err := w.beatUntil(ctx, membership); err != nil {
			unheard(ctx, err)
		}
	}()
	return h
}

// beatUntil sends signs of life until ctx is done, which is no error, or too many in a row
// were not answered: then it returns the newest reason.
func (w *worker) beatUntil(ctx context.Context, membership pipeline.Membership) error {
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for unheard, nobody := 0, 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := w.beatOnce(ctx, membership)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			unheard, nobody = 0, 0
			continue
		case errors.Is(err, transport.ErrNoResponders) || errors.Is(err, transport.ErrDisconnected):
			nobody++
		}
		if unheard++; unheard == maxUnheard || nobody == maxNobody {
			return err
		}
	}
}

// beatOnce waits for the answer no longer than until the next sign of life is due.
func (w *worker) beatOnce(ctx context.Context, membership pipeline.Membership) error {
	beat, err := wire.EncodeControl(w.control(membership, pipeline.Heartbeat{Progress: w.progress.Load()}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tickInterval)
	defer cancel()
	_, err = w.Control.Request(ctx, wire.ToCoordinator(w.Run, membership.Generation, w.ID), beat)
	return err
}

// stop ends it and waits for the end.
func (h *heart) stop() {
	h.cancel()
	<-h.gone
}
