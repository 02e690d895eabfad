package pipeline

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"andrea/model"
)

// The spans of a cover are subtrees that tile the lanes; nobody has more than maxSpans, the
// largest first, and all fit into a worker's slots one after the other.
func TestCoversTileTheLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := 1 << rapid.IntRange(0, 7).Draw(t, "log lanes")
		seconds := rapid.SliceOfN(rapid.Float64Range(1e-6, 1e6), 1, 70).Draw(t, "seconds")
		spans := cover(lanes, seconds)
		if len(spans) != len(seconds) {
			t.Fatalf("%d workers have %d covers", len(seconds), len(spans))
		}
		taken := make([]bool, lanes)
		for _, own := range spans {
			if len(own) > maxSpans || !slices.IsSortedFunc(own, func(a, b span) int { return b.size() - a.size() }) {
				t.Fatalf("a worker has %v", own)
			}
			for held, s := range own {
				if !(Lease{Lo: s.lo, Hi: s.hi}).subtree(lanes) || !fits(held, s.size(), lanes) {
					t.Fatalf("%v of %d lanes: it is no subtree, or does not fit after %d others", s, lanes, held)
				}
				for lane := s.lo; lane < s.hi; lane++ {
					if taken[lane] {
						t.Fatalf("lane %d is leased twice in %v", lane, spans)
					}
					taken[lane] = true
				}
			}
		}
		if slices.Contains(taken, false) {
			t.Fatalf("%v leaves lanes out", spans)
		}
	})
}

// No other cover is done earlier, and none that is done as early has fewer spans.
func TestCoversAreBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := 1 << rapid.IntRange(0, 4).Draw(t, "log lanes")
		seconds := rapid.SliceOfN(rapid.SampledFrom([]float64{0.5, 1, 1.5, 2, 3, 10}), 1, 4).Draw(t, "seconds")
		spans := cover(lanes, seconds)
		parts := 0
		for _, own := range spans {
			parts += len(own)
		}
		best, fewest := math.Inf(1), 0
		everyDivision(lanes, len(seconds), nil, func(shares []int) {
			slowest, n := 0.0, 0
			for i, load := range shares {
				slowest, n = math.Max(slowest, float64(load)*seconds[i]), n+spansOf(load)
			}
			if slowest < best || slowest == best && n < fewest {
				best, fewest = slowest, n
			}
		})
		if got := makespan(spans, seconds); got != best || parts != fewest {
			t.Fatalf("%d lanes, seconds %v: %v takes %v s in %d spans, possible are %v s in %d", lanes, seconds, spans, got, parts, best, fewest)
		}
	})
}

// everyDivision calls f with all ways to give workers loads of at most maxSpans spans that
// add up to the lanes.
func everyDivision(lanes, workers int, shares []int, f func([]int)) {
	if workers == 0 {
		if lanes == 0 {
			f(shares)
		}
		return
	}
	for load := 0; load <= lanes; load++ {
		if spansOf(load) <= maxSpans {
			everyDivision(lanes-load, workers-1, append(slices.Clone(shares), load), f)
		}
	}
}

func loadsOf(shares []*share, ms members) (loads []int) {
	loads = make([]int, len(ms))
	for _, s := range shares {
		loads[slices.Index(ms, s.planned)] += s.size()
	}
	return loads
}

func TestLanesAreDividedBySpeedAndExchange(t *testing.T) {
	for _, c := range []struct {
		name     string
		lanes    int
		seconds  []float64 // of each member; 0: not measured
		exchange float64
		want     []int // lanes of each
	}{
		{"one", 8, []float64{0}, 0, []int{8}},
		{"equal ones", 8, []float64{1, 1}, 0, []int{4, 4}},
		{"nobody is measured", 8, []float64{0, 0}, 0, []int{4, 4}},
		{"noise moves nothing", 8, []float64{1, 1.05}, 0, []int{4, 4}},
		{"three share eight", 8, []float64{1, 1, 1}, 0, []int{3, 3, 2}},
		{"a slow one", 8, []float64{1, 3}, 0, []int{6, 2}},
		{"a much slower one", 8, []float64{1, 10}, 0, []int{8, 0}},
		{"a new one counts as average", 8, []float64{1, 3, 0}, 0, []int{5, 1, 2}},
		{"more than lanes", 2, []float64{1, 1, 1}, 0, []int{1, 1, 0}},
		{"exchange is dear", 8, []float64{2, 1}, 10, []int{0, 8}},
		{"exchange is worth it", 8, []float64{1, 1}, 1, []int{4, 4}},
		{"exchange costs what it saves", 8, []float64{1, 1}, 4, []int{4, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			coordinator := &Coordinator{plan: &Plan{Spec: JobSpec{Batch: BatchSpec{Lanes: c.lanes}}}, exchange: exchange{c.exchange}}
			var ms members
			for i, s := range c.seconds {
				ms = append(ms, &member{id: WorkerID(fmt.Sprint(i)), seconds: s})
			}
			if got := loadsOf(coordinator.divided(ms), ms); !slices.Equal(got, c.want) {
				t.Errorf("lanes %v, want %v", got, c.want)
			}
		})
	}
}

