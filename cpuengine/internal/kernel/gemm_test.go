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

// products calls f for each path and number of workers. The race detector makes a product
// many times slower, and seven workers show it all that one or two could.
func products(t *testing.T, f func(t *testing.T, g *Gemm)) {
	counts := []int{1, 2, 7}
	if underRace {
		counts = []int{7}
	}
	for _, path := range Paths() {
		for _, workers := range counts {
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
		{1, 97, blockK - 1}, {9, 50, blockK}, {17, 30, blockK + 1}, {4, 17, 2*blockK + 1}, {2, blockN + 1, 3}, {3, localBlockN + 1, 5},
		{130, 5, 7}, {31, 113, 47}, {128, 128, 32}, {128, 32, 128}, {blockM + 1, 97, 9},
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
			checkProductBits(t, g, s, la, lb, r.IntN(3)*7, fill)
		}
	})
}

// checkProductBits compares Mul and MulLocal, setting and adding, with the definition. Equal
// data includes the canaries in C's gaps.
func checkProductBits(t *testing.T, g *Gemm, s shape, la, lb layout, gap int, fill func() float32) {
	t.Helper()
	a, b := matrix(s.m, s.k, la, fill), matrix(s.k, s.n, lb, fill)
	c := matrix(s.m, s.n, layout{gap: gap}, fill)
	for _, add := range []bool{false, true} {
		want, got, local := clone(c), clone(c), clone(c)
		chain(want, a, b, add)
		g.Mul(got, a, b, add)
		g.MulLocal(s.m%g.pool.Workers(), local, a, b, add)
		what := fmt.Sprintf("%v A %+v B %+v add %t", s, la, lb, add)
		compare(t, "Mul "+what, got.Data, want.Data)
		compare(t, "MulLocal "+what, local.Data, want.Data)
	}
}

func FuzzProduct(f *testing.F) {
	f.Add(uint8(8), uint8(48), uint8(4), uint8(0), uint8(0), uint64(1))
	f.Add(uint8(65), uint8(113), uint8(33), uint8(0x1f), uint8(3), uint64(2))
	f.Add(uint8(0), uint8(1), uint8(0), uint8(0xff), uint8(1), uint64(3))
	p := pool.New(2)
	f.Cleanup(p.Close)
	var all []*Gemm
	for _, path := range Paths() {
		all = append(all, NewGemm(path, p))
	}
	f.Fuzz(func(t *testing.T, m, n, k, how, gap uint8, seed uint64) {
		s := shape{int(m) % 70, int(n) % 130, int(k) % 80}
		if how&8 != 0 {
			s.k += blockK - 40
		}
		for _, g := range all {
			r := rand.New(rand.NewPCG(seed, 0))
			fill := uniform(r)
			if how&4 != 0 {
				fill = awkward(r)
			}
			checkProductBits(t, g, s, layout{how&1 != 0, int(gap)}, layout{how&2 != 0, int(gap) / 2}, int(gap)/3, fill)
		}
	})
}

// TestProductRoundsOnce has sums that lie exactly between two fp32 numbers in float64: an
// implementation that rounds twice, or does not fuse, gives another last bit.
func TestProductRoundsOnce(t *testing.T) {
	const tie = 1 + 0x1p-12 // squared: 1 + 2^-11 + 2^-24, half an ulp above an fp32 number
	cases := []struct {
		name    string
		a, b    []float32 // a row and a column
		c, want float32
	}{
		{"tie to even", []float32{tie}, []float32{tie}, 0, 1 + 0x1p-11},
		{"just above the tie", []float32{tie}, []float32{tie}, 0x1p-60, 1 + 0x1p-11 + 0x1p-23},
		{"just below the tie", []float32{tie}, []float32{tie}, -0x1p-60, 1 + 0x1p-11},
		{"negative, just above", []float32{-tie}, []float32{tie}, -0x1p-60, -(1 + 0x1p-11 + 0x1p-23)},
		{"the small part from the chain", []float32{0x1p-30, tie}, []float32{0x1p-30, tie}, 0, 1 + 0x1p-11 + 0x1p-23},
		{"the order of the chain", []float32{0x1p24, 1, 1}, []float32{1, 1, 1}, 0, 0x1p24},
		{"the order of the chain, reversed", []float32{1, 1, 0x1p24}, []float32{1, 1, 1}, 0, 0x1p24 + 2},
		{"fused, not rounded product", []float32{tie, -1}, []float32{tie, 1 + 0x1p-11}, 0, 0},
		{"fused with C", []float32{tie}, []float32{tie}, -(1 + 0x1p-11), 0x1p-24},
		{"subnormal tie", []float32{0x1.8p-75}, []float32{0x1p-75}, 0, 0x1p-149},
		{"subnormal kept", []float32{0x1p-75}, []float32{0x1p-74}, 0x1p-149, 0x1p-148},
		{"-0 is lost against +0", []float32{-1}, []float32{0}, 0, 0},
	}
	products(t, func(t *testing.T, g *Gemm) {
		for _, c := range cases {
			const m, n = 9, 49 // the same in every row and column of whole and partial tiles
			k := len(c.a)
			a := matrix(m, k, layout{}, func() float32 { return 0 })
			b := matrix(k, n, layout{}, func() float32 { return 0 })
			for i := range m * k {
				a.Data[i] = c.a[i%k]
			}
			for i := range k * n {
				b.Data[i] = c.b[i/n]
			}
			out := matrix(m, n, layout{}, func() float32 { return c.c })
			g.Mul(out, a, b, true)
			for _, v := range out.Data {
				if !sameBits(v, c.want) {
					t.Fatalf("%s: %x, want %x", c.name, math.Float32bits(v), math.Float32bits(c.want))
				}
			}
		}
	})
}

