package sim

import (
	"errors"
	"fmt"
	"math"

	"andrea/model"
	"andrea/numeric"
)

// The toy engine has a few parameters in buckets of its own size.
const (
	toyBucket  = 3
	toyBuckets = 3
	toySize    = toyBucket * toyBuckets
)

// toy is an engine that costs next to nothing. It predicts a token from two of its
// parameters; its sums are fp32 in the order in which they are asked for, so that another
// order, a lane too many or a lane too few gives other bits.
type toy struct {
	w, m, v [toySize]float32
	slots   [][toySize]float32
}

func newToy(_ model.Config, _, slots int) model.Engine {
	return &toy{slots: make([][toySize]float32, slots)}
}

// toyInitial is state 0.
func toyInitial(seed uint64, bucket int, dst []float32) {
	for i := range dst {
		draw := numeric.Mix64(numeric.Mix64(seed) + uint64(bucket*toyBucket+i))
		dst[i] = float32(int64(draw>>40)-1<<23) / (1 << 23)
	}
}

func (t *toy) Info() model.Info { return model.Info{Class: class, Device: "a toy"} }

func (t *toy) cut(x *[toySize]float32, bucket int) []float32 {
	return x[bucket*toyBucket : (bucket+1)*toyBucket]
}

func (t *toy) Load(bucket int, w, m, v []float32) error {
	copy(t.cut(&t.w, bucket), w)
	copy(t.cut(&t.m, bucket), m)
	copy(t.cut(&t.v, bucket), v)
	return nil
}

func (t *toy) Save(bucket int, w, m, v []float32) error {
	copy(w, t.cut(&t.w, bucket))
	copy(m, t.cut(&t.m, bucket))
	copy(v, t.cut(&t.v, bucket))
	return nil
}

func (t *toy) Eval(b model.Batch) (model.Loss, error) {
	var unused [toySize]float32
	return t.pass(&unused, b), nil
}

func (t *toy) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if slot < 0 || slot >= len(t.slots) {
		return model.Loss{}, fmt.Errorf("accumulating: there is no slot %d: there are %d", slot, len(t.slots))
	}
	return t.pass(&t.slots[slot], b), nil
}

// pass adds the gradient of the squared errors of all predictions.
func (t *toy) pass(grad *[toySize]float32, b model.Batch) (loss model.Loss) {
	for n := range b.Windows {
		tokens := b.Window(n)
		for i, token := range tokens[:b.T] {
			p, q := int(token)%toySize, (int(token)*5+i+1)%toySize
			x, y := float32(token+1)/7, float32(i+1)/3
			off := float32(t.w[p]*x) + float32(t.w[q]*y) - float32(tokens[i+1])/5
			grad[p] += float32(off * x)
			grad[q] += float32(off * y)
			loss.Sum += float64(float64(off) * float64(off) / 2)
			loss.Tokens++
		}
	}
	return loss
}

func (t *toy) Zero(slot int) error {
	t.slots[slot] = [toySize]float32{}
	return nil
}

func (t *toy) Fold(dst, src int) error {
	for i, g := range t.slots[src] {
		t.slots[dst][i] += g
	}
	return nil
}

func (t *toy) ReadGrad(slot, bucket int, dst []float32) error {
	copy(dst, t.cut(&t.slots[slot], bucket))
	return nil
}

func (t *toy) WriteGrad(slot, bucket int, src []float32) error {
	copy(t.cut(&t.slots[slot], bucket), src)
	return nil
}

func (t *toy) SumSquares(slot int, sums []float64) error {
	for bucket := range sums {
		sums[bucket] = model.SumSquares(t.cut(&t.slots[slot], bucket))
	}
	return nil
}

func (t *toy) Update(slot int, scale float32, h model.Hyper) (digest model.Digest, err error) {
	for i, grad := range t.slots[slot] {
		g := float32(grad * scale)
		t.m[i] = float32(h.Beta1*t.m[i]) + float32(h.OneMinusBeta1*g)
		t.v[i] = float32(h.Beta2*t.v[i]) + float32(h.OneMinusBeta2*float32(g*g))
		root := float32(math.Sqrt(float64(t.v[i] / h.Correction2)))
		t.w[i] -= float32(h.LR * (t.m[i]/h.Correction1/(root+h.Eps) + float32(h.Decay*t.w[i])))
	}
	return model.StateDigestOf(0, t.w[:], t.m[:], t.v[:]), nil
}

func (t *toy) GradDigest(slot, bucket int) (model.Digest, error) {
	return model.DigestOf(model.Gradient, bucket*toyBucket, t.cut(&t.slots[slot], bucket)), nil
}

func (t *toy) StateDigest(bucket int) (model.Digest, error) {
	return model.StateDigestOf(bucket*toyBucket, t.cut(&t.w, bucket), t.cut(&t.m, bucket), t.cut(&t.v, bucket)), nil
}

func (t *toy) Logits([]uint32, int, []float32) error { return errors.New("a toy has no logits") }

func (t *toy) Close() error { return nil }
