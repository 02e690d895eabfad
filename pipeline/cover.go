package pipeline

import (
	"math"
	"slices"
)

// span is an aligned range of lanes whose size is a power of two: one subtree of the
// reduction tree.
type span struct{ lo, hi int }

func (s span) size() int { return s.hi - s.lo }

// maxSpans is how many leases of a step a worker is planned to hold: with two, three
// equal workers share eight lanes as 3, 3 and 2.
const maxSpans = 2

// cover cuts the lanes, a power of two, into subtrees for workers that need seconds[i]
// for a lane: at most maxSpans for each, such that the slowest is done as early as
// possible, and in as few subtrees as that allows. It returns the spans of each
// worker, the largest first; none for one that would be too slow.
func cover(lanes int, seconds []float64) [][]span {
	counts := loads(lanes)
	var best []int
	lo, hi := 0, len(times(counts, seconds))-1
	for candidates := times(counts, seconds); lo <= hi; {
		middle := (lo + hi) / 2
		if shares := divide(lanes, counts, seconds, candidates[middle]); shares != nil {
			best, hi = shares, middle-1
		} else {
			lo = middle + 1
		}
	}
	return place(lanes, best)
}

// loads are the numbers of lanes up to lanes that maxSpans powers of two add up to.
func loads(lanes int) (counts []int) {
	for a := 1; a <= lanes; a *= 2 {
		counts = append(counts, a)
		for b := 1; b < a && a+b <= lanes; b *= 2 {
			counts = append(counts, a+b)
		}
	}
	slices.Sort(counts)
	return counts
}

// spansOf is how many powers of two a load is made of.
func spansOf(load int) (n int) {
	for ; load > 0; load &= load - 1 {
		n++
	}
	return n
}

// times are the times at which some worker could be done, in ascending order.
func times(counts []int, seconds []float64) (ts []float64) {
	for _, s := range seconds {
		for _, n := range counts {
			ts = append(ts, s*float64(n))
		}
	}
	slices.Sort(ts)
	return slices.Compact(ts)
}

// divide gives each worker a load that it carries within the time limit, such that they
// add up to the lanes, with the fewest spans; nil when that is impossible. It tries the loads
// of one worker after the other on all sums that those before can reach.
func divide(lanes int, counts []int, seconds []float64, limit float64) []int {
	fewest := make([]int, lanes+1) // spans for each sum; -1: out of reach
	for sum := 1; sum <= lanes; sum++ {
		fewest[sum] = -1
	}
	chosen := make([][]int, len(seconds))
	for i, s := range seconds {
		next := slices.Clone(fewest)
		chosen[i] = make([]int, lanes+1)
		for _, n := range counts {
			if s*float64(n) > limit {
				break
			}
			for sum := n; sum <= lanes; sum++ {
				before := fewest[sum-n]
				if total := before + spansOf(n); before >= 0 && (next[sum] < 0 || total < next[sum]) {
					next[sum], chosen[i][sum] = total, n
				}
			}
		}
		fewest = next
	}
	if fewest[lanes] < 0 {
		return nil
	}
	shares := make([]int, len(seconds))
	for i, sum := len(seconds)-1, lanes; i >= 0; i-- {
		shares[i] = chosen[i][sum]
		sum -= shares[i]
	}
	return shares
}

// place lays the powers of two of all loads side by side, the largest first, which
// aligns each.
func place(lanes int, shares []int) [][]span {
	spans := make([][]span, len(shares))
	lo := 0
	for size := lanes; size > 0; size /= 2 {
		for i, load := range shares {
			if load&size != 0 {
				spans[i] = append(spans[i], span{lo, lo + size})
				lo += size
			}
		}
	}
	return spans
}

// makespan is when the slowest worker is done, in seconds.
func makespan(spans [][]span, seconds []float64) (slowest float64) {
	for i, own := range spans {
		lanes := 0
		for _, s := range own {
			lanes += s.size()
		}
		slowest = math.Max(slowest, float64(lanes)*seconds[i])
	}
	return slowest
}
