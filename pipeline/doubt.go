package pipeline

import (
	"fmt"
	"slices"

	"andrea/numeric"
)

// When a lease is computed again.
//
// A share is settled, and its first answer counts, when one finite answer is there and one opinion is asked for
// (judge), or when two answers agree, whatever they say. Else it wants answers of more members. All of that is
// kept in few places: share.opinions is how many answers are asked for at first, two where the job's audit draws
// the lease, and share.settled that the matter is decided; of the coordinator doubted is the step of which all
// shares want two, and whole the step that is computed as one share. doubted and whole name a step, so that the
// next one begins without them.
//
//	what is found                         where         what follows
//	the job audits the lease              opinions      two answers are asked for
//	one answer is not finite              judge         a second is asked for: two that agree count
//	two answers differ, also when the
//	second comes while the first is summed  judge       a third is asked for
//	a third agrees with one of them       judge         the members of all others are expelled; their answers go
//	all are finite, the norm is not       computeAgain  doubted: every share wants two answers
//
// When all members are idle and shares are not settled, nobody has room for what they want, or nobody is left whom
// they have not asked (stuck):
//
//	a share has no answer                 stuck         all begins again with other shares: everybody's room is free
//	a member still loads the state        stuck         it is waited for
//	one answer, not finite or doubted,
//	and there are others                  unconfirmed   whole: the step is one share, for which everybody has room
//	answers differ, and there are others  undecided     whole
//	answers differ, and there is nobody   stuck         the run ends with an error, and with a checkpoint of state step
//	an audit has one answer               leaveOut      it is counted as left out, and its answer counts
//	one answer, not finite or doubted,
//	and there is nobody                   stuck         it counts: whoever is alone cannot be confirmed

// opinions is how many members shall compute a share before it counts: two for the part
// of the leases that the job has audited.
func (c *Coordinator) opinions(s span) int {
	spec := c.plan.Spec
	draw := numeric.Mix64(numeric.Mix64(spec.Seed^uint64(c.step+1)) ^ uint64(s.lo))
	if float64(draw>>11)/(1<<53) < spec.Audit {
		return 2
	}
	return 1
}

// judge settles a share once enough answers agree. Whose answer differs from those is
// expelled.
func (c *Coordinator) judge(s *share) []CoordinatorEffect {
	s.settled = s.opinions <= 1 && len(s.answers) == 1 && s.answers[0].finite() || s.majority()
	var effects []CoordinatorEffect
	for _, a := range slices.Clone(s.answers) {
		if s.settled && !a.same(s.answers[0].Answer) {
			effects = append(effects, c.expel(a.member, fmt.Sprintf("computed a wrong gradient of lanes [%d, %d) of step %d, with digest %s: two others agree on %s: its memory or device is faulty",
				s.lo, s.hi, c.step+1, a.GradDigest, s.answers[0].GradDigest))...)
		}
	}
	if effects != nil {
		return effects // the others have gone on
	}
	return c.assign()
}

// doubtful reports that the gradient's norm is no number and nobody has confirmed it.
func (c *Coordinator) doubtful() bool {
	finite := !slices.ContainsFunc(c.reduced.SumSquares, func(f Float) bool { return !f.finite() })
	return !finite && c.doubted != c.step+1 && len(c.members.holding()) > 1
}

// computeAgain has all shares computed by a second member each, and by two where the
// first one has gone.
func (c *Coordinator) computeAgain() []CoordinatorEffect {
	c.doubted = c.step + 1
	effects := c.unsum()
	for _, s := range c.shares {
		if len(s.answers) < 2 {
			s.opinions, s.settled = 2, false
		}
	}
	return append(effects, c.assign()...)
}

// stuck does what is left when all are idle and some shares are not settled. What is worst for any
// of them decides, whatever their order.
func (c *Coordinator) stuck() (effects []CoordinatorEffect) {
	var open []*share
	for _, s := range c.shares {
		if !s.settled {
			open = append(open, s)
		}
	}
	wanting := func(s *share) bool { return c.unconfirmed(s) || c.undecided(s) }
	differ := slices.IndexFunc(open, func(s *share) bool { return !s.agree() })
	switch {
	case slices.ContainsFunc(open, func(s *share) bool { return len(s.answers) == 0 }):
		return c.compute()
	case len(c.members.holding()) < len(c.members):
		return nil // a joiner may have room, or the opinion that is wanted
	case slices.ContainsFunc(open, wanting):
		c.whole = c.step + 1
		return c.compute()
	case differ >= 0:
		return c.abandon(fmt.Errorf("%s: the memory or device of one of them is faulty, and there is no third to tell which", open[differ].dissent(c.step+1)))
	}
	for _, s := range open {
		s.settled = true
		effects = append(effects, c.leaveOut(s)...)
	}
	return append(effects, c.allIn()...)
}

// unconfirmed reports that a share with a part in what is not finite has one answer, and that
// others could compute it if they had room. Every member has room for the whole tree, when it has
// forgotten what it holds of it.
func (c *Coordinator) unconfirmed(s *share) bool {
	suspect := c.doubted == c.step+1 || !s.answers[0].finite()
	return suspect && len(s.answers) == 1 && c.whole != c.step+1 && len(c.members.holding()) > 1
}

// undecided reports that the answers to a share differ, and that a third could tell who is right
// if it had room.
func (c *Coordinator) undecided(s *share) bool {
	return !s.agree() && c.whole != c.step+1 && len(c.members.holding()) > len(s.answers)
}

// leaveOut counts an audit for which there was nobody, or no room, and tells of the first.
func (c *Coordinator) leaveOut(s *share) []CoordinatorEffect {
	if c.doubted == c.step+1 || len(s.answers) >= c.opinions(s.span) {
		return nil
	}
	if c.leftOut++; c.leftOut > 1 {
		return nil
	}
	return []CoordinatorEffect{Announce{AuditLeftOut{Step: c.step + 1, Lo: s.lo, Hi: s.hi}}}
}
