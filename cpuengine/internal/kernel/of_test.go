package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"andrea/cpuengine/internal/pool"
)

// A product of a function of A's or B's elements has the bits of one whose operand was computed before: in every layout, at
// ragged edges, over several slabs and with few panels, and its operands stay as they are.
func TestProductsOfFunctions(t *testing.T) {
	workers := pool.New(2)
	defer workers.Close()
	of := Elementwise((*Path).ReluSquared)
	for _, p := range Paths() {
		t.Run(p.String(), func(t *testing.T) {
			g, r := NewGemm(p, workers), rand.New(rand.NewPCG(61, 62))
			for _, s := range [][3]int{{1, 1, 1}, {p.rows, 16, 16}, {2*p.rows + 3, 37, 50}, {blockM + 9, blockK + 7, 49}, {blockM, 24, 3 * p.floats * packFrom}, {20, 9, blockN + 5}, {2*blockM + 9, 5, 4*blockM + 20}} {
				for layouts := range 4 {
					a := matrix(s[0], s[1], layout{transposed: layouts&1 != 0, gap: 3}, uniform(r))
					b := matrix(s[1], s[2], layout{transposed: layouts&2 != 0, gap: 5}, uniform(r))
					for _, which := range []string{"A", "B", "both"} {
						checkOf(t, g, fmt.Sprintf("%v, layouts %d, of %s", s, layouts, which), a, b, which, of)
					}
				}
			}
		})
	}
}

func checkOf(t *testing.T, g *Gemm, what string, a, b Matrix, which string, of Elementwise) {
	t.Helper()
	fa, fb := a, b
	product := Product{C: View(make([]float32, a.Rows*b.Cols), a.Rows, b.Cols, b.Cols), A: a, B: b}
	if which != "B" {
		fa, product.OfA = applied(g.path, a, of), of
	}
	if which != "A" {
		fb, product.OfB = applied(g.path, b, of), of
	}
	wasA, wasB := copyOf(a.Data), copyOf(b.Data)
	want := View(make([]float32, a.Rows*b.Cols), a.Rows, b.Cols, b.Cols)
	g.Mul(want, fa, fb, false)
	g.Run(product)
	compare(t, what, product.C.Data, want.Data)
	compare(t, what+": A afterwards", a.Data, wasA)
	compare(t, what+": B afterwards", b.Data, wasB)
}

// applied is a matrix of that function of the elements of m.
func applied(p *Path, m Matrix, of Elementwise) Matrix {
	c := clone(m)
	of(p, c.Data, c.Data)
	return c
}
