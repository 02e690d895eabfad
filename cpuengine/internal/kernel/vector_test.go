package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// lengths are the row lengths that tests run: every tail of both vector widths, and whole rows.
func lengths() []int {
	var n []int
	for i := range 70 {
		n = append(n, i)
	}
	return append(n, 113, 255, 384, 1000, 1024, 2305)
}

// row returns n numbers at an odd address, followed by a canary.
func row(n int, fill func() float32) []float32 {
	x := make([]float32, n+2)
	for i := range x {
		x[i] = fill()
	}
	x[n+1] = canary
	return x[1 : n+2]
}

// vectorCase is a function of rows. Run gets the destination, which may also be a source,
// three sources and two scalars, and returns a reduction's result.
type vectorCase struct {
	name string
	run  func(p *Path, dst, x, y, z []float32, a, b float32) float32
}

var vectorCases = []vectorCase{
	{"Max", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { return p.Max(x) }},
	{"Dot", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { return p.Dot(x, y) }},
	{"ExpSum", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { return p.ExpSum(dst, x, a) }},
	{"Scale", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.Scale(dst, x, a); return 0 }},
	{"Add", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.Add(dst, x, y); return 0 }},
	{"SoftmaxBackward", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.SoftmaxBackward(dst, x, y, a); return 0 }},
	{"NormBackward", func(p *Path, dst, x, y, z []float32, a, b float32) float32 {
		p.NormBackward(dst, x, y, a, b, false)
		return 0
	}},
	{"NormBackward add", func(p *Path, dst, x, y, z []float32, a, b float32) float32 {
		p.NormBackward(dst, x, y, a, b, true)
		return 0
	}},
	{"Relu", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.Relu(dst, x); return 0 }},
	{"ReluBackward", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.ReluBackward(dst, x, y); return 0 }},
	{"ReluSquared", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.ReluSquared(dst, x); return 0 }},
	{"ReluSquaredBackward", func(p *Path, dst, x, y, z []float32, a, b float32) float32 {
		p.ReluSquaredBackward(dst, x, y)
		return 0
	}},
	{"AdamW", func(p *Path, dst, x, y, z []float32, a, b float32) float32 {
		h := AdamW{Scale: a, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05, LR: 1e-3, Correction1: 0.19, Correction2: 0.0975, Eps: 1e-8, Decay: b}
		p.AdamW(dst, x, y, z, h)
		return 0
	}},
}

func TestPathsGiveTheBitsOfPortable(t *testing.T) {
	portable := portablePath()
	for _, path := range nativePaths() {
		for _, c := range vectorCases {
			t.Run(path.String()+"/"+c.name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, 6))
				for round := range 3 {
					fill := [](func() float32){uniform(r), awkward(r), wide(r)}[round]
					for _, n := range lengths() {
						checkVector(t, portable, path, c, n, fill, round)
					}
				}
			})
		}
	}
}

// wide draws exponents over the whole range, and the arguments where exp changes its mind.
func wide(r *rand.Rand) func() float32 {
	special := []float32{-87, math.Nextafter32(-87, -100), math.Nextafter32(-87, 0), 88.72283, math.Nextafter32(88.72283, 100), 88.376, 88.38, 0, -0x1p-149}
	return func() float32 {
		switch r.IntN(4) {
		case 0:
			return special[r.IntN(len(special))]
		case 1:
			return float32(r.NormFloat64() * 40)
		}
		x := math.Float32frombits(r.Uint32())
		if x != x {
			return -x
		}
		return x
	}
}

