package numeric

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// exactFMA is the slow definition: x*y+z in unlimited precision, rounded once.
func exactFMA(x, y, z float32) float32 {
	p := new(big.Float).SetPrec(600).SetFloat64(float64(x))
	p.Mul(p, new(big.Float).SetPrec(600).SetFloat64(float64(y)))
	p.Add(p, new(big.Float).SetPrec(600).SetFloat64(float64(z)))
	f, _ := p.Float32()
	if f == 0 && p.Sign() == 0 {
		return float32(float64(x)*float64(y) + float64(z)) // big.Float has its own sign of zero
	}
	return f
}

func TestFMA32AgreesWithExactArithmetic(t *testing.T) {
	finite := func(b uint32) (float32, bool) {
		f := math.Float32frombits(b)
		return f, !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0)
	}
	rapid.Check(t, func(t *rapid.T) {
		x, ok1 := finite(rapid.Uint32().Draw(t, "x"))
		y, ok2 := finite(rapid.Uint32().Draw(t, "y"))
		z, ok3 := finite(rapid.Uint32().Draw(t, "z"))
		if !ok1 || !ok2 || !ok3 {
			return
		}
		if rapid.Bool().Draw(t, "cancel") { // make the sum land near a tie or near zero
			z = -float32(float64(x)*float64(y)) * (1 + float32(rapid.IntRange(-4, 4).Draw(t, "ulps"))*0x1p-23)
			if math.IsInf(float64(z), 0) {
				return
			}
		}
		got, want := FMA32(x, y, z), exactFMA(x, y, z)
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("FMA32(%x, %x, %x) = %x, want %x", x, y, z, got, want)
		}
	})
}

// Random inputs miss double rounding, so these are constructed.
func TestFMA32Ties(t *testing.T) {
	for _, c := range []struct {
		x, y, z float32
		want    uint32
	}{
		{1 + 0x1p-12, 1 + 0x1p-12, 0x1p-60, 0x3f801001},  // just above a tie: up
		{1 + 0x1p-12, 1 + 0x1p-12, -0x1p-60, 0x3f801000}, // just below: down
		{1 + 0x1p-12, 1 + 0x1p-12, 0, 0x3f801000},        // on the tie: to even
		{-1 - 0x1p-12, 1 + 0x1p-12, -0x1p-60, 0xbf801001},
		{0x1p-75, 0x1p-75, 0x1p-149, 0x00000002},   // 1.5 of the smallest subnormal: to even
		{0x1p-75, 0x1p-75, -0x1p-149, 0x80000000},  // half of it, negative: to even
		{0x1.4p-75, 0x1p-75, 0x1p-149, 0x00000002}, // 1.625 of it
		{1, 1, -1, 0},
		{-0x1p-100, 0x1p-100, 0, 0x80000000},
		{0x1.fffffep127, 2, 0, 0x7f800000},
	} {
		if got := math.Float32bits(FMA32(c.x, c.y, c.z)); got != c.want || exactBits(c.x, c.y, c.z) != c.want {
			t.Errorf("FMA32(%x, %x, %x) = %08x, exact %08x, want %08x", c.x, c.y, c.z, got, exactBits(c.x, c.y, c.z), c.want)
		}
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	if got := FMA32(inf, 1, 1); got != inf {
		t.Errorf("infinity is lost: %v", got)
	}
	for _, c := range [][3]float32{{inf, 0, 1}, {inf, 1, -inf}, {nan, 1, 1}, {1, 1, nan}} {
		if got := FMA32(c[0], c[1], c[2]); got == got {
			t.Errorf("FMA32%v = %v, want NaN", c, got)
		}
	}
}

func exactBits(x, y, z float32) uint32 { return math.Float32bits(exactFMA(x, y, z)) }

// ulps is the distance of got from want in units of want's last place.
func ulps(got, want float64) float64 {
	if got == want {
		return 0
	}
	return math.Abs(got-want) / (math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want))
}

func TestElementaryFunctionsStayWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-708, 709).Draw(t, "x")
		if d := ulps(Exp(x), math.Exp(x)); d > 3 { // math.Exp itself is within one
			t.Fatalf("Exp(%v) is off by %v ulp", x, d)
		}
		y := rapid.Float64Range(1e-300, 1e300).Draw(t, "y")
		if d := ulps(Log(y), math.Log(y)); d > 3 {
			t.Fatalf("Log(%v) is off by %v ulp", y, d)
		}
		z := rapid.Float64Range(0.5, 2).Draw(t, "z")
		if d := ulps(Log(z), math.Log(z)); d > 3 {
			t.Fatalf("Log(%v) is off by %v ulp", z, d)
		}
		c := rapid.Float64Range(-1000, 1000).Draw(t, "c")
		if d := math.Abs(Cos(c) - math.Cos(c)); d > 0x1p-51 {
			t.Fatalf("Cos(%v) is off by %v", c, d)
		}
	})
}

func TestSpecialValues(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"Exp(0)", Exp(0), 1},
		{"Exp(-inf)", Exp(math.Inf(-1)), 0},
		{"Exp(inf)", Exp(math.Inf(1)), math.Inf(1)},
		{"Log(1)", Log(1), 0},
		{"Log(0)", Log(0), math.Inf(-1)},
		{"Log(inf)", Log(math.Inf(1)), math.Inf(1)},
		{"Cos(0)", Cos(0), 1},
		{"Cos(pi)", Cos(math.Pi), -1},
		{"PowInt(3, 0)", PowInt(3, 0), 1},
		{"PowInt(3, 13)", PowInt(3, 13), 1594323},
	} {
		if c.got != c.want {
			t.Errorf("%s = %v, want %v", c.name, c.got, c.want)
		}
	}
	for name, f := range map[string]float64{"Exp(NaN)": Exp(math.NaN()), "Log(-1)": Log(-1), "Cos(inf)": Cos(math.Inf(1))} {
		if f == f {
			t.Errorf("%s = %v, want NaN", name, f)
		}
	}
}

// The bits are the promise: these were computed once and hold on every machine.
func TestGoldenBits(t *testing.T) {
	var h uint64
	mix := func(f float64) { h = (h ^ math.Float64bits(f)) * 0x9e3779b97f4a7c15; h ^= h >> 29 }
	for i := range 2000 {
		x := float64(float64(i) * 0.3717) // rounded here, or v3 fuses it below
		mix(Exp(x - 350))
		mix(Log(x + 1e-9))
		mix(Cos(x))
		mix(PowInt(0.999, int64(i)))
	}
	if want := uint64(0x6d5d344fce1f71cb); h != want {
		t.Errorf("hash of the bits = %#x, want %#x", h, want)
	}
}
