package launch

import (
	"errors"
	"fmt"
	"slices"

	"andrea/checkpoints/dirstore"
	"andrea/model"
	"andrea/pipeline/ledger"
)

// Replayed is what a recomputation of a run found.
type Replayed struct {
	After   int64             // the state that it began with: of a checkpoint, or 0: from the seed
	To      int64             // the last step that was to be computed
	Same    int64             // steps that gave what was recorded
	Damaged []dirstore.Damage // checkpoints that were passed over
	Faults  []ledger.Fault    // in what the first step differs that does; none: all steps are the same
}

// Replay computes the steps from..to of the run at dir again, to 0 being the last one recorded, and compares them
// with the journal. It begins at the newest intact checkpoint before from, else at the seed, and compares the steps
// between too. progress is told each step that is the same. Nothing is changed, and the run may be training
// meanwhile, if the machine has memory for both.
func Replay(env Environment, dir, dataPath string, from, to int64, progress func(step, to int64)) (r Replayed, err error) {
	e, err := openEvidence(env, dir, dataPath)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.data.Close()) }()
	if r.To, err = e.last(from, to); err != nil {
		return r, err
	}
	kind, err := e.engine(env.Engine)
	if err != nil {
		return r, err
	}
	start, damaged := e.newestBefore(from)
	r.Damaged = damaged
	if start != nil {
		r.After = int64(start.Manifest().Step)
		defer func() { err = errors.Join(err, start.Close()) }()
	}
	engine, err := kind.Open(e.plan.Model, e.plan.Spec.Batch.Microbatch, model.Slots(e.plan.Spec.Batch.Lanes))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := loadState(engine, e.plan.Layout, e.plan.Spec.Seed, start); err != nil {
		return r, fmt.Errorf("loading state %d: %w", r.After, err)
	}
	r.Faults, err = ledger.Recompute(ledger.Recomputation{
		Plan: e.plan, Journal: e.journal, Tokens: e.data, Engine: engine, After: r.After, To: r.To,
		Same: func(step int64) {
			r.Same++
			progress(step, r.To)
		},
	})
	return r, err
}

// last checks the steps that are asked for, and is the last of them.
func (e *evidence) last(from, to int64) (int64, error) {
	recorded := e.journal.Last()
	if e.broken != nil {
		return 0, fmt.Errorf("replaying the run %s: %w", e.dir, *e.broken)
	}
	if to == 0 {
		to = recorded
	}
	fail := func(format string, args ...any) (int64, error) {
		return 0, fmt.Errorf("replaying the run %s: "+format, append([]any{e.dir}, args...)...)
	}
	switch {
	case recorded == 0:
		return fail("its journal has no steps yet")
	case from < 1 || from > recorded:
		return fail("step %d is not recorded: its journal has steps 1 to %d", from, recorded)
	case to > recorded:
		return fail("step %d is not recorded: its journal has steps 1 to %d", to, recorded)
	case from > to:
		return fail("the first step is %d and the last %d: its journal has steps 1 to %d", from, to, recorded)
	}
	return to, nil
}

// engine is the one in the run's precision. One that computes other bits than the one that trained the run is
// refused, which only its checkpoints tell.
func (e *evidence) engine(kind Engine) (Engine, error) {
	if err := kind.CheckJob(e.plan.Spec); err != nil {
		return Engine{}, err
	}
	engine, err := kind.In(e.plan.Spec.Precision)
	if err != nil {
		return Engine{}, err
	}
	for _, m := range e.manifests {
		if m.EngineClass != engine.Class {
			return Engine{}, fmt.Errorf("replaying the run %s: it was trained with engine class %s: this program has %s, which computes other bits", e.dir, m.EngineClass, engine.Class)
		}
	}
	return engine, nil
}

// newestBefore opens the newest intact checkpoint of the run before a step; nil: there is none.
func (e *evidence) newestBefore(step int64) (newest *dirstore.Reader, damaged []dirstore.Damage) {
	for _, m := range slices.Backward(e.manifests) {
		if int64(m.Step) >= step {
			continue
		}
		if faults := ledger.CheckManifest(e.plan, e.journal, m); len(faults) > 0 {
			damaged = append(damaged, dirstore.Damage{Step: m.Step, Reason: faults[0]})
			continue
		}
		reader, err := e.store.OpenStep(m.Step)
		if err == nil {
			return reader, damaged
		}
		damaged = append(damaged, dirstore.Damage{Step: m.Step, Reason: err})
	}
	return nil, damaged
}

// loadState loads the state of a checkpoint, or that before training when there is none.
func loadState(engine model.Engine, layout model.Layout, seed uint64, from *dirstore.Reader) error {
	var parts [3][]float32 // weights and both moments
	for i := range parts {
		parts[i] = make([]float32, min(model.BucketSize, layout.Size))
	}
	for bucket := range layout.Buckets() {
		lo, hi := layout.Bucket(bucket)
		weights, first, second := parts[0][:hi-lo], parts[1][:hi-lo], parts[2][:hi-lo]
		if from == nil {
			layout.InitBucket(seed, bucket, weights) // the moments are zero
		} else if err := from.Bucket(bucket, weights, first, second); err != nil {
			return err
		}
		if err := engine.Load(bucket, weights, first, second); err != nil {
			return err
		}
	}
	return nil
}
