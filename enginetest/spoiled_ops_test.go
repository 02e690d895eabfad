package enginetest

import (
	"testing"

	"andrea/model"
)

// spoil changes one element a little.
func spoil(x []float32) { x[len(x)*2/3] += 1e-4 }

// spoiledOps is the plain table with one wrong element in every result.
func spoiledOps() Ops {
	good := plainOps[float32]()
	mul := func(f func(c, a, b []float32, m, n, k int, add bool)) func(c, a, b []float32, m, n, k int, add bool) {
		return func(c, a, b []float32, m, n, k int, add bool) { f(c, a, b, m, n, k, add); spoil(c) }
	}
	return Ops{
		Embed: func(x, wte, wpe []float32, tokens []uint32, t, d int) {
			good.Embed(x, wte, wpe, tokens, t, d)
			spoil(x)
		},
		EmbedBackward: func(dwte, dwpe, dx []float32, tokens []uint32, t, d int) {
			good.EmbedBackward(dwte, dwpe, dx, tokens, t, d)
			spoil(dwpe)
		},
		Norm: func(y, x []float32, d int, eps float32) { good.Norm(y, x, d, eps); spoil(y) },
		NormBackward: func(dx, dy, x []float32, d int, eps float32) {
			good.NormBackward(dx, dy, x, d, eps)
			spoil(dx)
		},
		MulNT: mul(good.MulNT), MulNN: mul(good.MulNN), MulTN: mul(good.MulTN),
		Attention: func(out, qkv []float32, h Heads) { good.Attention(out, qkv, h); spoil(out) },
		AttentionBackward: func(dqkv, dout, qkv []float32, h Heads) {
			good.AttentionBackward(dqkv, dout, qkv, h)
			spoil(dqkv)
		},
		Activate: func(y, x []float32, act model.Activation) { good.Activate(y, x, act); spoil(y) },
		ActivateBackward: func(dx, dy, x []float32, act model.Activation) {
			good.ActivateBackward(dx, dy, x, act)
			spoil(dx)
		},
		CrossEntropy: func(dlogits, logits []float32, targets []uint32, v int) float64 {
			loss := good.CrossEntropy(dlogits, logits, targets, v)
			if dlogits != nil {
				spoil(dlogits)
			}
			return loss
		},
	}
}

func TestOperationChecksFindOneWrongElement(t *testing.T) {
	spoiled := spoiledOps()
	middle := opShapes[2]
	for _, c := range opChecks(spoiled) {
		if failures := failuresOf(func(t tester) { c.check(t, spoiled, middle) }); len(failures) == 0 {
			t.Errorf("the check of %s passes", c.name)
		}
	}
	if failures := failuresOf(func(t tester) { checkOpRows(t, spoiled, middle) }); len(failures) == 0 {
		t.Error("the check of the attention rows passes")
	}
}
