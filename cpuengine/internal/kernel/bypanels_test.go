package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"andrea/cpuengine/internal/pool"
)

// fewRows are shapes that are computed panel by panel where A is transposed: without whole row blocks, with and without a rest
// after them, with a part of a last panel, with fewer panels than workers, and over several slabs of k.
var fewRows = []shape{
	{1, 2, 1}, {3, 6, 5}, {8, 16, 9}, {8, 48, 33}, {9, 20, 2*blockK + 5}, {64, 128, 40}, {65, 131, 7}, {17, 40, blockK + 13}, {100, 400, 64},
}

func TestFewRowsAndManyColumns(t *testing.T) {
	products(t, func(t *testing.T, g *Gemm) {
		r := rand.New(rand.NewPCG(71, 72))
		for n, s := range fewRows {
			fill := uniform(r)
			if n%3 == 2 {
				fill = awkward(r)
			}
			for _, lb := range []layout{{gap: 3}, {transposed: true, gap: 5}} {
				checkProductBits(t, g, s, layout{transposed: true, gap: n % 4}, lb, n%3, fill)
			}
		}
	})
}

// As many rows as there may be fill the memory for them: by rows the product has the same bits.
func TestMostRows(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, path := range Paths() {
		g := NewGemm(path, p)
		for _, m := range []int{mostRows, mostRows - 1} {
			const k = blockK // of one slab
			a, b := View(random(m*k), m, k, k), View(random(k*2*m), k, 2*m, 2*m)
			if path.name == "portable" {
				a, b = a.block(0, 0, m, 2), b.block(0, 0, 2, 2*m)
			}
			turned := View(make([]float32, a.Cols*m), a.Cols, m, m)
			for i := range m {
				for kk := range a.Cols {
					turned.Data[kk*m+i] = a.at(i, kk)
				}
			}
			want, got := View(make([]float32, m*2*m), m, 2*m, 2*m), View(make([]float32, m*2*m), m, 2*m, 2*m)
			g.Mul(want, a, b, false)
			g.Mul(got, turned.T(), b, false)
			compare(t, fmt.Sprintf("%s: %d rows", path, m), got.Data, want.Data)
		}
	}
}

func TestByPanels(t *testing.T) {
	of := func(m, n int, transposed bool) Product {
		a := View(nil, m, 7, 7)
		a.Transposed = transposed
		return Product{C: View(nil, m, n, n), A: a}
	}
	for _, c := range []struct {
		m, n       int
		transposed bool
		want       bool
	}{
		{384, 1536, true, true}, {384, 1536, false, false}, {384, 767, true, false}, {384, 768, true, true},
		{mostRows, 4 * mostRows, true, true}, {mostRows + 1, 4 * mostRows, true, false}, {1536, 384, true, false},
	} {
		if got := byPanels(of(c.m, c.n, c.transposed)); got != c.want {
			t.Errorf("%d x %d, transposed %t: %t", c.m, c.n, c.transposed, got)
		}
	}
}

// B is read where it lies only where that pays: rows that are not 2 KB or a multiple of it apart.
func TestReadsDirectly(t *testing.T) {
	for _, p := range Paths() {
		for _, c := range []struct {
			cols, stride int
			transposed   bool
			want         bool
		}{
			{384, 384, false, true}, {768, 768, false, true}, {384, 1536, false, false}, {64, 512, false, false},
			{64, 513, false, true}, {384, 384, true, false},
		} {
			b := View(nil, 9, c.cols, c.stride)
			b.Transposed = c.transposed
			if got := p.readsDirectly(b); got != (c.want && p.lean.rowsFetch != nil) {
				t.Errorf("%s: %d columns, stride %d, transposed %t: %t", p, c.cols, c.stride, c.transposed, got)
			}
		}
	}
}

// Products have the same bits whether the rows of B lie well for the cache or not.
func TestProductsWithBWhereItLies(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, path := range Paths() {
		g, r := NewGemm(path, p), rand.New(rand.NewPCG(73, 74))
		for _, s := range []shape{{70, directN, 40}, {9, directN + 50, 50}, {5, directN - 3, blockK + 7}, {64, 48, 16}, {65, 47, 16}, {3, 64, 20}, {130, 97, 30}} {
			for _, stride := range []int{s.n, 512, 1024, 519} {
				stride = max(s.n, stride)
				what := fmt.Sprintf("%s: %v, stride %d", path, s, stride)
				t.Run(what, func(t *testing.T) {
					checkProductBits(t, g, s, layout{transposed: s.m%2 == 0}, layout{gap: stride - s.n}, 1, uniform(r))
				})
			}
		}
	}
}

// Nothing of the caller's memory is held after a product.
func TestAProductKeepsNothing(t *testing.T) {
	products(t, func(t *testing.T, g *Gemm) {
		for _, n := range []int{50, 70} { // by rows and by panels
			a, b := View(random(20*33), 20, 33, 33).T(), View(random(20*n), 20, n, n)
			g.Mul(View(make([]float32, 33*n), 33, n, n), a, b, false)
			if g.job.a.Data != nil || g.job.b.b.Data != nil || g.job.c.Data != nil {
				t.Errorf("%d columns: the job is kept", n)
			}
			for i := range g.local {
				if s := &g.local[i]; s.panel.b.Data != nil || s.rows.main.data != nil {
					t.Errorf("%d columns: worker %d keeps its block", n, i)
				}
			}
		}
	})
}
