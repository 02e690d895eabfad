package numeric

import "math"

const (
	// tieMask are the bits of a float64 that a conversion to float32 rounds away.
	tieMask = 1<<29 - 1
	// tie is the pattern of these bits halfway between two normal float32 values.
	tie = 1 << 28
	// minNormal is the smallest normal float32 as the bits of a float64.
	minNormal = uint64(1023-126) << 52
	signBit   = uint64(1) << 63
)

// FMA32 returns x*y + z rounded once to float32, the bits of a hardware fp32
// fused multiply-add.
//
// The product of two float32 values is exact in float64, and so is the error of the
// sum (Knuth's TwoSum). Rounding the float64 sum again to float32 is wrong only
// where it lies halfway between two float32 values, or where the result is
// subnormal; there the sum is first rounded to odd (Boldo and Melquiond, 2008).
func FMA32(x, y, z float32) float32 {
	p := float64(x) * float64(y)
	s := p + float64(z)
	bits := math.Float64bits(s)
	if bits&tieMask != tie && bits&^signBit >= minNormal {
		return float32(s)
	}
	return float32(roundToOdd(p, float64(z), s))
}

// roundToOdd returns s = p+z with its last bit set when the sum was inexact.
func roundToOdd(p, z, s float64) float64 {
	if s == 0 || s != s {
		return s
	}
	b := s - p
	e := (p - (s - b)) + (z - b)
	bits := math.Float64bits(s)
	if e == 0 || bits&1 == 1 {
		return s
	}
	if (e > 0) == (s > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}
