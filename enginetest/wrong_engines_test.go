package enginetest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"andrea/model"
	"andrea/numeric"
)

// mutant is a plain engine with a fault in one method.
type mutant struct {
	*plain
	update     func(p *plain, slot int, scale float32, h model.Hyper) (model.Digest, error)
	load       func(p *plain, bucket int, w, m, v []float32) error
	writeGrad  func(p *plain, slot, bucket int, src []float32) error
	fold       func(p *plain, dst, src int) error
	zero       func(p *plain, slot int) error
	squares    func(p *plain, slot int, sums []float64) error
	gradDigest func(p *plain, slot, bucket int) (model.Digest, error)
	accumulate func(p *plain, slot int, b model.Batch) (model.Loss, error)
	eval       func(p *plain, b model.Batch) (model.Loss, error)
	info       func(p *plain) model.Info
}

func (m mutant) Update(slot int, scale float32, h model.Hyper) (model.Digest, error) {
	if m.update != nil {
		return m.update(m.plain, slot, scale, h)
	}
	return m.plain.Update(slot, scale, h)
}

func (m mutant) Load(bucket int, w, mm, v []float32) error {
	if m.load != nil {
		return m.load(m.plain, bucket, w, mm, v)
	}
	return m.plain.Load(bucket, w, mm, v)
}

func (m mutant) WriteGrad(slot, bucket int, src []float32) error {
	if m.writeGrad != nil {
		return m.writeGrad(m.plain, slot, bucket, src)
	}
	return m.plain.WriteGrad(slot, bucket, src)
}

func (m mutant) Fold(dst, src int) error {
	if m.fold != nil {
		return m.fold(m.plain, dst, src)
	}
	return m.plain.Fold(dst, src)
}

func (m mutant) Zero(slot int) error {
	if m.zero != nil {
		return m.zero(m.plain, slot)
	}
	return m.plain.Zero(slot)
}

func (m mutant) SumSquares(slot int, sums []float64) error {
	if m.squares != nil {
		return m.squares(m.plain, slot, sums)
	}
	return m.plain.SumSquares(slot, sums)
}

func (m mutant) GradDigest(slot, bucket int) (model.Digest, error) {
	if m.gradDigest != nil {
		return m.gradDigest(m.plain, slot, bucket)
	}
	return m.plain.GradDigest(slot, bucket)
}

func (m mutant) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if m.accumulate != nil {
		return m.accumulate(m.plain, slot, b)
	}
	return m.plain.Accumulate(slot, b)
}

func (m mutant) Eval(b model.Batch) (model.Loss, error) {
	if m.eval != nil {
		return m.eval(m.plain, b)
	}
	return m.plain.Eval(b)
}

func (m mutant) Info() model.Info {
	if m.info != nil {
		return m.info(m.plain)
	}
	return m.plain.Info()
}

// wrongEngine is a fault in one method, and the check that must find it.
type wrongEngine struct {
	fault string
	check string
	mutant
}