// checkVector runs one case on both paths: with a destination of its own, and in place.
func checkVector(t *testing.T, portable, path *Path, c vectorCase, n int, fill func() float32, round int) {
	t.Helper()
	dst, x, y, z := row(n, fill), row(n, fill), row(n, fill), row(n, fill)
	if c.name == "AdamW" { // second moments are not negative
		for i := range y {
			y[i] = float32(math.Abs(float64(y[i])))
		}
	}
	a, b := fill(), fill()
	if round != 2 && c.name == "ExpSum" {
		a = 0.25 // keep the arguments where the exponential is finite
	}
	for _, inPlace := range []bool{false, true} {
		if inPlace && c.name == "AdamW" {
			continue // weights and moments never share memory
		}
		var results [2]float32
		var memory [2][]float32
		for i, p := range []*Path{portable, path} {
			d, x, y, z := append([]float32(nil), dst...), append([]float32(nil), x...), append([]float32(nil), y...), append([]float32(nil), z...)
			if inPlace {
				x = d
			}
			results[i] = c.run(p, d[:n], x[:n], y[:n], z[:n], a, b)
			memory[i] = append(append(append(d, x...), y...), z...)
		}
		what := fmt.Sprintf("n %d round %d in place %t a %v b %v", n, round, inPlace, a, b)
		if !sameBits(results[0], results[1]) {
			t.Fatalf("%s: result %x, want %x", what, math.Float32bits(results[1]), math.Float32bits(results[0]))
		}
		compare(t, what, memory[1], memory[0])
	}
}

// TestReductionsFollowTheTree has numbers whose sum depends on the order of additions.
func TestReductionsFollowTheTree(t *testing.T) {
	at := func(n int, values map[int]float32) []float32 {
		x := make([]float32, n)
		for i, v := range values {
			x[i] = v
		}
		return x
	}
	cases := []struct {
		name string
		x    []float32
		want float32
	}{
		{"empty", nil, 0},
		{"only -0", []float32{float32(math.Copysign(0, -1))}, 0},
		{"one partial sum", at(40, map[int]float32{0: 0x1p24, 16: 1, 32: 1}), 0x1p24},
		{"ones meet in another partial sum", at(40, map[int]float32{0: 0x1p24, 1: 1, 17: 1}), 0x1p24 + 2},
		{"ones meet at distance 8", at(16, map[int]float32{0: 0x1p24, 1: 1, 9: 1}), 0x1p24 + 2},
		{"one joins the large at distance 8", at(16, map[int]float32{0: 0x1p24, 8: 1, 1: 1}), 0x1p24},
		{"ones meet at distance 4", at(16, map[int]float32{0: 0x1p24, 1: 1, 5: 1}), 0x1p24 + 2},
		{"ones meet at distance 2", at(16, map[int]float32{0: 0x1p24, 1: 1, 3: 1}), 0x1p24 + 2},
		{"distance 1 is last", at(16, map[int]float32{0: 0x1p24, 2: 1, 1: 1}), 0x1p24},
	}
	for _, c := range cases {
		// The sum of ExpSum, on every path: TestPathsGiveTheBitsOfPortable.
		if got := portableSum(c.x); !sameBits(got, c.want) {
			t.Errorf("portableSum, %s = %v, want %v", c.name, got, c.want)
		}
	}
	for _, p := range Paths() {
		for _, c := range cases {
			ones := make([]float32, len(c.x))
			for i := range ones {
				ones[i] = 1
			}
			if got := p.Dot(c.x, ones); !sameBits(got, c.want) {
				t.Errorf("%s: Dot, %s = %v, want %v", p, c.name, got, c.want)
			}
		}
	}
}

func TestDotIsFused(t *testing.T) {
	const tie = 1 + 0x1p-12
	x, y := make([]float32, 17), make([]float32, 17)
	x[0], y[0], x[16], y[16] = tie, tie, -1, 1+0x1p-11
	x[0], y[0], x[16], y[16] = x[16], y[16], x[0], y[0]
	for _, p := range Paths() {
		if got := p.Dot(x, y); got != 0x1p-24 {
			t.Errorf("%s: Dot = %x, want 2^-24", p, got)
		}
	}
}

func TestMax(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, p := range Paths() {
		for _, n := range lengths() {
			x := make([]float32, n)
			for i := range x {
				x[i] = -float32(i%7) - 3
			}
			want := -inf
			if n > 0 {
				want = -3
			}
			if got := p.Max(x); got != want {
				t.Fatalf("%s: Max of %d elements = %v, want %v", p, n, got, want)
			}
			for i := range x {
				old := x[i]
				if x[i] = 5; p.Max(x) != 5 {
					t.Fatalf("%s: Max missed element %d of %d", p, i, n)
				}
				if x[i] = nan; p.Max(x) == p.Max(x) {
					t.Fatalf("%s: Max missed NaN at %d of %d", p, i, n)
				}
				x[i] = old
			}
		}
	}
}

