package enginetest

import (
	"math"
	"testing"

	"andrea/model"
)

// failuresInBF16 runs the cheapest of the reference's shapes on a plain engine with these operations.
func failuresInBF16(ops Ops) (failures []string) {
	for _, s := range inBF16(smallShapes()[:3]) {
		failures = append(failures, failuresOf(func(t tester) {
			s.check(t, func(cfg model.Config, microbatch, slots int) model.Engine {
				return newPlain(cfg, microbatch, slots, ops)
			})
		})...)
	}
	return failures
}

// The rule for bfloat16 passes engines that are as exact as the plain version, or more so, and no others.
func TestBF16Rule(t *testing.T) {
	truncate := func(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ 0xffff) }
	coarse := func(x float32) float32 {
		bits := math.Float32bits(x)
		return math.Float32frombits((bits + 0x3ffff) &^ 0x7ffff)
	}
	stored := bf16Ops() // the gradient of the residual stream is kept in bfloat16
	stored.NormBackward = func(dx, dy, x []float32, d int, eps float32) {
		bf16Ops().NormBackward(dx, dy, x, d, eps)
		for i, f := range dx {
			dx[i] = truncate(f)
		}
	}
	for _, test := range []struct {
		name string
		ops  Ops
		pass bool
	}{
		{"rounds as it should", bf16Ops(), true},
		{"float32", plainOps[float32](), true},
		{"cuts off instead of rounding", opsRoundedBy(truncate), false},
		{"fewer bits", opsRoundedBy(coarse), false},
		{"cuts off the residual stream's gradient", stored, false},
	} {
		failures := failuresInBF16(test.ops)
		if (len(failures) == 0) != test.pass {
			t.Errorf("%s: passes is %v: %v", test.name, !test.pass, failures)
		}
	}
}

func TestToBF16(t *testing.T) {
	for x, want := range map[float32]float32{
		1: 1, 1 + 0x1p-8: 1, 1 + 0x3p-8: 1 + 0x2p-7, 1 + 0x1p-8 + 0x1p-20: 1 + 0x1p-7, -3.14159: -3.140625, 0x1.fffffep127: float32(math.Inf(1)),
	} {
		if got := toBF16(x); got != want {
			t.Errorf("toBF16(%v) is %v, want %v", x, got, want)
		}
	}
}
