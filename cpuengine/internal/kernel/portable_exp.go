package kernel

import (
	"math"

	"andrea/numeric"
)

// The exponential: x = n·ln 2 + r with |r| <= ln(2)/2, and e^r by a polynomial of degree 6
// (minimax in relative error with the first two coefficients fixed to 1, found with Remez'
// exchange; 3.1e-9 from e^r, 0.05 ulp). The error bound of 1 ulp is tested.
const (
	expLow  = -87      // below: the result is +0. e^-87 is just above the smallest normal number
	expHigh = 88.72283 // the last fp32 below ln(MaxFloat32); above: +Inf

	log2e = 0x1.715476p+0
	ln2Hi = 0x1.62e43p-1   // the nearest fp32 to ln 2
	ln2Lo = -0x1.05c61p-29 // what is left
	magic = 3 << 22        // x + magic - magic rounds |x| < 2^22 to the nearest integer

	exp2 = 0.499999933731
	exp3 = 0.166665195241
	exp4 = 0.0416684010808
	exp5 = 0.00836885106806
	exp6 = 0.00138143207239
)

// exp returns e^x: within 1 ulp on [-87, 88.72], +0 below, +Inf above, 1 for 0, NaN for NaN.
func exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < expLow:
		return 0
	case x > expHigh:
		return float32(math.Inf(1))
	}
	n := float32(float32(x*log2e)+magic) - magic
	r := numeric.FMA32(n, -ln2Hi, x)
	r = numeric.FMA32(n, -ln2Lo, r)
	p := numeric.FMA32(exp6, r, exp5)
	p = numeric.FMA32(p, r, exp4)
	p = numeric.FMA32(p, r, exp3)
	p = numeric.FMA32(p, r, exp2)
	p = numeric.FMA32(p, r, 1)
	p = numeric.FMA32(p, r, 1)
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23) // p·2^n
}

func portableExpSum(dst, x []float32, bias float32) float32 {
	for i, v := range x {
		dst[i] = exp(v - bias)
	}
	return portableSum(dst)
}
