package sim

import (
	"errors"
	"math"
	"slices"

	"andrea/model"
	"andrea/pipeline"
)

// activity is what a worker is busy with.
type activity int

const (
	hailing activity = iota
	idle
	opening
	loading
	leasing
	measuring
	pulling
	updating
	evaluating
	copying
	activities
)

var activityNames = [activities]string{"hailing", "idle", "opening", "loading", "computing", "measuring", "pulling", "updating", "evaluating", "copying"}

func activityOf(effect pipeline.WorkerEffect) activity {
	switch effect.(type) {
	case pipeline.OpenEngine:
		return opening
	case pipeline.LoadBucket:
		return loading
	case pipeline.Zero, pipeline.Accumulate, pipeline.Fold:
		return leasing
	case pipeline.Conclude:
		return measuring
	case pipeline.PullRoot:
		return pulling
	case pipeline.Update, pipeline.Keep:
		return updating
	case pipeline.EvalWindow:
		return evaluating
	}
	return copying
}

// overwrites is the slot whose content an effect destroys from its beginning on.
func overwrites(effect pipeline.WorkerEffect) (slot int, yes bool) {
	switch e := effect.(type) {
	case pipeline.Zero:
		return e.Slot, true
	case pipeline.PullRoot:
		return 0, true
	}
	return 0, false
}

// cost is how long a piece of work takes the worker. A transfer is as slow as the slower of network and worker.
func (k *worker) cost(effect pipeline.WorkerEffect) int64 {
	w := k.w
	switch effect.(type) {
	case pipeline.Zero, pipeline.Fold:
		return k.slow
	case pipeline.Accumulate, pipeline.Conclude:
		return w.chance.between(40, 90) * k.slow
	case pipeline.LoadBucket, pipeline.PullRoot:
		return w.chance.between(5, 60) * max(k.slow, w.network.heavy)
	}
	return w.chance.between(5, 60) * k.slow
}

// execute does one piece of work.
func (k *worker) execute(effect pipeline.WorkerEffect) (pipeline.WorkerEvent, error) {
	if k.flaws.device {
		k.flaws.device = false
		return nil, errors.New("the device has failed")
	}
	d := k.w.job.device
	switch e := effect.(type) {
	case pipeline.OpenEngine:
		slots := model.Slots(e.Job.Batch.Lanes)
		k.engine, k.parts = d.open(k.w.job.plan.Model, e.Job.Batch.Microbatch, slots), make([]contribution, slots)
		return pipeline.EngineOpened{Buckets: d.buckets}, nil
	case pipeline.LoadBucket:
		return k.loadBucket(e)
	case pipeline.Zero:
		return nil, k.engine.Zero(e.Slot)
	case pipeline.Fold:
		return nil, k.engine.Fold(e.Dst, e.Src)
	case pipeline.Accumulate:
		return k.accumulate(e)
	case pipeline.Conclude:
		return k.conclude(e)
	case pipeline.PullRoot:
		return k.pullRoot(e)
	case pipeline.Update:
		k.w.judgeUpdate(k, e)
		digest, err := k.engine.Update(0, e.Scale, e.Hyper)
		k.state = e.Step
		return pipeline.Updated{Digest: digest}, err
	case pipeline.Keep:
		k.w.judgeKeep(k, e)
		k.state = e.Step
		return pipeline.Updated{Digest: d.stateDigest(k.engine)}, nil
	case pipeline.EvalWindow:
		return k.evaluate(e)
	case pipeline.TakeSnapshot:
		k.snapshot, k.snapped = stored{state: d.save(k.engine), digest: d.stateDigest(k.engine)}, e.Step
		return pipeline.SnapshotCopied{Digest: k.snapshot.digest}, nil
	}
	panic("sim: a worker wants something unknown done")
}

// server is the coordinator that the worker is a member of, if it can be reached.
func (k *worker) server(what string) (*coordinator, error) {
	c := k.w.coordinator(k.machine.Membership().Generation)
	if k.flaws.transfer || !k.w.network.reaches(k, c) {
		k.flaws.transfer = false
		return nil, transferError{what + ": nobody answers"}
	}
	return c, nil
}

func (k *worker) loadBucket(e pipeline.LoadBucket) (pipeline.WorkerEvent, error) {
	state, err := k.find(e)
	if err != nil {
		return nil, err
	}
	d := k.w.job.device
	if len(e.Holders) > 0 || e.Stored {
		lo, _ := d.bounds(e.Bucket)
		k.garble(&state[0][lo])
	}
	d.load(k.engine, e.Bucket, state)
	digest, err := k.engine.StateDigest(e.Bucket)
	return pipeline.BucketLoaded{Digest: digest}, err
}

// find gets the state to load from a holder, the coordinator's checkpoint or the seed.
func (k *worker) find(e pipeline.LoadBucket) (saved, error) {
	d := k.w.job.device
	switch {
	case len(e.Holders) > 0:
		first := k.w.chance.below(len(e.Holders))
		for i := range e.Holders {
			o := k.w.worker(e.Holders[(first+i)%len(e.Holders)])
			if !k.flaws.transfer && o.engine != nil && o.state == e.Step && k.w.network.connects(k, o) {
				return d.save(o.engine), nil
			}
		}
		k.flaws.transfer = false
		return saved{}, transferError{"loading: no holder serves the state"}
	case e.Stored:
		c, err := k.server("loading the checkpoint")
		if err != nil {
			return saved{}, err
		}
		s, ok := c.checkpoint(e.Step)
		if !ok {
			return saved{}, transferError{"loading: there is no such checkpoint"}
		}
		return s.state.clone(), nil
	}
	if e.Step != 0 {
		k.w.failf("worker %s shall load state %d from nowhere", k.id, e.Step)
	}
	return d.start(e.Seed), nil
}

