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

// peak measures the fused multiply-adds a second of all threads together.
func peak(path *kernel.Path, threads int) float64 {
	run := func(iterations int) float64 {
		start := time.Now()
		flops := make([]int64, threads)
		var group sync.WaitGroup
		for i := range threads {
			group.Go(func() { flops[i] = path.PeakFMA(iterations) })
		}
		group.Wait()
		total := int64(0)
		for _, f := range flops {
			total += f
		}
		return float64(total) / time.Since(start).Seconds()
	}
	run(1 << 10)
	iterations := 1 << 10
	for start := time.Now(); ; iterations *= 2 {
		rate := run(iterations)
		if time.Since(start) > 200*time.Millisecond {
			return rate
		}
	}
}

// benchmarkStep runs whole steps of a variant: the microbatches of eight lanes, the
// tree of folds, the norm and the update.
func benchmarkStep(b *testing.B, variant, path string, microbatch int) {
	c, err := model.Variant(variant)
	if err != nil {
		b.Fatal(err)
	}
	const lanes = 8
	e := open(b, c, Options{Microbatch: microbatch, Slots: model.Slots(lanes), Path: path})
	batch := enginetest.DrawBatch(c, microbatch, c.Context, 1)
	step := func() {
		for lane := range lanes {
			accumulateLane(b, e, lane, batch)
		}
		if _, err := e.Update(0, 1.0/(lanes*1024), hyper); err != nil {
			b.Fatal(err)
		}
	}
	step()
	limit, before := peak(e.path, e.options.Threads), e.Parts()
	for b.Loop() {
		step()
	}
	limit = max(limit, peak(e.path, e.options.Threads))
	report(b, e, before, lanes*microbatch*c.Context, limit)
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

func report(b *testing.B, e *Engine, before Parts, tokens int, limit float64) {
	seconds := b.Elapsed().Seconds() / float64(b.N)
	rate := float64(int64(tokens)*e.config.FLOPsPerToken()) / seconds
	b.ReportMetric(float64(tokens)/seconds, "tokens/s")
	b.ReportMetric(rate/1e9, "GFLOP/s")
	b.ReportMetric(limit/1e9, "peak-GFLOP/s")
	b.ReportMetric(100*rate/limit, "%peak")
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
