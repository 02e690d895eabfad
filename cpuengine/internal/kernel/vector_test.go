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
	{"Sum", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { return p.Sum(x) }},
	{"Dot", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { return p.Dot(x, y) }},
	{"ExpSum", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { return p.ExpSum(dst, x, a) }},
	{"Scale", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.Scale(dst, x, a); return 0 }},
	{"Add", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.Add(dst, x, y); return 0 }},
	{"Mul", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.Mul(dst, x, y); return 0 }},
	{"Axpy", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.Axpy(dst, a, x); return 0 }},
	{"SubScaleMul", func(p *Path, dst, x, y, z []float32, a, b float32) float32 { p.SubScaleMul(dst, x, y, a, b); return 0 }},
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
		for i, v := range y { // second moments are not negative
			y[i] = float32(math.Abs(float64(v)))
		}
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
