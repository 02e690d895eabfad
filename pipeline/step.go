package pipeline

import (
	"fmt"
	"math"
	"slices"

	"andrea/model"
)

// compute leases the lanes of the next step, or of the step in flight anew.
func (c *Coordinator) compute() []CoordinatorEffect {
	effects := c.forget()
	c.enter(computing)
	c.round++
	workers := c.members.holding()
	if stay := workers.staying(); len(stay) > 0 {
		workers = stay
	}
	if c.whole == c.step+1 {
		c.shares = []*share{{span: span{0, c.plan.Spec.Batch.Lanes}, opinions: 2}}
	} else {
		c.shares = c.divided(workers)
	}
	effects = append(effects, c.assign()...)
	return append(effects, c.admit()...)
}

// staying are the members that do not want to leave.
func (ms members) staying() (rest members) {
	for _, m := range ms {
		if !m.leaving {
			rest = append(rest, m)
		}
	}
	return rest
}

// forget drops what is known of the step in flight.
func (c *Coordinator) forget() (effects []CoordinatorEffect) {
	if c.anticipated || c.phase == reducing && c.reduced == nil {
		effects = append(effects, CancelReduce{})
	}
	c.shares, c.reduced, c.reported, c.anticipated = nil, nil, nil, false
	for _, m := range c.members {
		m.contributions, m.share = 0, nil
	}
	return effects
}

// withdraw takes a member's part in the step in flight back, and reports that something of it counted.
// What has been summed already stays, and so does the digest that it reported of the new
// state: it is evidence.
func (c *Coordinator) withdraw(m *member) (counted bool) {
	for _, s := range c.shares {
		counted = counted || s.by() == m
		c.anticipated = c.anticipated && !s.involves(m)
		if c.reduced == nil {
			s.forget(m)
		}
	}
	return counted
}

// assign gives idle members what is left to compute; when nothing is left the gradient is
// complete.
func (c *Coordinator) assign() (effects []CoordinatorEffect) {
	busy := false
	for _, m := range c.members {
		if s := c.shareFor(m); s != nil {
			effects = append(effects, c.give(s, m))
		}
		busy = busy || m.share != nil
	}
	switch {
	case !slices.ContainsFunc(c.shares, func(s *share) bool { return !s.settled }):
		return append(effects, c.allIn()...)
	case !busy:
		return append(effects, c.stuck()...)
	}
	return append(effects, c.anticipate()...)
}

// anticipate tells the executor, once all lanes are computed by somebody, which
// contributions to expect.
func (c *Coordinator) anticipate() []CoordinatorEffect {
	if c.anticipated || c.alone() || slices.ContainsFunc(c.shares, func(s *share) bool { return s.by() == nil }) {
		return nil
	}
	c.anticipated = true
	return []CoordinatorEffect{Anticipate{Step: c.step + 1, Contributions: c.contributions()}}
}

// alone reports that the root is the contribution of the only member, where it stays.
func (c *Coordinator) alone() bool { return len(c.shares) == 1 && len(c.members) == 1 }

// contributions are those of the members that have computed the shares, or do so first.
func (c *Coordinator) contributions() (cs []Contribution) {
	for _, s := range c.shares {
		m := s.by()
		from := Contribution{Worker: m.id, Incarnation: m.incarnation, Lo: s.lo, Hi: s.hi}
		if s.settled {
			from.Digest = s.answers[0].GradDigest
		}
		cs = append(cs, from)
	}
	return cs
}

// shareFor is what an idle member can do best; nil: nothing.
func (c *Coordinator) shareFor(m *member) *share {
	if !m.joined || m.share != nil {
		return nil
	}
	var best *share
	for _, s := range c.shares {
		if !s.wants(m) || !fits(m.contributions, s.size(), c.plan.Spec.Batch.Lanes) {
			continue
		}
		if best == nil || s.urgency(m) > best.urgency(m) || s.urgency(m) == best.urgency(m) && s.size() > best.size() {
			best = s
		}
	}
	return best
}

