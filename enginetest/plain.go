package enginetest

import (
	"fmt"

	"andrea/model"
)

// plain is the plain loops in float32 behind the engine interface.
type plain struct {
	net        network[float32]
	layout     model.Layout
	microbatch int
	w, m, v    []float32
	slots      [][]float32
}

// NewPlain returns a slow engine for tests at tiny shapes, of class "plain": the
// same bits on every machine. cfg is valid, microbatch (the most windows of a
// batch) and slots are positive. Weights start at zero.
func NewPlain(cfg model.Config, microbatch, slots int) model.Engine {
	return newPlain(cfg, microbatch, slots, plainOps[float32]())
}

func newPlain(cfg model.Config, microbatch, slots int, ops Ops) *plain {
	l := model.NewLayout(cfg)
	p := &plain{
		net: network[float32]{cfg, ops}, layout: l, microbatch: microbatch,
		w: make([]float32, l.Size), m: make([]float32, l.Size), v: make([]float32, l.Size),
	}
	for range slots {
		p.slots = append(p.slots, make([]float32, l.Size))
	}
	return p
}

func (p *plain) Info() model.Info {
	return model.Info{
		Class:  model.EngineClass("plain", "fp32"),
		Device: "plain loops",
		Bytes:  int64(3+len(p.slots)) * int64(p.layout.Size) * 4,
	}
}

func (p *plain) Load(bucket int, w, m, v []float32) error {
	lo, hi, err := p.bucket("loading", bucket, w, m, v)
	if err != nil {
		return err
	}
	copy(p.w[lo:hi], w)
	copy(p.m[lo:hi], m)
	copy(p.v[lo:hi], v)
	return nil
}

func (p *plain) Save(bucket int, w, m, v []float32) error {
	lo, hi, err := p.bucket("saving", bucket, w, m, v)
	if err != nil {
		return err
	}
	copy(w, p.w[lo:hi])
	copy(m, p.m[lo:hi])
	copy(v, p.v[lo:hi])
	return nil
}

func (p *plain) Eval(b model.Batch) (model.Loss, error) {
	if err := b.Check(p.net.cfg, p.microbatch); err != nil {
		return model.Loss{}, err
	}
	return p.net.eval(view(p.net.cfg, p.w), b), nil
}

func (p *plain) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if err := p.slot("accumulating", slot); err != nil {
		return model.Loss{}, err
	}
	if err := b.Check(p.net.cfg, p.microbatch); err != nil {
		return model.Loss{}, err
	}
	return p.net.accumulate(view(p.net.cfg, p.slots[slot]), view(p.net.cfg, p.w), b), nil
}

func (p *plain) Zero(slot int) error {
	if err := p.slot("zeroing", slot); err != nil {
		return err
	}
	clear(p.slots[slot])
	return nil
}

func (p *plain) Fold(dst, src int) error {
	if err := p.slot("folding", dst); err != nil {
		return err
	}
	if err := p.slot("folding", src); err != nil {
		return err
	}
	for i, g := range p.slots[src] {
		p.slots[dst][i] += g
	}
	return nil
}

func (p *plain) ReadGrad(slot, bucket int, dst []float32) error {
	part, err := p.gradient("reading", slot, bucket, dst)
	copy(dst, part)
	return err
}

func (p *plain) WriteGrad(slot, bucket int, src []float32) error {
	part, err := p.gradient("writing", slot, bucket, src)
	copy(part, src)
	return err
}

func (p *plain) SumSquares(slot int, sums []float64) error {
	if len(sums) != p.layout.Buckets() {
		return fmt.Errorf("adding the squares of a gradient: %d sums: there are %d buckets", len(sums), p.layout.Buckets())
	}
	for bucket := range sums {
		part, err := p.gradient("adding the squares of", slot, bucket)
		if err != nil {
			return err
		}
		sums[bucket] = model.SumSquares(part)
	}
	return nil
}

func (p *plain) Update(slot int, scale float32, h model.Hyper) (model.Digest, error) {
	if err := p.slot("updating", slot); err != nil {
		return model.Digest{}, err
	}
	adamW(p.layout, p.w, p.m, p.v, p.slots[slot], scale, h)
	return model.StateDigestOf(0, p.w, p.m, p.v), nil
}

func (p *plain) GradDigest(slot, bucket int) (model.Digest, error) {
	part, err := p.gradient("digesting", slot, bucket)
	if err != nil {
		return model.Digest{}, err
	}
	lo, _ := p.layout.Bucket(bucket)
	return model.DigestOf(model.Gradient, lo, part), nil
}

func (p *plain) StateDigest(bucket int) (model.Digest, error) {
	lo, hi, err := p.bucket("digesting", bucket)
	if err != nil {
		return model.Digest{}, err
	}
	return model.StateDigestOf(lo, p.w[lo:hi], p.m[lo:hi], p.v[lo:hi]), nil
}

func (p *plain) Logits(tokens []uint32, position int, dst []float32) error {
	cfg := p.net.cfg
	if position < 0 || position >= len(tokens) || len(tokens) > cfg.Context || len(dst) != cfg.Vocab {
		return fmt.Errorf("computing logits: position %d of %d tokens into %d values: the model takes 1 to %d tokens, a position of theirs, and %d values", position, len(tokens), len(dst), cfg.Context, cfg.Vocab)
	}
	for i, id := range tokens {
		if int64(id) >= int64(cfg.Vocab) {
			return fmt.Errorf("computing logits: token %d has id %d: the model has %d ids", i, id, cfg.Vocab)
		}
	}
	w := view(cfg, p.w)
	tr := p.net.forward(w, tokens, len(tokens))
	copy(dst, p.net.logits(w, tr, position, position+1))
	return nil
}

func (p *plain) Close() error { return nil }

// slot checks the number of a slot.
func (p *plain) slot(what string, slot int) error {
	if slot < 0 || slot >= len(p.slots) {
		return fmt.Errorf("%s a gradient: slot %d: the engine has slots 0 to %d", what, slot, len(p.slots)-1)
	}
	return nil
}

// bucket checks the number of a bucket and the lengths of the caller's slices, and
// returns the bucket's range.
func (p *plain) bucket(what string, bucket int, slices ...[]float32) (lo, hi int, err error) {
	if bucket < 0 || bucket >= p.layout.Buckets() {
		return 0, 0, fmt.Errorf("%s a bucket: number %d: the model has buckets 0 to %d", what, bucket, p.layout.Buckets()-1)
	}
	lo, hi = p.layout.Bucket(bucket)
	for _, s := range slices {
		if len(s) != hi-lo {
			return 0, 0, fmt.Errorf("%s bucket %d: a slice has %d values: the bucket has %d", what, bucket, len(s), hi-lo)
		}
	}
	return lo, hi, nil
}

// gradient returns a bucket of a slot after the same checks.
func (p *plain) gradient(what string, slot, bucket int, slices ...[]float32) ([]float32, error) {
	if err := p.slot(what, slot); err != nil {
		return nil, err
	}
	lo, hi, err := p.bucket(what, bucket, slices...)
	if err != nil {
		return nil, err
	}
	return p.slots[slot][lo:hi], nil
}
