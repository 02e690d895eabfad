package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"andrea/cpuengine"
)

// Peak is what fused multiply-adds between registers reach on a path.
type Peak struct {
	Path         string
	Rate         float64 // FLOP/s of all threads, the best probe
	FLOPPerCycle float64 // of one core
	Width        float64 // FLOP per cycle that the core's units can do; 0: unknown
	Clock        float64 // of the core during the probe, in Hz
}

// vectorLanes are the float32 elements of a vector register of each path.
var vectorLanes = map[string]float64{"avx512": 16, "avx2": 8, "neon": 4}

// Widths are compared with this tolerance: units have 1, 2, ... pipes, so that there is
// nothing between.
const tolerance = 0.05

// unitWidth returns the FLOP per cycle of the unit that reached the measured ones: two for
// each lane of each pipe, with as many pipes as the measurement proves.
func unitWidth(path string, measured float64) float64 {
	onePipe := 2 * vectorLanes[path]
	if onePipe == 0 {
		return 0
	}
	return onePipe * max(1, math.Ceil(measured/onePipe-tolerance))
}

// reached reports whether the probe is what the unit can do.
func (p Peak) reached() bool { return p.FLOPPerCycle >= (1-tolerance)*p.Width }

// attempts is how often the probe of a path is tried.
const attempts = 4

// peaks probes all paths of this machine. One that stays below its unit's width is an error.
func peaks(ctx context.Context, threads int) ([]Peak, error) {
	var all []Peak
	for _, path := range cpuengine.Paths() {
		p := Peak{Path: path}
		for try := 0; try < attempts && (try == 0 || !p.reached()); try++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			next, err := probe(ctx, threads, path)
			if err != nil {
				return nil, err
			}
			if next.FLOPPerCycle > p.FLOPPerCycle {
				p = next
			}
		}
		if !p.reached() {
			return nil, fmt.Errorf("probing the peak of fused multiply-adds: %s: %.1f FLOP per cycle and core, the unit can do %.0f: something else uses the processor, so every number would be wrong: run again when the machine is quiet",
				path, p.FLOPPerCycle, p.Width)
		}
		all = append(all, p)
	}
	return all, nil
}

// probes is how often the rate of all threads is measured; the best counts.
const probes = 10

// probe measures one path.
func probe(ctx context.Context, threads int, path string) (Peak, error) {
	bench, err := cpuengine.NewWorkbench(threads, path)
	if err != nil {
		return Peak{}, err
	}
	defer bench.Close()
	p := Peak{Path: path}
	p.FLOPPerCycle, p.Clock = perCycle(bench)
	p.Width = unitWidth(path, p.FLOPPerCycle)
	m := newMeter(ctx, bench)
	for range probes {
		m.probe()
	}
	p.Rate = slices.Max(m.rates)
	return p, nil
}

// A slice is short, so that it seldom holds an interruption and its neighbours have the same
// clock, which wide units lower when they are busy for longer; of many the median counts.
const (
	sliceTime = 50 * time.Microsecond
	pairs     = 501
)

// perCycle runs slices of multiply-adds and of the chain in turn on one core. The rate of the
// first beside the clock that the second shows, before and after, is the FLOP per cycle,
// whatever the clock does. The second result is the clock in Hz.
func perCycle(bench *cpuengine.Workbench) (flop, clock float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sink := uint64(1)
	iterations := lasting(sliceTime, func(n int) { bench.FMA(n) })
	rounds := lasting(sliceTime, func(n int) { sink = chain(n, sink, 5) })
	hertz := func() float64 {
		start := time.Now()
		sink = chain(rounds, sink, 5)
		return float64(rounds*addsPerRound) / time.Since(start).Seconds()
	}
	ratios, clocks := make([]float64, pairs), make([]float64, pairs)
	before := hertz()
	for i := range ratios {
		start := time.Now()
		flops := bench.FMA(iterations)
		rate := float64(flops) / time.Since(start).Seconds()
		after := hertz()
		ratios[i], clocks[i] = rate/((before+after)/2), after
		before = after
	}
	runtime.KeepAlive(sink)
	return median(ratios), median(clocks)
}
