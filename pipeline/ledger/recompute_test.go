package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"andrea/cpuengine"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/ledger"
)

// newEngine is an engine with the state before training.
func newEngine(t testing.TB, p *pipeline.Plan, slots int) model.Engine {
	t.Helper()
	e, err := cpuengine.New(p.Model, cpuengine.Options{Microbatch: 1, Slots: slots, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for i := range p.Layout.Buckets() {
		lo, hi := p.Layout.Bucket(i)
		weights := make([]float32, hi-lo)
		p.Layout.InitBucket(p.Spec.Seed, i, weights)
		if err := e.Load(i, weights, make([]float32, hi-lo), make([]float32, hi-lo)); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// must fails the test on an error.
func must[T any](t testing.TB) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// trainer trains as a crew does, with plain loops: each lane's gradient is read out, leases are sums of pairs of
// neighbours, and the root is the sum of pairs of leases. Its model has one bucket.
type trainer struct {
	testing.TB
	p *pipeline.Plan
	e model.Engine
}

// gradient is a lane's, with its loss sum.
func (tr trainer) gradient(step int64, lane int) (g []float32, loss pipeline.Float) {
	if err := tr.e.Zero(0); err != nil {
		tr.Fatal(err)
	}
	for microbatch := range 2 {
		l := must[model.Loss](tr)(tr.e.Accumulate(0, model.Batch{Windows: 1, T: 8, Tokens: windowOf(tr, tr.p, step, lane, microbatch)}))
		loss += pipeline.Float(l.Sum)
	}
	g = make([]float32, tr.p.Layout.Size)
	if err := tr.e.ReadGrad(0, 0, g); err != nil {
		tr.Fatal(err)
	}
	return g, loss
}

// pairs adds neighbours until one is left.
func pairs(all [][]float32) []float32 {
	for len(all) > 1 {
		var next [][]float32
		for i := 0; i < len(all); i += 2 {
			sum := slices.Clone(all[i])
			for k, x := range all[i+1] {
				sum[k] += x
			}
			next = append(next, sum)
		}
		all = next
	}
	return all[0]
}

// step trains a step and completes what an honest run has recorded of it.
func (tr trainer) step(r *pipeline.Recorded) {
	i := &r.Intent
	var all [][]float32
	i.LossSum = 0
	for n := range i.Leases {
		l := &i.Leases[n]
		for lane := l.Lo; lane < l.Hi; lane++ {
			g, loss := tr.gradient(i.Step, lane)
			all, l.LossSums[lane-l.Lo] = append(all, g), loss
			i.LossSum += loss
		}
		l.GradDigest = model.DigestOf(model.Gradient, 0, pairs(all[l.Lo:l.Hi]))
	}
	root := pairs(all)
	norm := pipeline.GradNorm([]pipeline.Float{pipeline.Float(model.SumSquares(root))}, 64)
	i.RootDigest, i.GradNorm, i.Scale = model.DigestOf(model.Gradient, 0, root), pipeline.Float(norm), tr.p.Scale(norm, 64)
	if err := tr.e.WriteGrad(0, 0, root); err != nil {
		tr.Fatal(err)
	}
	if i.Action == pipeline.ActionApply {
		r.Commit.StateDigest = must[model.Digest](tr)(tr.e.Update(0, i.Scale, tr.p.Hyper(i.Step)))
	}
	r.Commit.Loss, r.Commit.GradNorm = i.LossSum/64, i.GradNorm
	if r.Commit.ValLoss == nil {
		return
	}
	*r.Commit.ValLoss = 0
	for _, w := range tr.p.ValidationWindows {
		ids := make([]uint32, 9)
		if err := tokens.Read(ids, w*8); err != nil {
			tr.Fatal(err)
		}
		*r.Commit.ValLoss += pipeline.Float(must[model.Loss](tr)(tr.e.Eval(model.Batch{Windows: 1, T: 8, Tokens: ids})).Sum)
	}
	*r.Commit.ValLoss /= 16
}

// trained is what a run has recorded of its training.
func trained(t testing.TB, p *pipeline.Plan, steps int64) []pipeline.Recorded {
	tr := trainer{t, p, newEngine(t, p, 1)}
	all := honest(t, p, steps)
	for i := range all {
		tr.step(&all[i])
	}
	return all
}

// recomputed computes the steps of a journal again, from the seed.
func recomputed(t testing.TB, p *pipeline.Plan, all []pipeline.Recorded) (same int64, faults []ledger.Fault) {
	t.Helper()
	_, j := written(t, all)
	faults, err := ledger.Recompute(ledger.Recomputation{
		Plan: p, Journal: j, Tokens: tokens, Engine: newEngine(t, p, model.Slots(lanesOfRig)), To: j.Last(),
		Same: func(step int64) {
			if same++; same != step {
				t.Errorf("told of step %d after step %d", step, same-1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return same, faults
}

// Steps that a crew of one to four has trained, however it shared the lanes, give the same bits on one engine.
func TestATrainedRunIsRecomputed(t *testing.T) {
	p := planOf(t, 1, 10)
	all := trained(t, p, 10)
	if same, faults := recomputed(t, p, all); same != 10 || len(faults) != 0 {
		t.Errorf("%d steps are the same, then %v", same, faults)
	}
	data, _ := written(t, all)
	if report := verified(t, p, data); !report.True() {
		t.Error(report.Faults)
	}
	all[9].Commit = nil
	if same, faults := recomputed(t, p, all); same != 10 || len(faults) != 0 {
		t.Errorf("without the last record: %d steps are the same, then %v", same, faults)
	}
}

// What reading does not find, computing does, and it says where.
func TestWhatWasNotComputedIsFound(t *testing.T) {
	p := planOf(t, 1, 10)
	honestly := trained(t, p, 6)
	for _, c := range []struct {
		name  string
		step  int64
		forge func(r *pipeline.Recorded)
		says  string
	}{
		{"a lease's gradient", 2, func(r *pipeline.Recorded) { r.Intent.Leases[1].GradDigest[0]++ }, `the gradient digest of lanes [1, 2) of worker "worker-1"`},
		{"the root", 3, func(r *pipeline.Recorded) { r.Intent.RootDigest[1]++ }, "root_digest is"},
		{"two losses", 4, func(r *pipeline.Recorded) {
			l := r.Intent.Leases[0].LossSums
			l[0], l[1] = l[1], l[0]
		}, "the loss sum of lane 0"},
		{"the norm", 4, func(r *pipeline.Recorded) { r.Intent.GradNorm *= 2; r.Commit.GradNorm *= 2 }, "grad_norm is"},
		{"the state", 5, func(r *pipeline.Recorded) { r.Commit.StateDigest[0]++ }, "state_digest is"},
		{"the validation loss", 4, func(r *pipeline.Recorded) { *r.Commit.ValLoss *= 2 }, "val_loss is"},
		{"the tokens", 6, func(r *pipeline.Recorded) { r.Intent.Leases[0].TokenDigests[0][1]++ }, "the token digest of lane 0"},
		{"the learning rate", 6, func(r *pipeline.Recorded) { r.Intent.LR *= 2 }, "lr is"},
		{"the scale", 6, func(r *pipeline.Recorded) { r.Intent.Scale *= 2 }, "scale is"},
		{"the epoch", 6, func(r *pipeline.Recorded) { r.Intent.Epoch++ }, "epoch is"},
		{"what was done", 6, func(r *pipeline.Recorded) { r.Intent.Action = pipeline.ActionSkip }, "action is"},
		{"the number of tokens", 6, func(r *pipeline.Recorded) { r.Intent.Tokens-- }, "tokens is"},
		{"a lease that is missing", 6, func(r *pipeline.Recorded) { r.Intent.Leases = r.Intent.Leases[1:] }, "every lane must be in one"},
		{"a validation that was not due", 5, func(r *pipeline.Recorded) { r.Commit.ValLoss = &r.Commit.Loss }, "having a val_loss"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := copied(t, honestly, c.step)
			c.forge(&all[c.step-1])
			same, faults := recomputed(t, p, all)
			if same != c.step-1 || len(faults) == 0 || faults[0].Step != c.step || !strings.Contains(errors.Join(asErrors(faults)...).Error(), c.says) {
				t.Errorf("%d steps are the same, then %v", same, faults)
			}
		})
	}
}

func asErrors(faults []ledger.Fault) (errs []error) {
	for _, f := range faults {
		errs = append(errs, f)
	}
	return errs
}

// Computing begins at any state that is the recorded one, and at no other.
func TestComputingBeginsAtARecordedState(t *testing.T) {
	p := planOf(t, 1, 10)
	all := trained(t, p, 6)
	_, j := written(t, all)
	at := newEngine(t, p, model.Slots(lanesOfRig))
	o := ledger.Recomputation{Plan: p, Journal: j, Tokens: tokens, Engine: at, To: 3}
	if faults, err := ledger.Recompute(o); err != nil || len(faults) != 0 {
		t.Fatal(faults, err)
	}
	o.After, o.To = 3, 6 // the engine holds state 3
	if faults, err := ledger.Recompute(o); err != nil || len(faults) != 0 {
		t.Error(faults, err)
	}
	o.After = 4 // it holds state 6
	faults, err := ledger.Recompute(o)
	if err != nil || len(faults) != 1 || faults[0].Step != 4 || !strings.Contains(faults[0].What, "state_digest") {
		t.Error(faults, err)
	}
}

// A step with a loss that is no number leaves the state as it is.
func TestASkippedStepIsRecomputed(t *testing.T) {
	p := planOf(t, 1, 10)
	all := trained(t, p, 3)
	skip(all, 3)
	_, faults := recomputed(t, p, all)
	if len(faults) == 0 || faults[0].Step != 3 {
		t.Errorf("the step had no such loss: %v", faults)
	}
	_, j := written(t, all)
	faults, err := ledger.Recompute(ledger.Recomputation{
		Plan: p, Journal: j, Tokens: tokens, Engine: notFinite{newEngine(t, p, model.Slots(lanesOfRig)), new(int)}, To: 3,
	})
	if err != nil || len(faults) != 0 {
		t.Error(faults, err)
	}
}

// notFinite is an engine whose 17th microbatch, the first of the third step, has no loss.
type notFinite struct {
	model.Engine
	seen *int
}

func (n notFinite) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	l, err := n.Engine.Accumulate(slot, b)
	if *n.seen++; *n.seen == 17 {
		l.Sum = float64(nan())
	}
	return l, err
}

func TestAnEngineThatFails(t *testing.T) {
	p := planOf(t, 1, 10)
	_, j := written(t, trained(t, p, 3))
	fail := errors.New("no device")
	for _, o := range []ledger.Recomputation{
		{Tokens: &unreadable{10, fail}, Engine: newEngine(t, p, model.Slots(lanesOfRig))},
		{Tokens: tokens, Engine: failing{newEngine(t, p, model.Slots(lanesOfRig)), fail}},
	} {
		o.Plan, o.Journal, o.To = p, j, 3
		if faults, err := ledger.Recompute(o); !errors.Is(err, fail) || !strings.Contains(err.Error(), "recomputing step") || faults != nil {
			t.Errorf("%v, %v", faults, err)
		}
	}
}

// failing is an engine that folds nothing.
type failing struct {
	model.Engine
	fail error
}

func (f failing) Fold(int, int) error { return f.fail }
