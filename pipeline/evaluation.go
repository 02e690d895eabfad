package pipeline

import "fmt"

// evaluate spreads the validation windows over the members.
func (c *Coordinator) evaluate() (effects []CoordinatorEffect) {
	c.enter(evaluating)
	n := len(c.plan.ValidationWindows)
	c.losses = make([]Float, n)
	holding := c.members.holding()
	for i, m := range holding {
		if lo, hi := i*n/len(holding), (i+1)*n/len(holding); lo < hi {
			effects = append(effects, m.ask(Eval{Step: c.intent.Step, Lo: lo, Hi: hi}))
		}
	}
	return effects
}

// evaluated takes a member's losses; with the last ones the mean is known, added in
// window order whoever computed what.
func (c *Coordinator) evaluated(m *member, msg Evaluated) []CoordinatorEffect {
	eval, asked := m.unanswered.(Eval)
	if c.phase != evaluating || !asked || msg.Step != eval.Step || msg.Lo != eval.Lo || msg.Hi != eval.Hi {
		return nil
	}
	windows, context := eval.Hi-eval.Lo, int64(c.plan.Model.Context)
	if tokens := int64(windows) * context; len(msg.Sums) != windows || msg.Tokens != tokens {
		return c.expel(m, fmt.Sprintf("evaluated %d windows of %d tokens in all for step %d: it was asked for %d of %d", len(msg.Sums), msg.Tokens, msg.Step, windows, tokens))
	}
	if msg.StateDigest != c.state {
		return c.expel(m, fmt.Sprintf("evaluated state %d with digest %s: the group's is %s: its memory or device is faulty", msg.Step, msg.StateDigest, c.state))
	}
	m.settle()
	copy(c.losses[eval.Lo:], msg.Sums)
	if !c.members.answered() {
		return nil
	}
	var sum Float
	for _, s := range c.losses {
		sum += s
	}
	mean := sum / Float(int64(len(c.losses))*context)
	return c.confirm(&mean)
}