// What a worker says about its time decides no bits and cannot stop the run: whatever it is,
// somebody has every lane.
func TestAbsurdTimesDoNoHarm(t *testing.T) {
	m := &member{}
	for _, s := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if m.took(s); m.seconds != 0 {
			t.Errorf("%v s are taken for %v", s, m.seconds)
		}
	}
	for _, s := range []float64{math.MaxFloat64, math.SmallestNonzeroFloat64} {
		m := &member{}
		if m.took(s); m.seconds < 1e-6 || m.seconds > 1e6 {
			t.Errorf("%v s are taken for %v", s, m.seconds)
		}
	}
}

func TestLate(t *testing.T) {
	slow, unknown := &member{seconds: 1}, &member{}
	for _, c := range []struct {
		name string
		s    share
		want bool
	}{
		{"nobody computes", share{span: span{0, 2}, since: 1000}, false},
		{"its time is not known", share{span: span{0, 2}, since: 1000, computing: []*member{unknown}}, false},
		{"in time", share{span: span{0, 2}, since: 16, computing: []*member{slow}}, false},
		{"late", share{span: span{0, 2}, since: 17, computing: []*member{slow}}, true},
		{"helped already", share{span: span{0, 2}, since: 17, computing: []*member{slow, unknown}}, true},
	} {
		if got := c.s.late(); got != c.want {
			t.Errorf("%s: late %v", c.name, got)
		}
	}
}

func answersOf(grads ...uint64) (answers []answered) {
	for _, g := range grads {
		answers = append(answers, answered{&member{}, Answer{GradDigest: model.Digest{g}, Lanes: []LaneResult{{LossSum: Float(math.NaN())}}}})
	}
	return answers
}

// Two answers that agree settle a share, wherever they are among the others; NaN is the same
// as NaN.
func TestMajorityOfAnswers(t *testing.T) {
	for _, c := range []struct {
		grads       []uint64
		agree, most bool
		first       uint64
	}{
		{[]uint64{1}, true, false, 1},
		{[]uint64{1, 1}, true, true, 1},
		{[]uint64{1, 2}, false, false, 1},
		{[]uint64{1, 2, 2}, false, true, 2},
		{[]uint64{1, 2, 1}, false, true, 1},
		{[]uint64{1, 2, 3, 2}, false, true, 2},
		{[]uint64{1, 2, 3}, false, false, 1},
	} {
		s := share{answers: answersOf(c.grads...)}
		if s.agree() != c.agree || s.majority() != c.most || s.answers[0].GradDigest[0] != c.first {
			t.Errorf("%v: agree %v, first %d; want %+v", c.grads, s.agree(), s.answers[0].GradDigest[0], c)
		}
	}
	a, b := answersOf(1)[0], answersOf(1)[0]
	b.Lanes = []LaneResult{{LossSum: Float(math.NaN()), TokenDigest: model.Digest{1}}}
	if a.same(b.Answer) {
		t.Error("answers from other tokens are the same")
	}
}

func TestMajorityOfStates(t *testing.T) {
	for _, c := range []struct {
		digests []uint64
		common  uint64
		votes   int
	}{
		{[]uint64{5}, 5, 1}, {[]uint64{5, 6}, 5, 1}, {[]uint64{5, 6, 6}, 6, 2}, {[]uint64{5, 6, 5, 6}, 5, 2}, {[]uint64{7, 6, 5, 5, 5}, 5, 3},
	} {
		var reports []report
		for _, d := range c.digests {
			reports = append(reports, report{digest: model.Digest{d}})
		}
		if common, votes := majority(reports); common != (model.Digest{c.common}) || votes != c.votes {
			t.Errorf("%v: %v has %d votes", c.digests, common, votes)
		}
	}
}

// About the share of the leases that the job names is audited, the same ones whoever computes
// them, and others with another seed.
func TestAuditedShare(t *testing.T) {
	audited := func(seed uint64, share float64) (n int, which [1 << 12]bool) {
		c := &Coordinator{plan: &Plan{Spec: JobSpec{Seed: seed, Audit: share}}}
		for i := range which {
			c.step = int64(i / 8)
			if which[i] = c.opinions(span{i % 8, i%8 + 1}) == 2; which[i] {
				n++
			}
		}
		return n, which
	}
	for _, c := range []struct {
		share    float64
		min, max int
	}{{0, 0, 0}, {1, 1 << 12, 1 << 12}, {0.25, 900, 1150}, {0.01, 20, 65}} {
		if n, _ := audited(1, c.share); n < c.min || n > c.max {
			t.Errorf("audit %v: %d of 4096 leases", c.share, n)
		}
	}
	_, a := audited(1, 0.25)
	_, b := audited(1, 0.25)
	_, other := audited(2, 0.25)
	if a != b || a == other {
		t.Error("which leases are audited does not follow from the seed alone")
	}
}