// TestProductErrorBound compares with float64: |error| <= k·2^-24·Σ|a||b|, the bound of any
// order of k roundings to nearest (Higham, Accuracy and Stability, 3.1).
func TestProductErrorBound(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, path := range Paths() {
		const m, n, k = 19, 67, 700
		r := rand.New(rand.NewPCG(9, 10))
		a, b := matrix(m, k, layout{}, uniform(r)), matrix(k, n, layout{transposed: true}, uniform(r))
		c := matrix(m, n, layout{}, uniform(r))
		NewGemm(path, p).Mul(c, a, b, false)
		for i := range m {
			for j := range n {
				sum, size := 0.0, 0.0
				for kk := range k {
					x := float64(a.at(i, kk)) * float64(b.at(kk, j))
					sum, size = sum+x, size+math.Abs(x)
				}
				if e := math.Abs(float64(c.at(i, j)) - sum); !(e <= k*0x1p-24*size) {
					t.Fatalf("%s: element (%d,%d): error %g above the bound %g", path, i, j, e, k*0x1p-24*size)
				}
			}
		}
	}
}

func TestProductAllocatesNothing(t *testing.T) {
	products(t, func(t *testing.T, g *Gemm) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, columns := range []int{50, 70} { // by rows and by panels
			a, b := matrix(33, 20, layout{transposed: true}, uniform(r)), matrix(20, columns, layout{}, uniform(r))
			c := matrix(33, columns, layout{}, uniform(r))
			if n := testing.AllocsPerRun(10, func() { g.Mul(c, a, b, true); g.MulLocal(0, c, a, b, false) }); n != 0 {
				t.Fatalf("%d columns: %v allocations", columns, n)
			}
		}
	})
}

func TestMulLocalOfAllWorkersAtOnce(t *testing.T) {
	p := pool.New(4)
	defer p.Close()
	for _, path := range Paths() {
		g := NewGemm(path, p)
		r := rand.New(rand.NewPCG(13, 14))
		a, b := matrix(40, 21, layout{}, uniform(r)), matrix(21, 50, layout{transposed: true}, uniform(r))
		want := matrix(40, 50, layout{}, uniform(r))
		chain(want, a, b, false)
		var out [32]Matrix
		for i := range out {
			out[i] = clone(want)
			clear(out[i].Data)
		}
		p.Each(len(out), func(w, i int) { g.MulLocal(w, out[i], a, b, false) })
		for i := range out {
			compare(t, fmt.Sprintf("%s product %d", path, i), out[i].Data, want.Data)
		}
	}
}

func TestWrongShapesPanic(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	g := NewGemm(portablePath(), p)
	v := func(rows, cols, stride, n int) Matrix { return View(make([]float32, n), rows, cols, stride) }
	a, b, c := v(2, 3, 3, 6), v(3, 4, 4, 12), v(2, 4, 4, 8)
	cases := []struct {
		name    string
		c, a, b Matrix
	}{
		{"C transposed", v(4, 2, 2, 8).T(), a, b},
		{"inner sizes differ", c, a, v(2, 4, 4, 8)},
		{"rows differ", v(3, 4, 4, 12), a, b},
		{"columns differ", v(2, 3, 3, 6), a, b},
		{"C too short", v(2, 4, 4, 7), a, b},
		{"A too short", c, v(2, 3, 3, 5), b},
		{"B too short", c, a, v(3, 4, 4, 11)},
		{"B transposed too short", c, a, v(4, 3, 3, 11).T()},
		{"stride below the row", c, v(2, 3, 2, 6), b},
		{"negative", v(-1, 4, 4, 8), v(-1, 3, 3, 6), b},
	}
	for _, x := range cases {
		for name, mul := range map[string]func(){"Mul": func() { g.Mul(x.c, x.a, x.b, false) }, "MulLocal": func() { g.MulLocal(0, x.c, x.a, x.b, false) }} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: %s accepted it", x.name, name)
					}
				}()
				mul()
			}()
		}
	}
	g.Mul(c, a, b, false) // the whole ones fit
}
