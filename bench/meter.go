package bench

import (
	"context"
	"slices"
	"time"

	"andrea/cpuengine"
)

// maxRounds is how often a piece of work is timed when its time allows; the median counts.
const maxRounds = 5

// shortest is the least time of a timed piece: shorter work is repeated within it.
const shortest = 8 * time.Millisecond

// probeTime is about how long a probe of the peak lasts.
const probeTime = 8 * time.Millisecond

// meter times work on all threads with the peak beside it.
type meter struct {
	ctx        context.Context
	bench      *cpuengine.Workbench
	iterations int       // of a probe of about probeTime
	rates      []float64 // of every probe, in FLOP/s
}

func newMeter(ctx context.Context, bench *cpuengine.Workbench) *meter {
	return &meter{ctx: ctx, bench: bench, iterations: lasting(probeTime, func(n int) { bench.FMAs(n) })}
}

// lasting returns a number for which f takes at least the given time, by doubling.
func lasting(atLeast time.Duration, f func(n int)) int {
	for n := 1; ; n *= 2 {
		start := time.Now()
		f(n)
		if time.Since(start) >= atLeast {
			return n
		}
	}
}

// probe returns the rate of fused multiply-adds on all threads, in FLOP/s.
func (m *meter) probe() float64 {
	start := time.Now()
	flops := m.bench.FMAs(m.iterations)
	rate := float64(flops) / time.Since(start).Seconds()
	m.rates = append(m.rates, rate)
	return rate
}

// probeShare is the part of a round's time that the probe after it takes, when that is more
// than probeTime: what disturbs a long round seldom falls into a short probe.
const probeShare = 0.03

// probeAfter returns the rate over all probes that belong to a round of so many seconds.
func (m *meter) probeAfter(seconds float64) float64 {
	n := 1 + int(probeShare*seconds/probeTime.Seconds())
	inverse := 0.0
	for range n {
		inverse += 1 / m.probe() // each does the same work, so their times add
	}
	return float64(n) / inverse
}

// Timing is how long a piece of work took.
type Timing struct {
	Rounds  int
	Seconds float64 // median
	Fastest float64 // seconds
	Peak    float64 // median of the probes between the rounds, in FLOP/s
}

// Rate is the work done per second, of one piece.
func (t Timing) Rate(work float64) float64 { return work / t.Seconds }

// Share is that of the peak which a piece of so many FLOPs reached.
func (t Timing) Share(flops float64) float64 { return t.Rate(flops) / t.Peak }

// time times f: once untimed, then round by round.
func (m *meter) time(budget time.Duration, f func() error) (Timing, error) {
	warm := time.Now()
	if err := f(); err != nil {
		return Timing{}, err
	}
	repeat := 1 + int(shortest/max(time.Since(warm), time.Microsecond))
	return m.rounds(budget, func() (float64, error) {
		start := time.Now()
		for range repeat {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return time.Since(start).Seconds() / float64(repeat), nil
	})
}

// rounds calls f, which returns seconds, up to maxRounds times with a probe after each, as
// long as rounds begin within the budget; once in any case. It ends with the context's error.
func (m *meter) rounds(budget time.Duration, f func() (float64, error)) (Timing, error) {
	var seconds, peaks []float64
	for begin := time.Now(); len(seconds) == 0 || len(seconds) < maxRounds && time.Since(begin) < budget; {
		if err := m.ctx.Err(); err != nil {
			return Timing{}, err
		}
		start := time.Now()
		s, err := f()
		if err != nil {
			return Timing{}, err
		}
		seconds, peaks = append(seconds, s), append(peaks, m.probeAfter(time.Since(start).Seconds()))
	}
	return Timing{Rounds: len(seconds), Seconds: median(seconds), Fastest: slices.Min(seconds), Peak: median(peaks)}, nil
}

// median sorts values, at least one, and returns the middle one, of an even number the mean
// of the middle two.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