func (k *worker) accumulate(e pipeline.Accumulate) (a pipeline.Accumulated, err error) {
	if _, err := k.server("fetching tokens"); err != nil {
		return a, err
	}
	loss, tokens := k.w.job.accumulate(k.engine, e.Slot, e.Step, e.Lane, e.Microbatch)
	if k.flaws.loss {
		k.flaws.loss = false
		loss.Sum = math.NaN()
	}
	return pipeline.Accumulated{Loss: loss, TokenDigest: tokens, Seconds: float64(k.slow) * 0.03}, nil
}

// conclude computes the last microbatch of a lease, folds its lanes and measures the
// contribution.
func (k *worker) conclude(e pipeline.Conclude) (pipeline.WorkerEvent, error) {
	accumulated, err := k.accumulate(e.Accumulate)
	if err != nil {
		return nil, err
	}
	for i := range e.Folds {
		if err := k.engine.Fold(e.Slot-i-1, e.Slot-i); err != nil {
			return nil, err
		}
	}
	d, slot := k.w.job.device, e.Slot-e.Folds
	k.mute = 0
	if compared := k.w.job.plan.Spec.Audit == 1 || k.w.shared(e, k); k.flaws.gradient && (compared || !k.flaws.patient) {
		k.flaws.gradient = false
		k.spoil(slot)
		if !compared {
			k.silence(e.Step)
		}
	}
	if k.flaws.infinite {
		k.flaws.infinite = false
		d.setInfinite(k.engine, slot)
		if k.w.chance.below(2) == 0 {
			k.silence(e.Step)
		}
	}
	k.parts[slot] = contribution{e.Step, e.Lo, e.Hi}
	c := pipeline.Concluded{Accumulated: accumulated, StateDigest: d.stateDigest(k.engine), GradDigest: d.gradDigest(k.engine, slot)}
	if e.SumSquares {
		_, c.SumSquares = d.digestOf(d.gradient(k.engine, slot))
	}
	return c, nil
}

// shared reports that another worker computes the same lanes, and has not answered, as the coordinator knows.
func (w *world) shared(e pipeline.Conclude, k *worker) bool {
	c := w.coordinator(k.machine.Membership().Generation)
	for id, a := range c.asked {
		q := a.question
		if id != k.id && q.kind == "compute" && q.step == e.Step && q.lo == e.Lo && q.hi == e.Hi && len(a.times) > 0 {
			return true
		}
	}
	return false
}

// silence has what the worker answers to a lease lost: others compute it, and the worker is left
// with what is not the group's.
func (k *worker) silence(step int64) { k.mute, k.uneasy = step, true }

func (k *worker) pullRoot(e pipeline.PullRoot) (pipeline.WorkerEvent, error) {
	c, err := k.server("pulling the root")
	if err != nil {
		return nil, err
	}
	if c.root.step != e.Step {
		return nil, transferError{"pulling the root: it is not there any more"}
	}
	grad := slices.Clone(c.root.grad)
	k.garble(&grad[0])
	k.w.job.device.setGradient(k.engine, 0, grad)
	k.flaws.spoiled = false
	digest, _ := k.w.job.device.digestOf(grad)
	return pipeline.RootPulled{Digest: digest}, nil
}

func (k *worker) evaluate(e pipeline.EvalWindow) (pipeline.WorkerEvent, error) {
	if _, err := k.server("fetching tokens"); err != nil {
		return nil, err
	}
	loss, err := k.engine.Eval(k.w.job.batch(k.w.job.plan.ValidationWindows[e.Window : e.Window+1]))
	evaluated := pipeline.WindowEvaluated{Loss: loss}
	if e.Last {
		evaluated.StateDigest = k.w.job.device.stateDigest(k.engine)
	}
	return evaluated, err
}

// measured is a slot that others may pull; -1: none.
func (k *worker) measured() int {
	return slices.IndexFunc(k.parts, func(c contribution) bool { return c.step > 0 })
}

// garble damages what a transfer brings, if it is to be.
func (k *worker) garble(x *float32) {
	if k.flaws.garbled {
		k.flaws.garbled = false
		flip(x, k.w.chance)
	}
}

// spoil flips a bit of a gradient.
func (k *worker) spoil(slot int) {
	grad := k.w.job.device.gradient(k.engine, slot)
	flip(&grad[k.w.chance.below(len(grad))], k.w.chance)
	k.w.job.device.setGradient(k.engine, slot, grad)
}

// damage flips a bit of the state.
func (k *worker) damage() {
	d := k.w.job.device
	s := d.save(k.engine)
	x := s[k.w.chance.below(3)]
	flip(&x[k.w.chance.below(len(x))], k.w.chance)
	for i := range d.buckets {
		d.load(k.engine, i, s)
	}
}

// flip changes one bit of the fraction or the sign.
func flip(x *float32, c *chance) {
	*x = math.Float32frombits(math.Float32bits(*x) ^ 1<<pick(c, 2, 12, 21, 22, 31))
}
