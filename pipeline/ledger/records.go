package ledger

import (
	"math"
	"strings"

	"andrea/checkpoints"
	"andrea/pipeline"
)

// checkLosses adds the losses of the lanes up, as the coordinator did: from zero, by lane.
func checkLosses(i pipeline.Intent, lanes []lane, f *faults) {
	var sum pipeline.Float
	for _, l := range lanes {
		sum += l.lossSum
	}
	f.want(same(i.LossSum, sum), "loss_sum", i.LossSum, sum)
	if len(i.Leases) == 1 {
		f.want(i.RootDigest == i.Leases[0].GradDigest, "root_digest", i.RootDigest, i.Leases[0].GradDigest.String()+" as of the lease, which is the whole tree")
	}
}

// checkIntent checks what follows from the plan and the other fields of an intent.
func checkIntent(p *pipeline.Plan, i pipeline.Intent, f *faults) {
	tokens := int64(p.Spec.Batch.TokensPerStep)
	f.want(i.Step <= p.Spec.Steps, "the step", i.Step, "one of the job's steps")
	f.want(i.Tokens == tokens, "tokens", i.Tokens, tokens)
	f.want(same32(i.LR, p.Hyper(i.Step).LR), "lr", i.LR, p.Hyper(i.Step).LR)
	f.want(i.Epoch == p.Sampler.Epoch(uint64(i.Step)), "epoch", i.Epoch, p.Sampler.Epoch(uint64(i.Step)))
	f.want(!(i.GradNorm < 0), "grad_norm", i.GradNorm, "a norm")
	for _, l := range i.Leases {
		f.want(pipeline.ValidName(l.Worker), "the worker of "+place(l.Lo, l.Hi), l.Worker, "an id")
	}
	action, scale := pipeline.ActionApply, p.Scale(float64(i.GradNorm), tokens)
	if !finite(i.LossSum) || !finite(i.GradNorm) {
		action, scale = pipeline.ActionSkip, 0
		f.want(p.Spec.OnNonfinite == pipeline.OnNonfiniteSkip, "on_nonfinite", p.Spec.OnNonfinite, pipeline.OnNonfiniteSkip+", or the step has no intent: its loss or norm is not finite")
	}
	f.want(i.Action == action, "action", i.Action, action)
	f.want(same32(i.Scale, scale), "scale", i.Scale, scale)
}

// checkCommit checks a commit record beside its intent.
func checkCommit(p *pipeline.Plan, i pipeline.Intent, c pipeline.CommitRecord, f *faults) {
	loss := i.LossSum / pipeline.Float(i.Tokens)
	f.want(same(c.Loss, loss), "loss", c.Loss, loss)
	f.want(same(c.GradNorm, i.GradNorm), "grad_norm of the record", c.GradNorm, i.GradNorm)
	f.want(same32(c.LR, i.LR), "lr of the record", c.LR, i.LR)
	f.want(c.Tokens == i.Tokens, "tokens of the record", c.Tokens, i.Tokens)
	f.want(c.Epoch == i.Epoch, "epoch of the record", c.Epoch, i.Epoch)
	due := p.EvalDue(c.Step)
	f.want((c.ValLoss != nil) == due, "having a val_loss", c.ValLoss != nil, due)
	if c.ValLoss != nil {
		f.want(!(*c.ValLoss < 0), "val_loss", *c.ValLoss, "a loss")
	}
	f.want(c.Seconds > 0 && !math.IsInf(c.Seconds, 0), "seconds", c.Seconds, "a time")
	speed := float64(c.Tokens) / c.Seconds
	f.want(c.TokensPerSecond == speed, "tokens_per_second", c.TokensPerSecond, speed)
}

// CheckManifest returns what a checkpoint's manifest says that its run does not.
func CheckManifest(p *pipeline.Plan, j *pipeline.Journal, m checkpoints.Manifest) []Fault {
	step := int64(m.Step)
	f := &faults{step: step}
	if step > j.Last() || m.RecordDigest != j.CommitDigest(step) {
		f.add("the checkpoint's record_digest is %.16q, the journal's record of the step has %.16q: the files belong to different runs, or one was changed", m.RecordDigest, j.CommitDigest(step))
	} else if r := j.Step(step); r != nil && r.Commit != nil {
		f.want(m.StateDigest == r.Commit.StateDigest, "the checkpoint's state_digest", m.StateDigest, r.Commit.StateDigest)
	}
	position, epoch := step*int64(p.Sampler.WindowsPerStep()), int64(p.Sampler.Epoch(uint64(step)+1))
	f.want(m.Data.Position == position, "the checkpoint's position", m.Data.Position, position)
	f.want(m.Data.Epoch == epoch, "the checkpoint's epoch", m.Data.Epoch, epoch)
	f.want(m.Data.Fingerprint == p.Dataset.Fingerprint, "the checkpoint's dataset", m.Data.Fingerprint, p.Dataset.Fingerprint)
	job, err := pipeline.ParseJobSpec([]byte(m.Job))
	if err != nil {
		f.add("the checkpoint's job spec cannot be read: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return f.all
	}
	job.Data.Path = p.Spec.Data.Path // the dataset may have moved; its fingerprint has not
	if string(job.Marshal()) != string(p.Spec.Marshal()) {
		f.add("the checkpoint was trained by another job spec than the run's")
	}
	return f.all
}
