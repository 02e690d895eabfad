package kernel

import (
	"math"
	"testing"
)

// ulpError returns the distance of got from the true value in units of the last place of the
// fp32 number next to want.
func ulpError(got float32, want float64) float64 {
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, e-24)
}

// expOf runs one path's exponential on a row.
func expOf(p *Path, x []float32) []float32 {
	dst := make([]float32, len(x))
	p.ExpSum(dst, x, 0)
	return dst
}

func TestExpErrorBound(t *testing.T) {
	const bound = 1.0 // stated by ExpSum; 0.881 is the largest found over every third argument
	for _, p := range Paths() {
		stride := uint32(9973) // a prime: over the tests' whole range, any exponent and ending
		if p.name == "portable" {
			stride *= 64
		}
		worst, worstAt := 0.0, float32(0)
		for _, limit := range []float32{expHigh, expLow} {
			end, sign := math.Float32bits(limit)&^(1<<31), math.Float32bits(limit)&(1<<31)
			var x []float32
			for b := math.Float32bits(0x1p-30); b < end; b += stride {
				x = append(x, math.Float32frombits(b|sign))
			}
			x = append(x, limit)
			for i, y := range expOf(p, x) {
				if e := ulpError(y, math.Exp(float64(x[i]))); !(e <= worst) {
					worst, worstAt = e, x[i]
				}
			}
		}
		if !(worst <= bound) {
			t.Errorf("%s: exp(%v) is wrong by %.3f ulp, bound %v", p, worstAt, worst, bound)
		}
		t.Logf("%s: largest error %.3f ulp, at %v", p, worst, worstAt)
	}
}

func TestExpSpecialValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	cases := []struct{ x, want float32 }{
		{0, 1}, {float32(math.Copysign(0, -1)), 1}, {0x1p-149, 1}, {-0x1p-149, 1}, {0x1p-26, 1},
		{-inf, 0}, {math.Nextafter32(-87, -100), 0}, {-88, 0}, {-1e30, 0}, {-math.MaxFloat32, 0},
		{inf, inf}, {math.Nextafter32(88.72283, 100), inf}, {89, inf}, {1e30, inf}, {math.MaxFloat32, inf},
		{nan, nan}, {math.Float32frombits(0x7fc001ff), nan}, {math.Float32frombits(0xffc001ff), nan}, {math.Float32frombits(0x7fffffff), nan},
	}
	for _, p := range Paths() {
		for _, c := range cases {
			x := make([]float32, 19) // a whole vector and a tail
			for i := range x {
				x[i] = c.x
			}
			for i, y := range expOf(p, x) {
				if !sameBits(y, c.want) {
					t.Errorf("%s: element %d: exp(%v) = %v, want %v", p, i, c.x, y, c.want)
				}
			}
		}
		if y := expOf(p, []float32{-87, 88.72283}); y[0] < 0x1p-126 || y[1] > math.MaxFloat32 {
			t.Errorf("%s: exp at the ends of its range = %v", p, y)
		}
	}
}
