package cpuengine

import (
	"fmt"
	"math/bits"
	"sync"
	"testing"
	"time"

	"andrea/cpuengine/internal/kernel"
	"andrea/enginetest"
	"andrea/model"
)

// peakMeter measures the fused multiply-adds a second that all threads reach
// together, between registers only.
type peakMeter struct {
	path    *kernel.Path
	threads int
	flops   int64
	time    time.Duration
}

// measure runs for some 20 ms, right after each part of a step: other work on the
// machine then slows both.
func (p *peakMeter) measure() {
	const iterations = 1 << 18
	flops, start := make([]int64, p.threads), time.Now()
	var group sync.WaitGroup
	for i := range p.threads {
		group.Go(func() { flops[i] = p.path.PeakFMA(iterations) })
	}
	group.Wait()
	p.time += time.Since(start)
	for _, f := range flops {
		p.flops += f
	}
}

func (p *peakMeter) rate() float64 { return float64(p.flops) / p.time.Seconds() }

// benchmarkStep runs whole steps of a variant: eight lanes of one microbatch, the
// tree of folds and the update.
func benchmarkStep(b *testing.B, variant, path string, microbatch int) {
	c, err := model.Variant(variant)
	if err != nil {
		b.Fatal(err)
	}
	const lanes = 8
	e := open(b, c, Options{Microbatch: microbatch, Slots: model.Slots(lanes), Path: path})
	batch := enginetest.DrawBatch(c, microbatch, c.Context, 1)
	tokens := lanes * microbatch * c.Context
	accumulateLane(b, e, 0, batch) // touches all memory
	limit, before, steps := peakMeter{path: e.path, threads: e.options.Threads}, e.Parts(), time.Duration(0)
	timed := func(work func()) {
		start := time.Now()
		work()
		steps += time.Since(start)
		b.StopTimer()
		limit.measure()
		b.StartTimer()
	}
	for b.Loop() {
		for lane := range lanes {
			timed(func() { accumulateLane(b, e, lane, batch) })
		}
		timed(func() {
			if _, err := e.Update(0, 1/float32(tokens), hyper); err != nil {
				b.Fatal(err)
			}
		})
	}
	report(b, e, before, float64(tokens)*float64(b.N)/steps.Seconds(), limit.rate())
}

// accumulateLane computes one lane and folds every subtree that it completes, as a
// worker does: the slots are a stack of the complete ones.
func accumulateLane(b *testing.B, e *Engine, lane int, batch model.Batch) {
	slot := bits.OnesCount(uint(lane))
	if err := e.Zero(slot); err != nil {
		b.Fatal(err)
	}
	if _, err := e.Accumulate(slot, batch); err != nil {
		b.Fatal(err)
	}
	for n := lane; n&1 == 1; n >>= 1 {
		if err := e.Fold(slot-1, slot); err != nil {
			b.Fatal(err)
		}
		slot--
	}
}

// report gives the speed in tokens a second, beside the peak, and the time per part.
func report(b *testing.B, e *Engine, before Parts, tokens, peak float64) {
	rate := tokens * float64(e.config.FLOPsPerToken())
	b.ReportMetric(tokens, "tokens/s")
	b.ReportMetric(rate/1e9, "GFLOP/s")
	b.ReportMetric(peak/1e9, "peak-GFLOP/s")
	b.ReportMetric(100*rate/peak, "%peak")
	parts := e.Parts()
	total := parts.Total() - before.Total()
	for _, p := range []struct {
		name string
		time time.Duration
	}{
		{"%matmul", parts.MatMul - before.MatMul},
		{"%attention", parts.Attention - before.Attention},
		{"%pointwise", parts.Pointwise - before.Pointwise},
		{"%crossentropy", parts.CrossEntropy - before.CrossEntropy},
		{"%optimizer", parts.Optimizer - before.Optimizer},
	} {
		b.ReportMetric(100*float64(p.time)/float64(total), p.name)
	}
}

func BenchmarkStep12M(b *testing.B) {
	for _, path := range kernel.Paths() {
		for _, microbatch := range []int{1, 4} {
			if path.String() == "portable" {
				continue // a minute a step
			}
			b.Run(fmt.Sprintf("%s/microbatch=%d", path, microbatch), func(b *testing.B) {
				benchmarkStep(b, "12m", path.String(), microbatch)
			})
		}
	}
}

func BenchmarkStep120M(b *testing.B) { benchmarkStep(b, "120m", "", 1) }
