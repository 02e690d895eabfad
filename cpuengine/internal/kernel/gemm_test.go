package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"andrea/cpuengine/internal/pool"
	"andrea/numeric"
)

// canary fills memory that no function may write.
const canary = float32(-12345.5)

// layout says how a test matrix lies in memory.
type layout struct {
	transposed bool
	gap        int // unused elements after each stored row
}

// matrix returns a rows x cols matrix of that layout with canaries in its gaps, and fills it.
func matrix(rows, cols int, l layout, fill func() float32) Matrix {
	r, c := rows, cols
	if l.transposed {
		r, c = c, r
	}
	data := make([]float32, r*(c+l.gap))
	for i := range data {
		data[i] = canary
		if i%(c+l.gap) < c {
			data[i] = fill()
		}
	}
	m := View(data, r, c, c+l.gap)
	if l.transposed {
		return m.T()
	}
	return m
}

func (m Matrix) at(i, j int) float32 {
	if m.Transposed {
		i, j = j, i
	}
	return m.Data[i*m.Stride+j]
}

func clone(m Matrix) Matrix {
	m.Data = append([]float32(nil), m.Data...)
	return m
}

// chain is the definition of a product: one chain of fused multiply-adds per element.
func chain(c, a, b Matrix, add bool) {
	for i := range c.Rows {
		for j := range c.Cols {
			acc := float32(0)
			if add {
				acc = c.at(i, j)
			}
			for k := range a.Cols {
				acc = numeric.FMA32(a.at(i, k), b.at(k, j), acc)
			}
			c.Data[i*c.Stride+j] = acc
		}
	}
}

// sameBits reports whether x and y have the same bits; all NaNs count as one.
func sameBits(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

func compare(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("%s: element %d = %x (%v), want %x (%v)", what, i, math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
		}
	}
}

func uniform(r *rand.Rand) func() float32 {
	return func() float32 { return r.Float32() - 0.5 }
}

// awkward draws values that break sloppy arithmetic: ties, denormals, zeros, infinities.
func awkward(r *rand.Rand) func() float32 {
	values := []float32{
		0, float32(math.Copysign(0, -1)), 1, -1, 1 + 0x1p-12, 1 - 0x1p-12, 0x1p-60, -0x1p-60, 0x1p-24, 1 + 0x1p-23,
		0x1p-126, 0x1p-149, -0x1.8p-140, 0x1p-75, 0x1.fffffep-64, 0x1p127, 0x1.fffffep63, 3, 0x1.000002p12,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	}
	return func() float32 {
		if n := r.IntN(40); n < len(values)-3 { // the last three only rarely, or all is NaN
			return values[n]
		}
		if r.IntN(300) == 0 {
			return values[len(values)-1-r.IntN(3)]
		}
		return math.Float32frombits(0x3f800000 ^ r.Uint32()&0x80ffffff)
	}
}

// products calls f for each path and number of workers.
func products(t *testing.T, f func(t *testing.T, g *Gemm)) {
	for _, path := range Paths() {
		for _, workers := range []int{1, 2, 7} {
			t.Run(fmt.Sprintf("%s/%d", path, workers), func(t *testing.T) {
				p := pool.New(workers)
				defer p.Close()
				f(t, NewGemm(path, p))
			})
		}
	}
}

type shape struct{ m, n, k int }

func raggedShapes() []shape {
	shapes := []shape{
		{1, 1, 1}, {1, 1, 0}, {0, 3, 4}, {3, 0, 4}, {5, 7, 0}, {8, 48, 4}, {64, 48, 16}, {65, 49, 33}, {3, 2305, 2},
		{1, 97, 385}, {9, 50, 383}, {17, 30, 384}, {4, 17, 769}, {2, 1537, 3}, {130, 5, 7}, {31, 113, 47}, {128, 128, 32}, {128, 32, 128},
	}
	edges := []int{1, 2, 7, 8, 15, 16, 17, 31, 33, 47, 48, 49, 63, 64, 65, 96, 113}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		shapes = append(shapes, shape{edges[r.IntN(len(edges))], edges[r.IntN(len(edges))], edges[r.IntN(len(edges))]})
	}
	return shapes
}

func TestProductIsOneChain(t *testing.T) {
	products(t, func(t *testing.T, g *Gemm) {
		r := rand.New(rand.NewPCG(3, 4))
		for n, s := range raggedShapes() {
			fill := uniform(r)
			if n%3 == 0 {
				fill = awkward(r)
			}
			la, lb := layout{n%2 == 1, r.IntN(3) * 5}, layout{n/2%2 == 1, r.IntN(3) * 3}
			a, b := matrix(s.m, s.k, la, fill), matrix(s.k, s.n, lb, fill)
			c := matrix(s.m, s.n, layout{gap: r.IntN(3) * 7}, fill)
			for _, add := range []bool{false, true} {
				want, got, local := clone(c), clone(c), clone(c)
				chain(want, a, b, add)
				g.Mul(got, a, b, add)
				g.MulLocal(n%g.pool.Workers(), local, a, b, add)
				what := fmt.Sprintf("%v A %+v B %+v add %t", s, la, lb, add)
				compare(t, "Mul "+what, got.Data, want.Data)
				compare(t, "MulLocal "+what, local.Data, want.Data)
			}
		}
	})
}
