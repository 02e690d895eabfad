package sim

import (
	"fmt"
	"math"
	"slices"

	"andrea/model"
	"andrea/pipeline"
)

// class is the engine class of all workers.
const class = "toy-fp32-n1"

// job is what a run trains, and what must come of it.
type job struct {
	plan     *pipeline.Plan
	device   device
	poisoned map[[2]int64]poison // (step, lane) that is not finite, on every device
	want     *reference
}

// poison is where a lane is not finite.
type poison int

const (
	nowhere poison = iota
	inLoss
	inGradient
)

// device makes engines and knows their buckets.
type device struct {
	open    func(c model.Config, microbatch, slots int) model.Engine
	buckets int
	bounds  func(bucket int) (lo, hi int) // in the flat vector
	initial func(seed uint64, bucket int, dst []float32)
}

func toyDevice() device {
	return device{
		open: newToy, buckets: toyBuckets, initial: toyInitial,
		bounds: func(bucket int) (lo, hi int) { return bucket * toyBucket, (bucket + 1) * toyBucket },
	}
}

// plainDevice makes engines of the job's own model.
func plainDevice(layout model.Layout, open func(c model.Config, microbatch, slots int) model.Engine) device {
	return device{open: open, buckets: layout.Buckets(), bounds: layout.Bucket, initial: layout.InitBucket}
}

// size is the number of parameters.
func (d device) size() int {
	_, hi := d.bounds(d.buckets - 1)
	return hi
}

// variant is a job in numbers.
type variant struct {
	lanes, microbatches int
	steps               int64
	audit               float64
	poison              bool  // some lanes are not finite, and their steps are skipped
	every, keep         int64 // checkpoints
	evaluated           int64 // every so many steps
}

// drawVariant chooses one of a few hundred jobs.
func drawVariant(c *chance) variant {
	return variant{
		lanes: pick(c, 1, 2, 4, 4, 8, 8), microbatches: pick(c, 1, 2), steps: c.between(10, 12),
		audit: pick(c, 0, 0, 0.5, 1, 1), poison: c.below(4) == 0, every: c.between(2, 4), keep: c.between(1, 3), evaluated: pick[int64](c, 1, 1, 3),
	}
}

// newJob plans the variant and computes what must come of it. open is nil for toys.
func newJob(v variant, open func(c model.Config, microbatch, slots int) model.Engine) *job {
	const context = 4
	spec, err := pipeline.ParseJobSpec([]byte(fmt.Sprintf(`
name: sim
model: {d_model: 8, n_head: 2, n_layer: 1, context: %d}
data: {path: nowhere, validation: 0.1}
batch: {tokens_per_step: %d, microbatch: 1, lanes: %d}
optimizer: {warmup_steps: 3, lr: 5e-2, min_lr: 1e-2}
steps: %d
audit: %v
eval: {every: %d, windows: 4}
checkpoint: {every: %d, keep_last: %d}
on_nonfinite: skip
`, context, v.lanes*v.microbatches*context, v.lanes, v.steps, v.audit, v.evaluated, v.every, v.keep)))
	if err != nil {
		panic("sim: the job is fixed: " + err.Error())
	}
	plan, err := pipeline.NewPlan(spec, pipeline.DatasetInfo{Fingerprint: "f", Tokenizer: "bytes", Vocab: vocab, Tokens: 400})
	if err != nil {
		panic("sim: the job is fixed: " + err.Error())
	}
	j := &job{plan: plan, device: toyDevice()}
	if open != nil {
		j.device = plainDevice(plan.Layout, open)
	} else {
		plan.Layout.Size = toyBuckets * model.BucketSize // the coordinator counts the buckets only
	}
	if v.poison {
		j.poisoned = map[[2]int64]poison{{4, int64(v.lanes) - 1}: inLoss, {6, 0}: inGradient, {9, 0}: inGradient}
	}
	j.want = newReference(j)
	return j
}

const vocab = 11

// token is token i of the dataset.
func token(i uint64) uint32 { return uint32(i*i*7+i/3) % vocab }

// batch is the tokens of some windows.
func (j *job) batch(windows []uint64) model.Batch {
	b := model.Batch{Windows: len(windows), T: j.plan.Model.Context}
	for _, number := range windows {
		start, n := j.plan.Index.Span(number)
		for i := range uint64(n) {
			b.Tokens = append(b.Tokens, token(start+i))
		}
	}
	return b
}