// urgency orders what a member can do: what was planned for it, what nobody does, what
// needs another opinion, and then what another member is late with.
func (s *share) urgency(m *member) int {
	switch {
	case s.planned == m:
		return 3
	case len(s.computing)+len(s.answers) == 0:
		return 2
	case len(s.computing) == 0:
		return 1
	}
	return 0
}

// give leases a share to a member.
func (c *Coordinator) give(s *share, m *member) CoordinatorEffect {
	if len(s.computing) == 0 {
		s.since = 0
	}
	s.computing = append(s.computing, m)
	m.share, m.still, m.pause = s, 0, 0
	return m.ask(Lease{Step: c.step + 1, Round: c.round, Lo: s.lo, Hi: s.hi})
}

// answer takes a finished lease. While the gradient is summed it can be one that another was faster
// with; if it differs, the sum does not count. One that agrees is kept: it stands in when the first one's
// worker is lost, and is the second opinion when one is asked for later.
func (c *Coordinator) answer(m *member, a Answer) (effects []CoordinatorEffect) {
	s := m.share
	if c.phase != computing && c.phase != reducing || s == nil || a.Step != c.step+1 || a.Round != c.round {
		return nil
	}
	if a.Lo != s.lo || a.Hi != s.hi {
		return nil // to an earlier lease, which others have done meanwhile
	}
	if fault := c.faultIn(a, s.span); fault != "" {
		return c.expel(m, fault)
	}
	m.contributions++
	m.pace = max(m.pace, m.pause)
	m.took(a.Seconds / float64(s.size()))
	m.settle()
	s.planned = nil
	s.computing = slices.DeleteFunc(s.computing, func(o *member) bool { return o == m })
	confirms := s.settled && a.same(s.answers[0].Answer)
	s.answers = append(s.answers, answered{m, a})
	switch {
	case confirms && c.phase == reducing:
		return nil
	case confirms:
		return c.assign()
	case c.phase == reducing:
		s.opinions = max(s.opinions, 2) // also if whoever it differs from has gone since
		effects = c.unsum()
	}
	return append(effects, c.judge(s)...)
}

// took takes in how long a lane took. The number is the worker's and decides no bits.
func (m *member) took(seconds float64) {
	if seconds > 0 && !math.IsInf(seconds, 0) {
		m.seconds = min(max(smooth(m.seconds, seconds), 1e-6), 1e6)
	}
}

// faultIn is what a worker did whose answer no correct one gives; empty: nothing.
func (c *Coordinator) faultIn(a Answer, lease span) string {
	lanes := c.plan.Spec.Batch.Lanes
	sums := 0
	if lease.size() == lanes {
		sums = c.plan.Layout.Buckets()
	}
	switch {
	case len(a.Lanes) != lease.size():
		return fmt.Sprintf("reported %d losses of lanes [%d, %d) for step %d", len(a.Lanes), lease.lo, lease.hi, a.Step)
	case len(a.SumSquares) != sums:
		return fmt.Sprintf("reported %d sums of squares for step %d: its lease has %d", len(a.SumSquares), a.Step, sums)
	case a.StateDigest != c.digest:
		return fmt.Sprintf("computed step %d from a state with digest %s: the group's is %s: its memory or device is faulty", a.Step, a.StateDigest, c.digest)
	}
	perLane := int64(c.plan.Spec.Batch.TokensPerStep / lanes)
	for i, l := range a.Lanes {
		if l.Tokens != perLane {
			return fmt.Sprintf("trained on %d tokens in lane %d of step %d: the lane has %d", l.Tokens, a.Lo+i, a.Step, perLane)
		}
	}
	return ""
}

// allIn has the contributions summed. A lone member that holds the root keeps it.
func (c *Coordinator) allIn() []CoordinatorEffect {
	c.enter(reducing)
	c.anticipated = false
	c.attempt++
	if c.alone() {
		a := c.shares[0].answers[0]
		c.reduced = &Reduced{Step: a.Step, RootDigest: a.GradDigest, SumSquares: a.SumSquares}
		return c.decide()
	}
	return []CoordinatorEffect{Reduce{Step: c.step + 1, Attempt: c.attempt, Contributions: c.contributions()}}
}