var wrongEngines = []wrongEngine{
	{"update with another scale", "update_bits", mutant{update: func(p *plain, slot int, scale float32, h model.Hyper) (model.Digest, error) {
		return p.Update(slot, math.Nextafter32(scale, 1), h)
	}}},
	{"decay on the embeddings", "update_bits", mutant{update: func(p *plain, slot int, scale float32, h model.Hyper) (model.Digest, error) {
		all := model.Layout{Tensors: append([]model.Tensor(nil), p.layout.Tensors...), Size: p.layout.Size}
		for i := range all.Tensors {
			all.Tensors[i].Decay = true
		}
		adamW(all, p.w, p.m, p.v, p.slots[slot], scale, h)
		return model.StateDigestOf(0, p.w, p.m, p.v), nil
	}}},
	{"first moment with a fused product", "update_bits", mutant{update: func(p *plain, slot int, scale float32, h model.Hyper) (model.Digest, error) {
		fused := make([]float32, len(p.m))
		for i, g := range p.slots[slot] {
			fused[i] = numeric.FMA32(h.Beta1, p.m[i], h.OneMinusBeta1*(g*scale))
		}
		_, err := p.Update(slot, scale, h)
		copy(p.m, fused)
		return model.StateDigestOf(0, p.w, p.m, p.v), err
	}}},
	{"subnormals flushed to zero", "update_bits", mutant{update: func(p *plain, slot int, scale float32, h model.Hyper) (model.Digest, error) {
		_, err := p.Update(slot, scale, h)
		for i, f := range p.v {
			if f < 0x1p-126 {
				p.v[i] = 0
			}
		}
		return model.StateDigestOf(0, p.w, p.m, p.v), err
	}}},
	{"update that returns the digest of the weights alone", "update_bits", mutant{update: func(p *plain, slot int, scale float32, h model.Hyper) (model.Digest, error) {
		_, err := p.Update(slot, scale, h)
		return model.DigestOf(model.Weight, 0, p.w), err
	}}},
	{"update that clears the gradient", "update_bits", mutant{update: func(p *plain, slot int, scale float32, h model.Hyper) (model.Digest, error) {
		defer p.Zero(slot)
		return p.Update(slot, scale, h)
	}}},
	{"update that does nothing", "update_is_seen", mutant{update: func(p *plain, slot int, scale float32, h model.Hyper) (model.Digest, error) {
		return model.StateDigestOf(0, p.w, p.m, p.v), nil
	}}},
	{"load that swaps the moments", "state_round_trip", mutant{load: func(p *plain, bucket int, w, m, v []float32) error {
		return p.Load(bucket, w, v, m)
	}}},
	{"load that keeps the caller's slice", "state_round_trip", mutant{load: func(p *plain, bucket int, w, m, v []float32) error {
		if bucket == 0 && len(w) == model.BucketSize {
			p.w = w[:p.layout.Size]
		}
		return p.Load(bucket, w, m, v)
	}}},
	{"WriteGrad that changes the sign of zero", "gradient_round_trip", mutant{writeGrad: func(p *plain, slot, bucket int, src []float32) error {
		changed := append([]float32(nil), src...)
		for i := range changed {
			if changed[i] == 0 {
				changed[i] = 0
			}
		}
		return p.WriteGrad(slot, bucket, changed)
	}}},
	{"WriteGrad to the first slot always", "gradient_round_trip", mutant{writeGrad: func(p *plain, _, bucket int, src []float32) error {
		return p.WriteGrad(0, bucket, src)
	}}},
	{"fold that changes its source", "fold", mutant{fold: func(p *plain, dst, src int) error {
		err := p.Fold(dst, src)
		clear(p.slots[src])
		return err
	}}},
	{"fold that forgets the tail", "fold", mutant{fold: func(p *plain, dst, src int) error {
		last := p.layout.Size - 1
		was := p.slots[dst][last]
		err := p.Fold(dst, src)
		p.slots[dst][last] = was
		return err
	}}},
	{"zero of the wrong sign", "zero", mutant{zero: func(p *plain, slot int) error {
		err := p.Zero(slot)
		p.slots[slot][7] = float32(math.Copysign(0, -1))
		return err
	}}},
	{"sum of squares in one chain", "sum_of_squares", mutant{squares: func(p *plain, slot int, sums []float64) error {
		for bucket := range sums {
			sums[bucket] = 0
			lo, hi := p.layout.Bucket(bucket)
			for _, f := range p.slots[slot][lo:hi] {
				sums[bucket] += float64(float64(f) * float64(f))
			}
		}
		return nil
	}}},
	{"digest that counts every bucket from 0", "digests", mutant{gradDigest: func(p *plain, slot, bucket int) (model.Digest, error) {
		lo, hi := p.layout.Bucket(bucket)
		return model.DigestOf(model.Gradient, 0, p.slots[slot][lo:hi]), nil
	}}},
	{"accumulate that uses another slot as scratch", "accumulate_touches", mutant{accumulate: func(p *plain, slot int, b model.Batch) (model.Loss, error) {
		p.slots[len(p.slots)-1][3]++
		return p.Accumulate(slot, b)
	}}},
	{"accumulate that masks tokens in place", "accumulate_touches", mutant{accumulate: func(p *plain, slot int, b model.Batch) (model.Loss, error) {
		loss, err := p.Accumulate(slot, b)
		b.Tokens[0]++
		return loss, err
	}}},
	{"another split for more room", "capacity", mutant{accumulate: func(p *plain, slot int, b model.Batch) (model.Loss, error) {
		loss, err := p.Accumulate(slot, b)
		if p.microbatch > 1 {
			loss.Sum = math.Nextafter(loss.Sum, 0)
		}
		return loss, err
	}}},
	{"eval that leaves a gradient", "eval", mutant{eval: func(p *plain, b model.Batch) (model.Loss, error) {
		return p.Accumulate(len(p.slots)-1, b)
	}}},
	{"loss that counts all T+1 tokens", atT1, mutant{accumulate: func(p *plain, slot int, b model.Batch) (model.Loss, error) {
		loss, err := p.Accumulate(slot, b)
		loss.Tokens += int64(b.Windows)
		return loss, err
	}}},
	{"class that changes", "info", mutant{info: func(p *plain) model.Info {
		i := p.Info()
		i.Class = fmt.Sprint("plain, gradient ", p.slots[0][p.layout.Size-1])
		return i
	}}},
	{"class that is empty", "info", mutant{info: func(p *plain) model.Info {
		return model.Info{Device: "d", Bytes: 1 << 40}
	}}},
	{"negative slots mean the first", "arguments", mutant{zero: func(p *plain, slot int) error {
		return p.Zero(max(slot, 0))
	}}},
	{"accumulate that zeroes its slot before it looks at the batch", "arguments", mutant{accumulate: func(p *plain, slot int, b model.Batch) (model.Loss, error) {
		if slot == 0 {
			p.slots[0][0] = 0
		}
		return p.Accumulate(slot, b)
	}}},
}