// TestElementwiseMeaning compares each function with its formula in float64.
func TestElementwiseMeaning(t *testing.T) {
	relu := func(x float64) float64 { return max(x, 0) }
	formulas := map[string]func(dst, x, y, a, b float64) float64{
		"Scale":            func(dst, x, y, a, b float64) float64 { return x * a },
		"Add":              func(dst, x, y, a, b float64) float64 { return x + y },
		"SoftmaxBackward":  func(dst, x, y, a, b float64) float64 { return y * (x - a) },
		"NormBackward":     func(dst, x, y, a, b float64) float64 { return a * (x - y*b) },
		"NormBackward add": func(dst, x, y, a, b float64) float64 { return dst + a*(x-y*b) },
		"Relu":             func(dst, x, y, a, b float64) float64 { return relu(x) },
		"ReluBackward": func(dst, x, y, a, b float64) float64 {
			if y > 0 {
				return x
			}
			return 0
		},
		"ReluSquared":         func(dst, x, y, a, b float64) float64 { return relu(x) * relu(x) },
		"ReluSquaredBackward": func(dst, x, y, a, b float64) float64 { return x * 2 * relu(y) },
		"ExpSum":              func(dst, x, y, a, b float64) float64 { return math.Exp(x - a) },
	}
	r := rand.New(rand.NewPCG(15, 16))
	for _, c := range vectorCases {
		f, ok := formulas[c.name]
		if !ok {
			continue // reductions and AdamW have tests of their own
		}
		const n, a, b = 37, 0.75, -1.25
		dst, x, y := row(n, uniform(r)), row(n, uniform(r)), row(n, uniform(r))
		old := append([]float32(nil), dst...)
		c.run(portablePath(), dst[:n], x[:n], y[:n], nil, a, b)
		for i := range n {
			want := f(float64(old[i]), float64(x[i]), float64(y[i]), a, b)
			if math.Abs(float64(dst[i])-want) > 4e-7 {
				t.Errorf("%s: element %d = %v, want %v", c.name, i, dst[i], want)
			}
		}
	}
}

// TestAdamWMeaning follows 20 updates in float64.
func TestAdamWMeaning(t *testing.T) {
	const beta1, beta2, lr, eps, decay = 0.9, 0.95, 1e-2, 1e-8, 0.1
	for _, p := range Paths() {
		r := rand.New(rand.NewPCG(17, 18))
		w, m, v, g := random(9), make([]float32, 9), make([]float32, 9), make([]float32, 9)
		var w64, m64, v64 [9]float64
		for i := range w {
			w64[i] = float64(w[i])
		}
		for update := 1; update <= 20; update++ {
			c1, c2 := 1-math.Pow(beta1, float64(update)), 1-math.Pow(beta2, float64(update))
			for i := range g {
				g[i] = r.Float32() - 0.3
				x := float64(g[i]) * 0.5
				m64[i] = beta1*m64[i] + (1-beta1)*x
				v64[i] = beta2*v64[i] + (1-beta2)*x*x
				w64[i] -= lr * (m64[i]/c1/(math.Sqrt(v64[i]/c2)+eps) + decay*w64[i])
			}
			p.AdamW(w, m, v, g, AdamW{0.5, beta1, 1 - beta1, beta2, 1 - beta2, lr, float32(c1), float32(c2), eps, decay})
		}
		for i := range w {
			if math.Abs(float64(w[i])-w64[i]) > 2e-6 || math.Abs(float64(m[i])-m64[i]) > 1e-6 || math.Abs(float64(v[i])-v64[i]) > 1e-6 {
				t.Errorf("%s: element %d: w %v m %v v %v, want %v %v %v", p, i, w[i], m[i], v[i], w64[i], m64[i], v64[i])
			}
		}
	}
}

func TestShortSourcesPanic(t *testing.T) {
	for _, p := range Paths() {
		for _, c := range vectorCases {
			if c.name == "Max" {
				continue // one slice alone
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: %s read past a slice", p, c.name)
					}
				}()
				c.run(p, make([]float32, 20), make([]float32, 19), make([]float32, 18), make([]float32, 19), 1, 1)
			}()
		}
	}
}
