package enginetest

import (
	"math"
	"testing"

	"andrea/model"
)

// RunBF16 is Run for engines whose activations, their gradients and the weights that products read are bfloat16 and
// whose sums, residual stream, master weights and gradients are float32. The plain version of the tolerance rule
// rounds the same; the bits of whatever is no product are demanded as of every engine.
func RunBF16(t *testing.T, open func(t *testing.T, cfg model.Config, microbatch, slots int) model.Engine) {
	run(t, open, inBF16(shapes))
}

// inBF16 returns shapes whose plain version rounds.
func inBF16(shapes []shape) (list []shape) {
	for _, s := range shapes {
		s.bf16 = true
		list = append(list, s)
	}
	return list
}

// bf16LossFloor is the floor for losses: a quarter of a unit in the last place of a bfloat16. A loss is one number, in
// which the plain version may be exact by luck.
const bf16LossFloor = 0x1p-10

// toBF16 rounds a finite number to the nearest bfloat16, ties to even.
func toBF16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// bf16Ops is the plain loops on operands that are rounded to bfloat16, where such an engine stores them as that.
func bf16Ops() Ops { return opsRoundedBy(toBF16) }

func opsRoundedBy(round func(float32) float32) Ops {
	rounded := func(x []float32) []float32 {
		y := make([]float32, len(x))
		for i, f := range x {
			y[i] = round(f)
		}
		return y
	}
	ops := plainOps[float32]()
	mul := func(plain func(c, a, b []float32, m, n, k int, add bool)) func(c, a, b []float32, m, n, k int, add bool) {
		return func(c, a, b []float32, m, n, k int, add bool) { plain(c, rounded(a), rounded(b), m, n, k, add) }
	}
	ops.MulNT, ops.MulNN, ops.MulTN = mul(ops.MulNT), mul(ops.MulNN), mul(ops.MulTN)
	plain := ops
	ops.Attention = func(out, qkv []float32, h Heads) { plain.Attention(out, rounded(qkv), h) }
	ops.AttentionBackward = func(dqkv, dout, qkv []float32, h Heads) {
		plain.AttentionBackward(dqkv, rounded(dout), rounded(qkv), h)
	}
	ops.ActivateBackward = func(dx, dy, x []float32, act model.Activation) { plain.ActivateBackward(dx, dy, rounded(x), act) }
	ops.NormBackward = func(dx, dy, x []float32, d int, eps float32) { plain.NormBackward(dx, rounded(dy), x, d, eps) }
	return ops
}