// resum goes back for lanes whose contribution was lost before it was summed.
func (c *Coordinator) resum() []CoordinatorEffect { return append(c.unsum(), c.assign()...) }

// unsum goes back to where contributions are computed; the sum, done or not, does not count. What
// members had computed who have gone since is gone with it.
func (c *Coordinator) unsum() (effects []CoordinatorEffect) {
	if c.reduced == nil {
		effects = []CoordinatorEffect{CancelReduce{}}
	}
	c.reduced = nil
	for _, s := range c.shares {
		s.answers = slices.DeleteFunc(s.answers, func(a answered) bool { return !slices.Contains(c.members, a.member) })
		s.settled = s.settled && len(s.answers) > 0
	}
	c.enter(computing)
	return effects
}

// summed takes the root.
func (c *Coordinator) summed(e Reduced) []CoordinatorEffect {
	if c.phase != reducing || c.reduced != nil || e.Attempt != c.attempt {
		return nil
	}
	if e.Err == nil {
		c.exchange.measure(e.Seconds, len(c.shares))
		c.reduced = &e
		return c.decide()
	}
	m := c.members.find(e.Worker)
	switch {
	case m == nil:
		return c.abandon(fmt.Errorf("summing the gradients of step %d: %w", e.Step, e.Err))
	case e.Wrong:
		return c.expel(m, fmt.Sprintf("sent another gradient of step %d than it answered for: %v", e.Step, e.Err))
	}
	return c.lost(m, fmt.Sprintf("was lost: its gradient of step %d did not arrive: %v", e.Step, e.Err))
}

// decide settles the step and makes the decision durable, or compares it with the
// recorded one. It waits for joiners: after it the state that they load is gone.
func (c *Coordinator) decide() []CoordinatorEffect {
	loading := c.members.awaited(c.step)
	if c.phase != reducing || c.reduced == nil || loading && c.waited < joinTicks {
		return nil
	}
	if c.doubtful() {
		return c.computeAgain()
	}
	intent, err := c.newIntent(c.reduced.RootDigest, c.reduced.SumSquares)
	if err != nil {
		return c.abandon(err)
	}
	c.intent = intent
	c.enter(deciding)
	if r := c.recorded.Step(intent.Step); r != nil {
		if d := intent.difference(r.Intent); d != "" {
			return c.end(fmt.Errorf("recomputing step %d: it differs from its record in the journal: %s: the engine, the dataset or the journal has changed", intent.Step, d))
		}
		return c.commit() // durable since then
	}
	c.recorded.Steps = append(c.recorded.Steps, Recorded{Intent: intent})
	return []CoordinatorEffect{WriteIntent{intent}}
}

// newIntent settles every number of the step. The error is the policy for values
// that are not finite.
func (c *Coordinator) newIntent(root model.Digest, sumSquares []Float) (Intent, error) {
	spec, step := c.plan.Spec, c.step+1
	i := Intent{
		Step: step, Action: ActionApply, RootDigest: root,
		Epoch: c.plan.Sampler.Epoch(uint64(step)), LR: spec.hyper(step).LR,
	}
	var faulty []int
	for _, s := range c.shares {
		a := s.answers[0]
		record := LeaseRecord{Lo: a.Lo, Hi: a.Hi, Worker: string(a.member.id), GradDigest: a.GradDigest}
		for lane, l := range a.Lanes {
			i.LossSum += l.LossSum
			i.Tokens += l.Tokens
			record.LossSums = append(record.LossSums, l.LossSum)
			record.TokenDigests = append(record.TokenDigests, l.TokenDigest)
			if !l.LossSum.finite() {
				faulty = append(faulty, a.Lo+lane)
			}
		}
		i.Leases = append(i.Leases, record)
	}
	norm := gradNorm(sumSquares, i.Tokens)
	i.GradNorm = Float(norm)
	if i.LossSum.finite() && i.GradNorm.finite() {
		i.Scale = spec.scale(norm, i.Tokens)
		return i, nil
	}
	if spec.OnNonfinite == OnNonfiniteStop {
		return Intent{}, fmt.Errorf("step %d is not finite: loss sum %v (lanes %v), gradient norm %v: the state before it is kept: lower optimizer.lr, or set on_nonfinite: skip", i.Step, i.LossSum, faulty, i.GradNorm)
	}
	i.Action = ActionSkip
	return i, nil
}

