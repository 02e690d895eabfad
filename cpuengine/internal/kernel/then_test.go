package kernel

import (
	"fmt"
	"sync"
	"testing"

	"andrea/cpuengine/internal/pool"
)

// Every element of C is handed on once, when it has its final value: over several slabs of
// rows and of k, by rows and by panels, at ragged edges, and without a multiplication.
func TestRunHandsOnFinishedParts(t *testing.T) {
	p := pool.New(3)
	defer p.Close()
	for _, path := range Paths() {
		g := NewGemm(path, p)
		for _, s := range []struct{ m, k, n int }{{1, 1, 1}, {65, 32, 49}, {130, blockK + 17, 100}, {9, 40, blockN + 50}, {9, blockK + 17, 100}, {5, 0, 7}, {0, 3, 3}, {3, 3, 0}} {
			for _, transposed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%dx%dx%d/%t", path, s.m, s.k, s.n, transposed), func(t *testing.T) { checkThen(t, g, s.m, s.k, s.n, transposed) })
			}
		}
	}
}

func checkThen(t *testing.T, g *Gemm, m, k, n int, transposed bool) {
	a, b := View(random(m*k), m, k, k), View(random(k*n), k, n, n)
	if transposed {
		a = View(a.Data, k, m, m).T()
	}
	want, c := make([]float32, m*n), make([]float32, m*n)
	g.Mul(View(want, m, n, n), a, b, false)
	var mu sync.Mutex
	seen := make([]float32, m*n)
	g.Run(Product{C: View(c, m, n, n), A: a, B: b, Then: func(row, column, rows, columns int) {
		mu.Lock()
		defer mu.Unlock()
		for i := row; i < row+rows; i++ {
			for j := column; j < column+columns; j++ {
				if seen[i*n+j] != 0 {
					t.Errorf("element (%d,%d) was handed on twice", i, j)
				}
				seen[i*n+j] = c[i*n+j] + 1e6 // never 0
			}
		}
	}})
	for i, v := range want {
		if c[i] != v || seen[i] != v+1e6 {
			t.Fatalf("element %d is %v and was handed on as %v, want %v", i, c[i], seen[i]-1e6, v)
		}
	}
}
