package pipeline

import (
	"fmt"
	"math/bits"
	"slices"

	"andrea/model"
)

// answered is a finished lease and who computed it.
type answered struct {
	member *member
	Answer
}

// leases cuts the tree into one subtree for each of the first workers: as many as
// the largest power of two allows. The others stand by with the state.
func leases(step int64, lanes, workers int) []Lease {
	n := 1 << (bits.Len(uint(min(workers, lanes))) - 1)
	size := lanes / n
	ls := make([]Lease, n)
	for i := range ls {
		ls[i] = Lease{Step: step, Lo: i * size, Hi: (i + 1) * size}
	}
	return ls
}

// compute leases the lanes of the next step.
func (c *Coordinator) compute() (effects []CoordinatorEffect) {
	c.enter(computing)
	c.answers = nil
	for i, l := range leases(c.step+1, c.plan.Spec.Batch.Lanes, len(c.members)) {
		effects = append(effects, c.members[i].ask(l))
	}
	return effects
}

// answer takes a finished lease; with the last one the gradient is complete.
func (c *Coordinator) answer(m *member, a Answer) []CoordinatorEffect {
	lease, asked := m.unanswered.(Lease)
	if c.phase != computing || !asked || a.Step != lease.Step {
		return nil
	}
	if fault := c.faultIn(a, lease); fault != "" {
		return c.lost(m, fault) // the others hold the confirmed state
	}
	m.unanswered = nil
	c.answers = append(c.answers, answered{m, a})
	if !c.members.answered() {
		return nil
	}
	slices.SortFunc(c.answers, func(a, b answered) int { return a.Lo - b.Lo })
	if len(c.members) == 1 {
		return c.decide(a.GradDigest, a.SumSquares) // the root stays where it is
	}
	return c.reduce()
}

// faultIn is what a worker did whose answer no correct one gives; empty: nothing.
func (c *Coordinator) faultIn(a Answer, lease Lease) string {
	lanes := c.plan.Spec.Batch.Lanes
	sums := 0
	if lease.whole(lanes) {
		sums = c.plan.Layout.Buckets()
	}
	switch {
	case a.Lo != lease.Lo || a.Hi != lease.Hi || len(a.Lanes) != lease.Hi-lease.Lo:
		return fmt.Sprintf("answered lanes [%d, %d) with %d losses for step %d: its lease was [%d, %d)", a.Lo, a.Hi, len(a.Lanes), a.Step, lease.Lo, lease.Hi)
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

// reduce has the contributions of several workers summed.
func (c *Coordinator) reduce() []CoordinatorEffect {
	c.enter(reducing)
	r := Reduce{Step: c.step + 1}
	for _, a := range c.answers {
		r.Contributions = append(r.Contributions, Contribution{
			Worker: a.member.id, Incarnation: a.member.incarnation, Lo: a.Lo, Hi: a.Hi, Digest: a.GradDigest,
		})
	}
	return []CoordinatorEffect{r}
}

func (c *Coordinator) reduced(e Reduced) []CoordinatorEffect {
	if c.phase != reducing || e.Step != c.step+1 {
		return nil
	}
	if e.Err != nil {
		return c.abandon(fmt.Errorf("summing the gradients of step %d: %w", e.Step, e.Err))
	}
	return c.decide(e.RootDigest, e.SumSquares)
}

// decide settles the step and makes the decision durable, or compares it with the
// one that an earlier run recorded.
func (c *Coordinator) decide(root model.Digest, sumSquares []Float) []CoordinatorEffect {
	intent, err := c.newIntent(root, sumSquares)
	if err != nil {
		return c.abandon(err)
	}
	c.intent = intent
	c.enter(deciding)
	if r := c.recorded.Step(intent.Step); r != nil {
		if d := intent.difference(r.Intent); d != "" {
			return c.end(fmt.Errorf("recomputing step %d: it differs from its record in the journal: %s: the engine, the dataset or the journal has changed", intent.Step, d))
		}
		return c.commit() // durable since an earlier run
	}
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
	for _, a := range c.answers {
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
	c.state, c.reporter = model.Digest{}, ""
	return c.members.askAll(Commit{Step: i.Step, Action: i.Action, RootDigest: i.RootDigest, Scale: i.Scale, Hyper: c.plan.Spec.hyper(i.Step)})
}

// applied takes a member's digest of the new state: all must have the same.
func (c *Coordinator) applied(m *member, msg Applied) []CoordinatorEffect {
	commit, asked := m.unanswered.(Commit)
	if c.phase != applying || !asked || msg.Step != commit.Step {
		return nil
	}
	if commit.Action == ActionSkip && msg.Digest != c.digest {
		return c.lost(m, fmt.Sprintf("reports a state with digest %s after step %d, which was skipped: the state before has %s: its memory or device is faulty", msg.Digest, msg.Step, c.digest))
	}
	if c.state != (model.Digest{}) && c.state != msg.Digest {
		return c.end(fmt.Errorf("worker %s reports a state with digest %s after step %d: worker %s reported %s: the memory or device of one of them is faulty", m.id, msg.Digest, msg.Step, c.reporter, c.state))
	}
	if c.state == (model.Digest{}) {
		c.state, c.reporter = msg.Digest, m.id
	}
	m.unanswered = nil
	return c.allApplied()
}

// allApplied goes on when every member has applied the step.
func (c *Coordinator) allApplied() []CoordinatorEffect {
	if !c.members.answered() {
		return nil
	}
	if c.evalDue(c.intent.Step) {
		return c.evaluate()
	}
	return c.confirm(nil)
}

// confirm closes the step: its record follows, or is compared with the one that an
// earlier run left.
func (c *Coordinator) confirm(valLoss *Float) []CoordinatorEffect {
	i := c.intent
	record := CommitRecord{
		Kind: kindCommit, Step: i.Step, Loss: i.LossSum / Float(i.Tokens), ValLoss: valLoss,
		GradNorm: i.GradNorm, LR: i.LR, Tokens: i.Tokens, Epoch: i.Epoch, StateDigest: c.state,
	}
	closing := CoordinatorEffect(WriteCommit{Record: record})
	if r := c.recorded.Step(i.Step); r != nil && r.Commit != nil {
		if d := record.difference(*r.Commit); d != "" {
			return c.end(fmt.Errorf("recomputing step %d: it differs from its record in the journal: %s: the engine, the dataset or the journal has changed", i.Step, d))
		}
		closing = Announce{StepDone{Record: *r.Commit, Again: true}}
	}
	c.step, c.digest = i.Step, c.state
	return append([]CoordinatorEffect{closing}, c.next()...)
}