func TestSuiteFindsWrongEngines(t *testing.T) {
	for _, w := range wrongEngines {
		t.Run(w.fault, func(t *testing.T) {
			expectFailure(t, w.check, func(cfg model.Config, microbatch, slots int) model.Engine {
				m := w.mutant
				m.plain = newPlain(cfg, microbatch, slots, plainOps[float32]())
				return m
			})
		})
	}
}

// revealer is a plain engine that hands out its gradient when it is complete, with a fault.
type revealer struct {
	*plain
	fault string
}

func (r revealer) AccumulateLast(slot, folds int, b model.Batch, final func(bucket int)) (model.Loss, error) {
	if folds < 0 || folds > slot {
		return model.Loss{}, errors.New("there are no such slots")
	}
	last := r.layout.Buckets() - 1
	if r.fault == "early" {
		final(last)
		last--
	}
	loss, err := r.Accumulate(slot, b)
	for i := 0; i < folds && err == nil; i++ {
		if r.fault == "not folded" {
			break
		}
		err = r.Fold(slot-i-1, slot-i)
	}
	if err != nil {
		return loss, err
	}
	for bucket := last; bucket >= 0; bucket-- {
		switch {
		case r.fault == "forward":
			final(last - bucket)
		case r.fault != "incomplete" || bucket > 0:
			final(bucket)
		}
	}
	return loss, nil
}

func TestSuiteFindsWrongRevealers(t *testing.T) {
	for _, fault := range []string{"early", "not folded", "forward", "incomplete"} {
		t.Run(fault, func(t *testing.T) {
			expectFailure(t, "reveal", func(cfg model.Config, microbatch, slots int) model.Engine {
				return revealer{newPlain(cfg, microbatch, slots, plainOps[float32]()), fault}
			})
		})
	}
}
