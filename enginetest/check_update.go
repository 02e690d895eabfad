package enginetest

import (
	"math"

	"andrea/model"
)

// drawUpdate draws a state and a gradient of many magnitudes for the update, whose
// arithmetic must agree everywhere: the first elements are zeros, subnormals, and
// values whose squares are subnormal or overflow.
func drawUpdate(n int) (State, []float32) {
	s := State{drawMagnitudes(n, 1), drawMagnitudes(n, 2), drawMagnitudes(n, 3)}
	for i := range s.V {
		s.V[i] = float32(math.Abs(float64(s.V[i])))
	}
	g := drawMagnitudes(n, 4)
	copy(g, []float32{0, float32(math.Copysign(0, -1)), 0x1p-149, 0x1p-130, 0x1p-70, 0x1p-74, 0x1p70, 1, 1})
	copy(s.M, []float32{0, 0, 0, 0x1p-149, 0, 0x1p-140, 0, 0x1p-149, 1})
	copy(s.V, []float32{0, 0, 0, 0x1p-149, 0, 0x1p-140, 0, 0, 0x1p-149})
	copy(s.W, []float32{0, float32(math.Copysign(0, -1)), 0x1p-149})
	// The same at the end, where weights decay and vectors have tails.
	const k = 9
	for _, x := range [][]float32{s.W, s.M, s.V, g} {
		copy(x[n-k:], x[:k])
	}
	return s, g
}

// hypers are the first step, a late one, and one without decay and with a large
// epsilon.
var hypers = []model.Hyper{
	{LR: 1e-3, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05, Correction1: 0.1, Correction2: 0.05, Eps: 1e-8, Decay: 0.1},
	{LR: 3e-4, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.999, OneMinusBeta2: 0.001, Correction1: 1, Correction2: 0.6321206, Eps: 1e-8, Decay: 0.7},
	{LR: 0.5, Beta1: 0.8, OneMinusBeta1: 0.2, Beta2: 0.9, OneMinusBeta2: 0.1, Correction1: 0.488, Correction2: 0.271, Eps: 0.3},
}

// checkUpdateBits compares steps that follow each other with the definition of
// the update's bits, and what Update must leave alone.
func checkUpdateBits(t tester, open opener) {
	cfg := twoBuckets()
	want, g := drawUpdate(model.NewLayout(cfg).Size)
	r := mount(t, open, cfg, 1, 2, want)
	other := drawMagnitudes(r.layout.Size, 5)
	r.write(0, other)
	r.write(1, g)
	for i, h := range hypers {
		scale := float32(0.37) / float32(i+1)
		got := r.update(1, scale, h)
		adamW(r.layout, want.W, want.M, want.V, g, scale, h)
		r.sameState("after Update", r.save(), want)
		var sum model.Digest
		for b := range r.layout.Buckets() {
			d, err := r.engine.StateDigest(b)
			r.ok("StateDigest", err)
			sum = sum.Add(d)
		}
		if all := model.StateDigestOf(0, want.W, want.M, want.V); got != all || sum != all {
			t.Fatalf("Update returned digest %v and the buckets add up to %v, want %v", got, sum, all)
		}
	}
	r.sameBits("slot 0 after Update from slot 1", r.read(0), other)
	r.sameBits("slot 1 after Update from slot 1", r.read(1), g)
}

// checkUpdateIsSeen finds weights that an engine keeps in another form and forgets
// to renew.
func checkUpdateIsSeen(t tester, open opener) {
	cfg := tiny()
	batch := DrawBatch(cfg, 2, cfg.Context, 2)
	r := mount(t, open, cfg, 2, 1, DrawState(cfg, 1))
	before := r.accumulate(0, batch)
	r.update(0, 1/float32(before.Tokens), hyper)
	after := r.eval(batch)
	if after.Sum >= before.Sum {
		t.Fatalf("the loss of a batch after a step on it is %v, was %v", after.Sum, before.Sum)
	}
	fresh := mount(t, open, cfg, 2, 1, r.save())
	r.sameLoss("Eval after Update, against another engine that loaded the state", after, fresh.eval(batch))
	r.load(DrawState(cfg, 1))
	r.sameLoss("Eval after Load of the first state", r.eval(batch), before)
}
