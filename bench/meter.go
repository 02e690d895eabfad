package bench

import (
	"context"
	"slices"
	"time"

	"andrea/cpuengine"
)

// maxRounds is how often a piece of work that is timed by itself is, when its time allows; the median counts.
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

// time times f: once or twice untimed, then round by round.
func (m *meter) time(budget time.Duration, f func() error) (Timing, error) {
	round, err := repeated(f)
	if err != nil {
		return Timing{}, err
	}
	return m.rounds(budget, round)
}

// repeated calls f, whose first call may have to bring memory, and returns a round of it: f as often as takes about the shortest time.
// A round returns the seconds of one call.
func repeated(f func() error) (round func() (float64, error), err error) {
	var took time.Duration
	for call := 0; call < 2 && took < shortest; call++ {
		start := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		took = time.Since(start)
	}
	n := repeats(took)
	return func() (float64, error) {
		start := time.Now()
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return time.Since(start).Seconds() / float64(n), nil
	}, nil
}

// repeats is how many calls that take so long make a round.
func repeats(took time.Duration) int { return 1 + int(shortest/max(took, time.Microsecond)) }

// rounds calls f, which returns seconds, up to maxRounds times with a probe after each, as
// long as rounds begin within the budget; once in any case. It ends with the context's error.
func (m *meter) rounds(budget time.Duration, f func() (float64, error)) (Timing, error) {
	var all samples
	for begin := time.Now(); len(all.seconds) == 0 || len(all.seconds) < maxRounds && time.Since(begin) < budget; {
		if err := m.round(&all, f); err != nil {
			return Timing{}, err
		}
	}
	return all.timing(), nil
}

// maxTurns is how often pieces of work that take turns are timed.
const maxTurns = 15

// turns times pieces of work in turns, up to maxTurns rounds of each, as long as turns begin within the budget; once in any case. A machine
// that others use too changes from second to second: the medians of rounds that lie apart differ less from run to run than
// those of rounds one after the other. Each round is preceded by calls that are not timed, as the others' memory is in the caches.
func (m *meter) turns(budget time.Duration, pieces []func() error) ([]Timing, error) {
	all := make([]samples, len(pieces))
	begin := time.Now()
	for turn := 0; turn == 0 || turn < maxTurns && time.Since(begin) < budget; turn++ {
		for i, f := range pieces {
			round, err := repeated(f)
			if err != nil {
				return nil, err
			}
			if err := m.round(&all[i], round); err != nil {
				return nil, err
			}
		}
	}
	timings := make([]Timing, len(all))
	for i := range all {
		timings[i] = all[i].timing()
	}
	return timings, nil
}

// samples are the rounds of one piece of work so far.
type samples struct{ seconds, peaks []float64 }

// round adds a round of f, which returns seconds, and a probe after it.
func (m *meter) round(all *samples, f func() (float64, error)) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	s, err := f()
	if err != nil {
		return err
	}
	all.seconds = append(all.seconds, s)
	all.peaks = append(all.peaks, m.probeAfter(time.Since(start).Seconds()))
	return nil
}

// timing sums up at least one round.
func (s samples) timing() Timing {
	return Timing{Rounds: len(s.seconds), Seconds: median(s.seconds), Fastest: slices.Min(s.seconds), Peak: median(s.peaks)}
}

// median sorts values, at least one, and returns the middle one, of an even number the mean
// of the middle two.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
