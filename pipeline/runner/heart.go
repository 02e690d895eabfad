package runner

import (
	"context"
	"fmt"
	"time"

	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// maxUnheard is how many signs of life in a row may stay without an answer before a worker
// leaves: 20 s of them. By then its coordinator has given it up, or is no more.
const maxUnheard = 40

// heart sends a worker's signs of life, whatever its engine is busy with. The coordinator
// answers each, so the worker knows that the coordinator lives, too.
type heart struct {
	cancel context.CancelFunc
	gone   chan struct{}
}

// newHeart starts it for a worker that was welcomed. It calls leave, once, when the
// coordinator answers no more.
func newHeart(w *worker, leave func(error)) *heart {
	generation := w.generation.Load()
	beat, err := wire.EncodeControl(wire.Control{Generation: generation, Worker: w.ID, Incarnation: w.Incarnation, Message: pipeline.Heartbeat{}})
	if err != nil {
		panic("runner: a heartbeat has no content that could fail: " + err.Error())
	}
	ctx, cancel := context.WithCancel(w.ctx)
	h := &heart{cancel: cancel, gone: make(chan struct{})}
	go func() {
		defer close(h.gone)
		if err := beatUntil(ctx, w.Control, wire.ToCoordinator(w.Run, generation, w.ID), beat); err != nil {
			leave(fmt.Errorf("working for run %s: its coordinator has answered no sign of life for %v: %w: "+
				"it has ended, was started again or cannot be reached: start this worker again when there is one",
				w.Run, maxUnheard*tickInterval, err))
		}
	}()
	return h
}

// beatUntil sends signs of life until ctx is done, which is no error, or too many in a row
// were not answered: then it returns the newest reason.
func beatUntil(ctx context.Context, bus transport.Bus, subject string, beat []byte) error {
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for unheard := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := beatOnce(ctx, bus, subject, beat)
		if ctx.Err() != nil {
			return nil
		}
		if unheard++; err == nil {
			unheard = 0
		}
		if unheard == maxUnheard {
			return err
		}
	}
}

// beatOnce waits for the answer no longer than until the next sign of life is due.
func beatOnce(ctx context.Context, bus transport.Bus, subject string, beat []byte) error {
	ctx, cancel := context.WithTimeout(ctx, tickInterval)
	defer cancel()
	_, err := bus.Request(ctx, subject, beat)
	return err
}

// stop ends it and waits for the end.
func (h *heart) stop() {
	h.cancel()
	<-h.gone
}
