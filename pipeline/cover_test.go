package pipeline

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawSpeeds are a number of lanes and the workers' seconds for a lane.
func drawSpeeds(t *rapid.T, maxLevel, maxWorkers int) (lanes int, seconds []float64) {
	lanes = 1 << rapid.IntRange(0, maxLevel).Draw(t, "level")
	speed := rapid.OneOf(rapid.Just(1.0), rapid.Float64Range(0.01, 100), rapid.Map(rapid.IntRange(-8, 8), func(q int) float64 { return math.Exp2(float64(q) / 4) }))
	return lanes, rapid.SliceOfN(speed, 1, maxWorkers).Draw(t, "seconds")
}

// checkSpans fails unless the spans are subtrees, at most maxSpans a worker with the largest
// first, that hold every lane exactly once.
func checkSpans(t *rapid.T, lanes int, workers int, spans [][]span) {
	if len(spans) != workers {
		t.Fatalf("%d lists of spans for %d workers", len(spans), workers)
	}
	held := make([]int, lanes)
	for i, own := range spans {
		if len(own) > maxSpans {
			t.Fatalf("worker %d has %d spans: %v", i, len(own), own)
		}
		for n, s := range own {
			if !(Lease{Lo: s.lo, Hi: s.hi}).subtree(lanes) || n > 0 && s.size() > own[n-1].size() {
				t.Fatalf("worker %d has %v of %d lanes", i, own, lanes)
			}
			for lane := s.lo; lane < s.hi; lane++ {
				held[lane]++
			}
		}
	}
	for lane, times := range held {
		if times != 1 {
			t.Fatalf("lane %d of %d is held %d times: %v", lane, lanes, times, spans)
		}
	}
}

func TestCoverHoldsEveryLaneOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes, seconds := drawSpeeds(t, 8, 20)
		checkSpans(t, lanes, len(seconds), cover(lanes, seconds))
	})
}

// The fastest 2^k workers with an equal share each are never done earlier.
func TestCoverIsNoWorseThanEqualShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes, seconds := drawSpeeds(t, 8, 20)
		slowest := makespan(cover(lanes, seconds), seconds)
		ordered := slices.Sorted(slices.Values(seconds))
		for n := 1; n <= len(seconds) && n <= lanes; n *= 2 {
			if equal := ordered[n-1] * float64(lanes/n); slowest > equal {
				t.Fatalf("%d lanes, %v: done after %v, the %d fastest with equal shares after %v", lanes, seconds, slowest, n, equal)
			}
		}
	})
}

// best is the smallest makespan of all divisions, by trying every load of every worker.
func best(lanes int, seconds []float64) float64 {
	switch {
	case lanes == 0:
		return 0
	case len(seconds) == 0:
		return math.Inf(1)
	}
	slowest := math.Inf(1)
	for load := range lanes + 1 {
		if spansOf(load) <= maxSpans {
			slowest = min(slowest, math.Max(float64(load)*seconds[0], best(lanes-load, seconds[1:])))
		}
	}
	return slowest
}

// fewest is the smallest number of spans with which all are done in time, in the same way.
func fewest(lanes int, seconds []float64, limit float64) int {
	switch {
	case lanes == 0:
		return 0
	case len(seconds) == 0:
		return math.MaxInt32
	}
	spans := math.MaxInt32
	for load := range lanes + 1 {
		if spansOf(load) <= maxSpans && float64(load)*seconds[0] <= limit {
			spans = min(spans, spansOf(load)+fewest(lanes-load, seconds[1:], limit))
		}
	}
	return spans
}

// Of few workers and lanes it finds the best division there is, in the fewest spans.
func TestCoverIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes, seconds := drawSpeeds(t, 4, 4)
		spans := cover(lanes, seconds)
		want := best(lanes, seconds)
		if got := makespan(spans, seconds); got != want {
			t.Fatalf("%d lanes, %v: done after %v, could be after %v: %v", lanes, seconds, got, want, spans)
		}
		if got, want := parts(spans), fewest(lanes, seconds, want); got != want {
			t.Fatalf("%d lanes, %v: %d spans, could be %d: %v", lanes, seconds, got, want, spans)
		}
	})
}

func parts(spans [][]span) (n int) {
	for _, own := range spans {
		n += len(own)
	}
	return n
}

// Equal workers share as the design says.
func TestCoverOfEqualWorkers(t *testing.T) {
	for _, c := range []struct{ lanes, workers, parts, most int }{
		{8, 1, 1, 8}, {8, 2, 2, 4}, {8, 3, 5, 3}, {8, 4, 4, 2}, {8, 8, 8, 1}, {8, 9, 8, 1}, {16, 5, 4, 4}, {16, 6, 10, 3}, {1, 3, 1, 1},
	} {
		seconds := make([]float64, c.workers)
		for i := range seconds {
			seconds[i] = 1
		}
		spans := cover(c.lanes, seconds)
		if most := makespan(spans, seconds); parts(spans) != c.parts || most != float64(c.most) {
			t.Errorf("%d lanes, %d workers: %d spans, %v lanes at most, want %d and %d: %v", c.lanes, c.workers, parts(spans), most, c.parts, c.most, spans)
		}
	}
}
