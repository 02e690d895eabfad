package ledger

import (
	"fmt"

	"andrea/model"
	"andrea/pipeline"
)

// Recomputation is the steps After+1 to To of a journal, to be computed again.
type Recomputation struct {
	Plan    *pipeline.Plan
	Journal *pipeline.Journal
	Tokens  Tokens       // of the plan's dataset
	Engine  model.Engine // holds state After; it has model.Slots of the lanes
	After   int64
	To      int64            // at most the journal's last step
	Same    func(step int64) // is told of each step that gave what was recorded; nil: nobody is
}

// recomputer walks the steps in order.
type recomputer struct {
	Recomputation
	state  model.Digest // that the engine holds
	claims []lane       // of the step's lanes
	leases map[laneRange]pipeline.LeaseRecord
	losses []model.Loss // of the step's lanes
}

// laneRange is the lanes [lo, hi).
type laneRange struct{ lo, hi int }

// Recompute computes the steps again until one gives something else than was recorded, and returns what differs in
// that step; none if all are the same. Records are only compared: the lanes are computed one by one and added along
// the tree, whoever computed them then, and nothing of the protocol takes part. The engine's state is undefined
// afterwards. The error says that it could not compute.
func Recompute(o Recomputation) ([]Fault, error) {
	r := &recomputer{Recomputation: o}
	var err error
	if r.state, err = stateDigest(r.Engine, r.Plan.Layout.Buckets()); err != nil {
		return nil, err
	}
	f := &faults{step: r.After}
	if recorded := r.Journal.Step(r.After); recorded != nil && recorded.Commit != nil {
		f.want(recorded.Commit.StateDigest == r.state, "state_digest", recorded.Commit.StateDigest, fmt.Sprintf("%v, the loaded state's", r.state))
	}
	for step := r.After + 1; step <= r.To && len(f.all) == 0; step++ {
		f.step = step
		if err := r.step(*r.Journal.Step(step), f); err != nil {
			return nil, fmt.Errorf("recomputing step %d: %w", step, err)
		}
		if len(f.all) == 0 && r.Same != nil {
			r.Same(step)
		}
	}
	return f.all, nil
}

// step computes a step again, up to the first thing that decides another.
func (r *recomputer) step(recorded pipeline.Recorded, f *faults) error {
	i := recorded.Intent
	var ok bool
	if r.claims, ok = lanesOf(i, r.Plan.Spec.Batch.Lanes, f); !ok {
		return nil
	}
	r.leases = map[laneRange]pipeline.LeaseRecord{}
	for _, l := range i.Leases {
		r.leases[laneRange{l.Lo, l.Hi}] = l
	}
	r.losses = r.losses[:0]
	if err := r.subtree(laneRange{0, len(r.claims)}, 0, i.Step, f); err != nil {
		return err
	}
	again, err := r.settle(i.Step)
	if err != nil {
		return err
	}
	compareIntents(i, again, f)
	if len(f.all) > 0 {
		return nil
	}
	return r.apply(recorded, f)
}

// settle is the intent that follows from the lanes' losses and the root in slot 0.
func (r *recomputer) settle(step int64) (i pipeline.Intent, err error) {
	i = pipeline.Intent{Step: step, Action: pipeline.ActionApply, Epoch: r.Plan.Sampler.Epoch(uint64(step)), LR: r.Plan.Hyper(step).LR}
	for _, l := range r.losses {
		i.LossSum += pipeline.Float(l.Sum)
		i.Tokens += l.Tokens
	}
	squares, err := pipeline.SquaresOf(r.Engine, 0, r.Plan.Layout.Buckets())
	if err != nil {
		return i, err
	}
	norm := pipeline.GradNorm(squares, i.Tokens)
	i.GradNorm = pipeline.Float(norm)
	if finite(i.LossSum) && finite(i.GradNorm) {
		i.Scale = r.Plan.Scale(norm, i.Tokens)
	} else {
		i.Action = pipeline.ActionSkip
	}
	i.RootDigest, err = gradDigest(r.Engine, 0, len(squares))
	return i, err
}

// compareIntents says in what the recorded intent differs.
func compareIntents(recorded, again pipeline.Intent, f *faults) {
	f.want(same(recorded.LossSum, again.LossSum), "loss_sum", recorded.LossSum, again.LossSum)
	f.want(recorded.Tokens == again.Tokens, "tokens", recorded.Tokens, again.Tokens)
	f.want(same(recorded.GradNorm, again.GradNorm), "grad_norm", recorded.GradNorm, again.GradNorm)
	f.want(recorded.RootDigest == again.RootDigest, "root_digest", recorded.RootDigest, again.RootDigest)
	f.want(recorded.Action == again.Action, "action", recorded.Action, again.Action)
	f.want(same32(recorded.Scale, again.Scale), "scale", recorded.Scale, again.Scale)
	f.want(same32(recorded.LR, again.LR), "lr", recorded.LR, again.LR)
	f.want(recorded.Epoch == again.Epoch, "epoch", recorded.Epoch, again.Epoch)
}

// apply updates the state and compares the record of it, if there is one.
func (r *recomputer) apply(recorded pipeline.Recorded, f *faults) (err error) {
	i := recorded.Intent
	if i.Action == pipeline.ActionApply {
		if r.state, err = r.Engine.Update(0, i.Scale, r.Plan.Hyper(i.Step)); err != nil {
			return err
		}
	}
	c := recorded.Commit
	if c == nil {
		return nil
	}
	f.want(c.StateDigest == r.state, "state_digest", c.StateDigest, r.state)
	due := r.Plan.EvalDue(i.Step)
	f.want((c.ValLoss != nil) == due, "having a val_loss", c.ValLoss != nil, due)
	if c.ValLoss == nil || !due {
		return nil
	}
	loss, err := r.validate()
	f.want(same(*c.ValLoss, loss), "val_loss", *c.ValLoss, loss)
	return err
}

// validate is the validation loss, nats per token: the sums of the windows are added in their order.
func (r *recomputer) validate() (pipeline.Float, error) {
	var sum pipeline.Float
	for n := range r.Plan.ValidationWindows {
		batch, err := r.batch(r.Plan.ValidationWindows[n : n+1])
		if err != nil {
			return 0, err
		}
		loss, err := r.Engine.Eval(batch)
		if err != nil {
			return 0, err
		}
		sum += pipeline.Float(loss.Sum)
	}
	return sum / pipeline.Float(int64(len(r.Plan.ValidationWindows))*int64(r.Plan.Model.Context)), nil
}

// stateDigest is the digest of the state that an engine holds.
func stateDigest(e model.Engine, buckets int) (digest model.Digest, err error) {
	for i := range buckets {
		d, err := e.StateDigest(i)
		if err != nil {
			return digest, err
		}
		digest = digest.Add(d)
	}
	return digest, nil
}

// gradDigest is the digest of a slot.
func gradDigest(e model.Engine, slot, buckets int) (digest model.Digest, err error) {
	for i := range buckets {
		d, err := e.GradDigest(slot, i)
		if err != nil {
			return digest, err
		}
		digest = digest.Add(d)
	}
	return digest, nil
}
