package pipeline

import (
	"fmt"
	"math"
	"slices"
)

// How the time of a lease is judged.
const (
	lateFactor = 3   // a lease is late after so many times its worker's measured time
	lateTicks  = 4   // and this
	tickSpan   = 0.5 // seconds
)

// share is a subtree of a step's lanes, and who computes or has computed it.
type share struct {
	span
	planned   *member    // who shall compute it first; nil: anybody
	computing []*member  // who does
	since     int        // ticks since the first of them began
	opinions  int        // how many answers must agree
	answers   []answered // valid ones, in order of arrival
	settled   bool       // answers[0] counts
}

// answered is a finished lease and who computed it.
type answered struct {
	member *member
	Answer
}

// same reports that two answers to the same lease give the same bits.
func (a Answer) same(b Answer) bool {
	return a.GradDigest == b.GradDigest && slices.EqualFunc(a.Lanes, b.Lanes, func(x, y LaneResult) bool {
		return x.LossSum.same(y.LossSum) && x.TokenDigest == y.TokenDigest
	})
}

// finite reports that all losses and, where they are known, the sums of squares are numbers.
func (a Answer) finite() bool {
	for _, l := range a.Lanes {
		if !l.LossSum.finite() {
			return false
		}
	}
	return !slices.ContainsFunc(a.SumSquares, func(f Float) bool { return !f.finite() })
}

// involves reports that the member computes the share or has computed it.
func (s *share) involves(m *member) bool {
	return slices.Contains(s.computing, m) || slices.ContainsFunc(s.answers, func(a answered) bool { return a.member == m })
}

// late reports that the share takes the first that computes it longer than it should.
func (s *share) late() bool {
	if len(s.computing) == 0 || s.computing[0].seconds == 0 {
		return false
	}
	expected := s.computing[0].seconds * float64(s.size()) / tickSpan
	return s.since > lateTicks+int(lateFactor*expected)
}

// behind reports that the member is late with a share, so that what was planned for it
// after that is open to others.
func (m *member) behind() bool {
	return m.share != nil && slices.Index(m.share.computing, m) == 0 && m.share.late()
}

// wants reports that an idle member can be of use to the share.
func (s *share) wants(m *member) bool {
	switch {
	case s.settled || s.involves(m):
		return false
	case len(s.computing)+len(s.answers) < s.opinions:
		return s.planned == nil || s.planned == m || s.planned.behind()
	case len(s.answers) > 0:
		return len(s.computing) == 0 // they differ, or one was not finite
	}
	return len(s.computing) == 1 && s.late()
}

// by is the member whose contribution counts, or may come to; nil: nobody computes it.
func (s *share) by() *member {
	switch {
	case len(s.answers) > 0:
		return s.answers[0].member
	case len(s.computing) > 0:
		return s.computing[0]
	}
	return nil
}

// forget takes a member's part in the share back.
func (s *share) forget(m *member) {
	if s.planned == m {
		s.planned = nil
	}
	s.computing = slices.DeleteFunc(s.computing, func(o *member) bool { return o == m })
	s.answers = slices.DeleteFunc(s.answers, func(a answered) bool { return a.member == m })
	s.settled = s.settled && len(s.answers) > 0
}

// majority moves the first two answers that agree to the front and reports that there are
// such.
func (s *share) majority() bool {
	for i, a := range s.answers {
		for j := i + 1; j < len(s.answers); j++ {
			if a.same(s.answers[j].Answer) {
				s.answers[0], s.answers[i] = s.answers[i], s.answers[0]
				return true
			}
		}
	}
	return false
}

// agree reports that no two answers differ.
func (s *share) agree() bool {
	return !slices.ContainsFunc(s.answers, func(a answered) bool { return !a.same(s.answers[0].Answer) })
}

// dissent is what to tell of two answers that differ.
func (s *share) dissent(step int64) string {
	a, b := s.answers[0], s.answers[1]
	return fmt.Sprintf("workers %s and %s computed different gradients of lanes [%d, %d) of step %d: digests %s and %s, losses %v and %v",
		a.member.id, b.member.id, s.lo, s.hi, step, a.GradDigest, b.GradDigest, a.lossSum(), b.lossSum())
}

func (a Answer) lossSum() (sum Float) {
	for _, l := range a.Lanes {
		sum += l.LossSum
	}
	return sum
}

// exchange is what the transport costs: seconds for one gradient, in either direction.
type exchange struct{ seconds float64 }

// measure takes in that a step moved so many gradients.
func (x *exchange) measure(seconds float64, gradients int) {
	x.seconds = smooth(x.seconds, seconds/float64(gradients))
}

// smooth is a moving average that begins with the first value.
func smooth(average, value float64) float64 {
	if average == 0 {
		return value
	}
	return float64(0.75*average) + float64(0.25*value)
}

// divided cuts the lanes among the members: by their speeds, and to the fastest alone
// where the others would save less than their contributions cost.
func (c *Coordinator) divided(ms members) (shares []*share) {
	lanes := c.plan.Spec.Batch.Lanes
	seconds := ms.speeds()
	spans := cover(lanes, seconds)
	fastest := slices.Index(seconds, slices.Min(seconds))
	var parts int
	for _, own := range spans {
		parts += len(own)
	}
	together := makespan(spans, seconds) + float64(c.exchange.seconds*float64(parts))
	alone := float64(float64(lanes)*seconds[fastest]) + c.exchange.seconds
	if alone < together {
		spans = make([][]span, len(ms))
		spans[fastest] = []span{{0, lanes}}
	}
	for i, own := range spans {
		for _, s := range own {
			shares = append(shares, &share{span: s, planned: ms[i], opinions: c.opinions(s)})
		}
	}
	slices.SortFunc(shares, func(a, b *share) int { return a.lo - b.lo })
	return shares
}

// speeds are the seconds that members need for a lane. One that is not measured yet is
// taken for an average one.
func (ms members) speeds() []float64 {
	sum, known := 0.0, 0
	for _, m := range ms {
		if m.seconds > 0 {
			sum, known = sum+m.seconds, known+1
		}
	}
	average := 1.0
	if known > 0 {
		average = sum / float64(known)
	}
	seconds := make([]float64, len(ms))
	for i, m := range ms {
		seconds[i] = m.seconds
		if m.seconds <= 0 {
			seconds[i] = average
		}
		seconds[i] = rounded(seconds[i])
	}
	return seconds
}

// rounded makes speeds that hardly differ equal, so that noise does not move leases from
// one step to the next: powers of 2^(1/4).
func rounded(seconds float64) float64 {
	return math.Exp2(math.Round(4*math.Log2(seconds)) / 4)
}
