package bench

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"andrea/cpuengine"
	"andrea/model"
)

// Training is whole steps of one microbatch: forward, backward, clip and update.
type Training struct {
	Variant     string
	Windows     int     // of the microbatch
	Tokens      int     // of a step
	FLOPs       float64 // useful ones of a step, by model.Config.FLOPsPerToken
	EngineBytes int64   // what the engine allocates
	PeakBytes   int64   // most memory of the process so far; 0: this system does not say
	Parts       []Part
	Timing
}

// Part is where time goes in a step.
type Part struct {
	Name    string
	Seconds float64 // mean of a step
}

// stepHyper is a step's update; the values decide no time.
var stepHyper = model.Hyper{
	LR: 1e-4, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05,
	Correction1: 0.1, Correction2: 0.05, Eps: 1e-8, Decay: 0.1,
}

// weightSpan is the width of the range that weights are drawn from, whose standard deviation is
// that of most initial weights. Those themselves would take longer to draw than to train.
const weightSpan = 0.07

// open returns an engine with drawn weights, and a batch for it. It gives back the memory of
// the engine before, so that the peak is this one's.
func open(m *meter, c model.Config, windows int) (*cpuengine.Engine, model.Batch, error) {
	debug.FreeOSMemory()
	e, err := cpuengine.New(c, cpuengine.Options{Microbatch: windows, Slots: 1, Threads: m.bench.Threads(), Path: m.bench.Path()})
	if err != nil {
		return nil, model.Batch{}, err
	}
	b, err := draw(e, c, windows)
	if err != nil {
		return nil, model.Batch{}, errors.Join(err, e.Close())
	}
	return e, b, nil
}

// draw gives an engine weights, the same every time, and returns a batch for it.
func draw(e model.Engine, c model.Config, windows int) (model.Batch, error) {
	r := rand.New(rand.NewPCG(1, 2))
	layout := model.NewLayout(c)
	w, zero := make([]float32, model.BucketSize), make([]float32, model.BucketSize)
	for i := range layout.Buckets() {
		lo, hi := layout.Bucket(i)
		for k := range w {
			w[k] = weightSpan * (r.Float32() - 0.5)
		}
		if err := e.Load(i, w[:hi-lo], zero[:hi-lo], zero[:hi-lo]); err != nil {
			return model.Batch{}, err
		}
	}
	b := model.Batch{Windows: windows, T: c.Context, Tokens: make([]uint32, windows*(c.Context+1))}
	for i := range b.Tokens {
		b.Tokens[i] = uint32(r.IntN(c.Vocab))
	}
	return b, nil
}

// trainer makes steps of one microbatch, always the same.
type trainer struct {
	engine *cpuengine.Engine
	batch  model.Batch
	sums   []float64     // of squares, by bucket
	clip   time.Duration // spent on sums of squares so far, which the engine does not count
}

// train times steps of a variant.
func train(m *meter, s subject, windows int) (Training, error) {
	e, batch, err := open(m, s.config, windows)
	if err != nil {
		return Training{}, err
	}
	defer e.Close()
	t := &trainer{engine: e, batch: batch, sums: make([]float64, model.NewLayout(s.config).Buckets())}
	steps, before := 0, []Part(nil)
	timing, err := m.time(s.budget, func() error {
		if steps++; steps == 2 { // the first one only touches the memory
			before = t.parts()
		}
		return t.step()
	})
	if err != nil {
		return Training{}, fmt.Errorf("training %s for a moment: %w", s.config.Variant, err)
	}
	tokens := windows * batch.T
	return Training{
		Variant: s.config.Variant, Windows: windows, Tokens: tokens,
		FLOPs:       float64(tokens) * float64(s.config.FLOPsPerToken()),
		EngineBytes: e.Info().Bytes, PeakBytes: peakBytes(),
		Parts: between(before, t.parts(), steps-1), Timing: timing,
	}, nil
}

// step is one optimizer update as a run of one lane makes it.
func (t *trainer) step() error {
	if err := t.engine.Zero(0); err != nil {
		return err
	}
	loss, err := t.engine.Accumulate(0, t.batch)
	if err != nil {
		return err
	}
	start := time.Now()
	scale, err := clip(t.engine, t.sums, loss.Tokens)
	if err != nil {
		return err
	}
	t.clip += time.Since(start)
	_, err = t.engine.Update(0, scale, stepHyper)
	return err
}

// clip returns what the gradient in slot 0, summed over so many tokens, is multiplied by: the mean's norm is clipped
// at 1. Sums has an element for every bucket.
func clip(e model.Engine, sums []float64, tokens int64) (float32, error) {
	if err := e.SumSquares(0, sums); err != nil {
		return 0, err
	}
	squares := 0.0
	for _, s := range sums {
		squares += s
	}
	n := float64(tokens)
	return float32(min(1, n/math.Sqrt(squares)) / n), nil
}

// parts is where the time went so far.
func (t *trainer) parts() []Part {
	p := t.engine.Parts()
	return []Part{
		{"matmul", p.MatMul.Seconds()},
		{"attention", p.Attention.Seconds()},
		{"pointwise", p.Pointwise.Seconds()},
		{"cross_entropy", p.CrossEntropy.Seconds()},
		{"clip", t.clip.Seconds()},
		{"optimizer", p.Optimizer.Seconds()},
	}
}

// between is the mean of so many steps between two readings of the parts.
func between(before, after []Part, steps int) []Part {
	mean := make([]Part, len(after))
	for i := range mean {
		mean[i] = Part{after[i].Name, (after[i].Seconds - before[i].Seconds) / float64(steps)}
	}
	return mean
}
