package runner

import (
	"time"

	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// heart sends a worker's signs of life, whatever its engine is busy with.
type heart struct {
	done chan struct{}
	gone chan struct{}
}

// newHeart starts it for a worker that was welcomed.
func newHeart(w *worker) *heart {
	h := &heart{done: make(chan struct{}), gone: make(chan struct{})}
	subject := wire.ToCoordinator(w.Run, w.generation.Load())
	beat, err := wire.EncodeControl(wire.Control{Generation: w.generation.Load(), Worker: w.ID, Incarnation: w.Incarnation, Message: pipeline.Heartbeat{}})
	if err != nil {
		panic("runner: a heartbeat has no content that could fail: " + err.Error())
	}
	go h.run(w.Control, subject, beat)
	return h
}

func (h *heart) run(bus transport.Bus, subject string, beat []byte) {
	defer close(h.gone)
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-ticker.C:
			_ = bus.Publish(subject, beat) // the next one follows
		}
	}
}

// stop ends it and waits for the end.
func (h *heart) stop() {
	close(h.done)
	<-h.gone
}