// commit orders the update that the durable intent describes.
func (c *Coordinator) commit() []CoordinatorEffect {
	c.enter(applying)
	i := c.intent
	c.reported = nil
	return c.members.holding().askAll(Commit{Step: i.Step, Action: i.Action, RootDigest: i.RootDigest, Scale: i.Scale, Hyper: c.plan.Spec.hyper(i.Step)})
}

// applied takes a member's digest of the new state.
func (c *Coordinator) applied(m *member, msg Applied) []CoordinatorEffect {
	commit, asked := m.unanswered.(Commit)
	if c.phase != applying || !asked || msg.Step != commit.Step {
		return nil
	}
	if commit.Action == ActionSkip && msg.Digest != c.digest {
		return c.expel(m, fmt.Sprintf("reports a state with digest %s after step %d, which was skipped: the state before has %s: its memory or device is faulty", msg.Digest, msg.Step, c.digest))
	}
	m.settle()
	c.reported = append(c.reported, report{m, msg.Digest})
	return c.allApplied()
}

// allApplied goes on when every member has applied the step, and all have the same
// state: a majority expels the others.
func (c *Coordinator) allApplied() []CoordinatorEffect {
	if len(c.reported) == 0 || !c.members.answered() {
		return nil
	}
	common, votes := majority(c.reported)
	for _, r := range c.reported {
		switch {
		case r.digest == common:
		case 2*votes > len(c.reported) && !slices.Contains(c.members, r.member):
		case 2*votes > len(c.reported):
			return c.expel(r.member, fmt.Sprintf("reports a state with digest %s after step %d: most members have %s: its memory or device is faulty", r.digest, c.intent.Step, common))
		default:
			first := c.reported[0]
			return c.end(fmt.Errorf("worker %s reports a state with digest %s after step %d: worker %s reported %s: the memory or device of one of them is faulty", r.member.id, r.digest, c.intent.Step, first.member.id, first.digest))
		}
	}
	c.state = common
	return c.allConfirmed()
}

// majority is the digest that most report, the first of equals, and how many do.
func majority(reports []report) (common model.Digest, votes int) {
	for _, r := range reports {
		n := 0
		for _, o := range reports {
			if o.digest == r.digest {
				n++
			}
		}
		if n > votes {
			common, votes = r.digest, n
		}
	}
	return common, votes
}

// allConfirmed goes on when the group holds one new state.
func (c *Coordinator) allConfirmed() []CoordinatorEffect {
	if c.plan.EvalDue(c.intent.Step) {
		return c.evaluate()
	}
	return c.confirm(nil)
}

// confirm closes the step: its record follows, or is compared with the one that is
// there.
func (c *Coordinator) confirm(valLoss *Float) []CoordinatorEffect {
	i := c.intent
	record := CommitRecord{
		Kind: kindCommit, Step: i.Step, Loss: i.LossSum / Float(i.Tokens), ValLoss: valLoss,
		GradNorm: i.GradNorm, LR: i.LR, Tokens: i.Tokens, Epoch: i.Epoch, StateDigest: c.state,
	}
	closing := CoordinatorEffect(WriteCommit{Record: record})
	r := c.recorded.Step(i.Step)
	if r.Commit != nil {
		if d := record.difference(*r.Commit); d != "" {
			return c.end(fmt.Errorf("recomputing step %d: it differs from its record in the journal: %s: the engine, the dataset or the journal has changed", i.Step, d))
		}
		closing = Announce{StepDone{Record: *r.Commit, Again: true}}
	} else {
		r.Commit = &record
	}
	c.step, c.digest, c.faults = i.Step, c.state, 0
	return append([]CoordinatorEffect{closing}, c.next()...)
}