// microbatch is the tokens of one microbatch.
func (j *job) microbatch(step int64, lane, microbatch int) model.Batch {
	windows, err := j.plan.Sampler.Append(nil, uint64(step), lane, microbatch)
	if err != nil {
		panic("sim: a worker asked for tokens that do not exist: " + err.Error())
	}
	return j.batch(windows)
}

// accumulate computes one microbatch.
func (j *job) accumulate(e model.Engine, slot int, step int64, lane, microbatch int) (model.Loss, model.Digest) {
	b := j.microbatch(step, lane, microbatch)
	loss, err := e.Accumulate(slot, b)
	if err != nil {
		panic("sim: " + err.Error())
	}
	switch j.poisoned[[2]int64{step, int64(lane)}] {
	case inLoss:
		loss.Sum = math.NaN()
	case inGradient:
		j.device.setInfinite(e, slot)
	}
	return loss, model.TokenDigestOf(microbatch*len(b.Tokens), b.Tokens)
}

// stateDigest is the digest of an engine's whole state.
func (d device) stateDigest(e model.Engine) (sum model.Digest) {
	for i := range d.buckets {
		digest, err := e.StateDigest(i)
		if err != nil {
			panic("sim: " + err.Error())
		}
		sum = sum.Add(digest)
	}
	return sum
}

// gradDigest is the digest of a whole slot.
func (d device) gradDigest(e model.Engine, slot int) (sum model.Digest) {
	for i := range d.buckets {
		digest, err := e.GradDigest(slot, i)
		if err != nil {
			panic("sim: " + err.Error())
		}
		sum = sum.Add(digest)
	}
	return sum
}

// gradient reads a whole slot.
func (d device) gradient(e model.Engine, slot int) []float32 {
	grad := make([]float32, d.size())
	for i := range d.buckets {
		lo, hi := d.bounds(i)
		if err := e.ReadGrad(slot, i, grad[lo:hi]); err != nil {
			panic("sim: " + err.Error())
		}
	}
	return grad
}

// setGradient writes a whole slot.
func (d device) setGradient(e model.Engine, slot int, grad []float32) {
	for i := range d.buckets {
		lo, hi := d.bounds(i)
		if err := e.WriteGrad(slot, i, grad[lo:hi]); err != nil {
			panic("sim: " + err.Error())
		}
	}
}

// setInfinite makes an element of a slot infinite.
func (d device) setInfinite(e model.Engine, slot int) {
	grad := d.gradient(e, slot)
	grad[0] = float32(math.Inf(1))
	d.setGradient(e, slot, grad)
}

// digestOf is the digest of a whole gradient; sums are its buckets' sums of squares.
func (d device) digestOf(grad []float32) (digest model.Digest, sums []pipeline.Float) {
	for i := range d.buckets {
		lo, hi := d.bounds(i)
		digest = digest.Add(model.DigestOf(model.Gradient, lo, grad[lo:hi]))
		sums = append(sums, pipeline.Float(model.SumSquares(grad[lo:hi])))
	}
	return digest, sums
}

// saved is a whole state outside an engine.
type saved [3][]float32

func (s saved) clone() saved {
	return saved{slices.Clone(s[0]), slices.Clone(s[1]), slices.Clone(s[2])}
}

// save copies an engine's state.
func (d device) save(e model.Engine) (s saved) {
	for i := range s {
		s[i] = make([]float32, d.size())
	}
	for i := range d.buckets {
		lo, hi := d.bounds(i)
		if err := e.Save(i, s[0][lo:hi], s[1][lo:hi], s[2][lo:hi]); err != nil {
			panic("sim: " + err.Error())
		}
	}
	return s
}

// load copies one bucket of a state into an engine.
func (d device) load(e model.Engine, bucket int, s saved) {
	lo, hi := d.bounds(bucket)
	if err := e.Load(bucket, s[0][lo:hi], s[1][lo:hi], s[2][lo:hi]); err != nil {
		panic("sim: " + err.Error())
	}
}

// digest is the digest of a saved state.
func (d device) digest(s saved) (sum model.Digest) {
	for i := range d.buckets {
		lo, hi := d.bounds(i)
		sum = sum.Add(model.StateDigestOf(lo, s[0][lo:hi], s[1][lo:hi], s[2][lo:hi]))
	}
	return sum
}

// start computes state 0.
func (d device) start(seed uint64) (s saved) {
	for i := range s {
		s[i] = make([]float32, d.size())
	}
	for i := range d.buckets {
		lo, hi := d.bounds(i)
		d.initial(seed, i, s[0][lo:hi])
	}
	return s
}
