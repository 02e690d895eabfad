package numeric

import "math"

// ln 2 in two parts: the first has 33 bits, so that its product with an exponent
// is exact.
const (
	ln2Hi = 0x1.62e42fee00000p-1
	ln2Lo = math.Ln2 - ln2Hi
)

// pi/2 in three parts; the first two have 33 bits each, so that their products
// with an integer below 2^20 are exact.
const (
	halfPiHi  = 0x1.921fb544p+0
	halfPiMid = 0x1.0b4611a6p-34
	halfPiLo  = math.Pi/2 - halfPiHi - halfPiMid
)

// MaxCos is the largest |x| that Cos accepts.
const MaxCos = 1 << 20

// reciprocalFactorials[n] is 1/n!.
var reciprocalFactorials = func() (f [18]float64) {
	f[0] = 1
	n := 1.0
	for i := 1; i < len(f); i++ {
		n *= float64(i)
		f[i] = 1 / n
	}
	return f
}()

// polynomial evaluates c[0] + c[1]x + c[2]x² + ... by Horner's rule, each product
// rounded before it is added.
func polynomial(x float64, c []float64) float64 {
	s := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		s = float64(s*x) + c[i]
	}
	return s
}

// Exp returns e^x within 2 units in the last place: x = k·ln 2 + r with
// |r| <= ln(2)/2, the Taylor polynomial of degree 14 of e^r, times 2^k.
func Exp(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > 709.79:
		return math.Inf(1)
	case x < -745.2:
		return 0
	}
	k := math.Floor(float64(x*(1/math.Ln2)) + 0.5)
	r := (x - float64(k*ln2Hi)) - float64(k*ln2Lo)
	return math.Ldexp(polynomial(r, reciprocalFactorials[:15]), int(k))
}

// logSeries[n] is 2/(2n+1): the series of ln((1+f)/(1-f)) / f in f².
var logSeries = func() (c [12]float64) {
	for i := range c {
		c[i] = 2 / float64(2*i+1)
	}
	return c
}()

// Log returns the natural logarithm of x within 2 units in the last place:
// x = m·2^e with m between sqrt(1/2) and sqrt(2), f = (m-1)/(m+1), and
// ln m = 2(f + f³/3 + f⁵/5 + ...).
func Log(x float64) float64 {
	switch {
	case x != x || x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case math.IsInf(x, 1):
		return x
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	f := (m - 1) / (m + 1)
	return float64(float64(e)*ln2Hi) + (float64(f*polynomial(float64(f*f), logSeries[:])) + float64(float64(e)*ln2Lo))
}

// cosSeries and sinSeries are the Taylor series of cos r and sin(r)/r in r².
var cosSeries, sinSeries = func() (c [9]float64, s [9]float64) {
	sign := 1.0
	for i := range c {
		c[i] = sign * reciprocalFactorials[2*i]
		s[i] = sign * reciprocalFactorials[2*i+1]
		sign = -sign
	}
	return c, s
}()

// Cos returns the cosine of x, |x| <= MaxCos, within 2^-52 absolute; NaN outside.
// x is reduced to |r| <= pi/4 by multiples of pi/2 (Cody and Waite, 1980).
func Cos(x float64) float64 {
	if !(math.Abs(x) <= MaxCos) {
		return math.NaN()
	}
	n := math.Floor(float64(x*(2/math.Pi)) + 0.5)
	r := ((x - float64(n*halfPiHi)) - float64(n*halfPiMid)) - float64(n*halfPiLo)
	r2 := r * r
	switch int64(n) & 3 {
	case 0:
		return polynomial(r2, cosSeries[:])
	case 1:
		return -float64(r * polynomial(r2, sinSeries[:]))
	case 2:
		return -polynomial(r2, cosSeries[:])
	default:
		return float64(r * polynomial(r2, sinSeries[:]))
	}
}

// PowInt returns x^n for n >= 0 by repeated squaring, from the lowest bit of n. The conversion at the end
// keeps a caller into which this is inlined from fusing the last product into a sum of its own.
func PowInt(x float64, n int64) float64 {
	result := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			result *= x
		}
		x *= x
	}
	return float64(result)
}
