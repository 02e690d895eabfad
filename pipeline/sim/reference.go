package sim

import (
	"math"

	"andrea/model"
	"andrea/numeric"
	"andrea/pipeline"
)

// reference is the job computed in a straight line: what every run of it must give.
type reference struct {
	states []saved // states[s] is state s
	steps  []expected
}

// expected is what the records of a step must say.
type expected struct {
	state  model.Digest // after the step
	action string
	root   model.Digest
	nodes  map[[2]int]model.Digest // of the sums of lanes [lo, hi), for all of the tree
	lanes  []pipeline.LaneResult
	loss   float64 // sum
	tokens int64
	norm   float64
	scale  float32
	hyper  model.Hyper
	val    float64 // mean of the validation windows
	due    bool    // val is
}

// step is what step s must give.
func (r *reference) step(s int64) expected { return r.steps[s-1] }

// digest is the digest of state s.
func (r *reference) digest(d device, s int64) model.Digest {
	if s == 0 {
		return d.digest(r.states[0])
	}
	return r.step(s).state
}

func newReference(j *job) *reference {
	d, spec := j.device, j.plan.Spec
	engine := d.open(j.plan.Model, spec.Batch.Microbatch, 1)
	r := &reference{states: []saved{d.start(spec.Seed)}}
	for i := range d.buckets {
		d.load(engine, i, r.states[0])
	}
	for step := int64(1); step <= spec.Steps; step++ {
		e := expected{action: pipeline.ActionApply, nodes: map[[2]int]model.Digest{}, hyper: hyperOf(spec, step)}
		root := e.computeLanes(j, engine, step, 0, spec.Batch.Lanes)
		e.root = e.nodes[[2]int{0, spec.Batch.Lanes}]
		e.settle(d, spec, root)
		if e.action == pipeline.ActionApply {
			d.setGradient(engine, 0, root)
			if _, err := engine.Update(0, e.scale, e.hyper); err != nil {
				panic("sim: " + err.Error())
			}
		}
		r.states = append(r.states, d.save(engine))
		e.state = d.digest(r.states[step])
		e.evaluate(j, engine, step)
		r.steps = append(r.steps, e)
	}
	return r
}

// computeLanes is the gradient of lanes [lo, hi): the halves are computed and added.
func (e *expected) computeLanes(j *job, engine model.Engine, step int64, lo, hi int) (grad []float32) {
	defer func() { e.nodes[[2]int{lo, hi}], _ = j.device.digestOf(grad) }()
	if hi-lo > 1 {
		middle := (lo + hi) / 2
		left, right := e.computeLanes(j, engine, step, lo, middle), e.computeLanes(j, engine, step, middle, hi)
		for i, g := range right {
			left[i] += g
		}
		return left
	}
	if err := engine.Zero(0); err != nil {
		panic("sim: " + err.Error())
	}
	var lane pipeline.LaneResult
	for i := range j.plan.Sampler.MicrobatchesPerLane() {
		loss, tokens := j.accumulate(engine, 0, step, lo, i)
		lane.LossSum += pipeline.Float(loss.Sum)
		lane.Tokens += loss.Tokens
		lane.TokenDigest = lane.TokenDigest.Add(tokens)
	}
	e.lanes = append(e.lanes, lane)
	e.loss += float64(lane.LossSum)
	e.tokens += lane.Tokens
	return j.device.gradient(engine, 0)
}

// settle is the decision on the step.
func (e *expected) settle(d device, spec pipeline.JobSpec, root []float32) {
	squares := 0.0
	_, sums := d.digestOf(root)
	for _, s := range sums {
		squares += float64(s)
	}
	e.norm = math.Sqrt(squares) / float64(e.tokens)
	if math.IsNaN(e.loss) || math.IsNaN(e.norm) || math.IsInf(e.norm, 0) {
		e.action = pipeline.ActionSkip
		return
	}
	clip := 1.0
	if e.norm > spec.Optimizer.GradClip {
		clip = spec.Optimizer.GradClip / e.norm
	}
	e.scale = float32(clip / float64(e.tokens))
}

func (e *expected) evaluate(j *job, engine model.Engine, step int64) {
	spec := j.plan.Spec
	e.due = step%spec.Eval.Every == 0 || step == spec.Steps
	sum, tokens := 0.0, int64(0)
	for i := range j.plan.ValidationWindows {
		loss, err := engine.Eval(j.batch(j.plan.ValidationWindows[i : i+1]))
		if err != nil {
			panic("sim: " + err.Error())
		}
		sum, tokens = sum+loss.Sum, tokens+loss.Tokens
	}
	e.val = sum / float64(tokens)
}

// hyperOf is the schedule by its definition: linear warm-up, half a cosine, min_lr at the end.
func hyperOf(spec pipeline.JobSpec, t int64) model.Hyper {
	o := spec.Optimizer
	lr := o.MinLR
	if t <= o.WarmupSteps {
		lr = o.LR * float64(t) / float64(o.WarmupSteps)
	} else if t < spec.Steps {
		part := math.Pi * float64(t-o.WarmupSteps) / float64(spec.Steps-o.WarmupSteps)
		lr += float64((o.LR-o.MinLR)*(1+numeric.Cos(part))) / 2
	}
	return model.Hyper{
		LR: float32(lr), Beta1: float32(o.Betas[0]), OneMinusBeta1: float32(1 - o.Betas[0]),
		Beta2: float32(o.Betas[1]), OneMinusBeta2: float32(1 - o.Betas[1]),
		Correction1: float32(1 - numeric.PowInt(o.Betas[0], t)), Correction2: float32(1 - numeric.PowInt(o.Betas[1], t)),
		Eps: float32(o.Eps), Decay: float32(o.WeightDecay),
	}
}
