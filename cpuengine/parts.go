package cpuengine

import "time"

// Parts is where the time of an engine went since New, in wall-clock time of its
// caller.
type Parts struct {
	MatMul       time.Duration // the GEMMs, lm_head and the activation included
	Attention    time.Duration // attention, its GEMMs on tiles included
	Pointwise    time.Duration // embedding and norms
	CrossEntropy time.Duration // softmax of the logits and loss
	Optimizer    time.Duration // AdamW with the state's digest, and folding
}

// Total is the sum of the parts.
func (p Parts) Total() time.Duration {
	return p.MatMul + p.Attention + p.Pointwise + p.CrossEntropy + p.Optimizer
}

// stopwatch gives the time between two marks to a part.
type stopwatch struct {
	parts Parts
	last  time.Time
}

func (s *stopwatch) start() { s.last = time.Now() }

// mark adds the time since the last start or mark to part.
func (s *stopwatch) mark(part *time.Duration) {
	now := time.Now()
	*part += now.Sub(s.last)
	s.last = now
}

// Parts returns where the time went so far. Like every method it belongs to the
// engine's one caller.
func (e *Engine) Parts() Parts { return e.watch.parts }
