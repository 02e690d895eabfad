package kernel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"andrea/cpuengine/internal/pool"
)

// guarded returns n elements behind which lies a page that may not be touched.
func guarded(t *testing.T, n int) []float32 {
	t.Helper()
	page := os.Getpagesize()
	size := (4*n + page - 1) / page * page
	block, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(block) })
	if err := unix.Mprotect(block[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&block[size-4*n])), n)
}

// guard moves a matrix to the end of memory: behind its last element nothing may be touched.
func guard(t *testing.T, m Matrix) Matrix {
	t.Helper()
	rows, cols := m.Rows, m.Cols
	if m.Transposed {
		rows, cols = cols, rows
	}
	m.Data = m.Data[:(rows-1)*m.Stride+cols]
	data := guarded(t, len(m.Data))
	copy(data, m.Data)
	m.Data = data
	return m
}

// TestProductsStayInsideTheirOperands computes products that end where their memory ends: assembly that loads or stores one element
// too many dies.
func TestProductsStayInsideTheirOperands(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, path := range Paths() {
		g, r := NewGemm(path, p), rand.New(rand.NewPCG(81, 82))
		for _, s := range []shape{{1, 1, 1}, {8, 48, 16}, {8, 48, 17}, {16, 96, 33}, {9, 49, 31}, {70, 100, 40}, {8, 96, 130}, {7, 16, 5}} {
			for layouts := range 4 {
				a := guard(t, matrix(s.m, s.k, layout{transposed: layouts&1 != 0}, uniform(r)))
				b := guard(t, matrix(s.k, s.n, layout{transposed: layouts&2 != 0}, uniform(r)))
				c := guard(t, matrix(s.m, s.n, layout{}, uniform(r)))
				want := clone(c)
				chain(want, a, b, true)
				g.Mul(c, a, b, true)
				compare(t, fmt.Sprintf("%s: %v, layouts %d", path, s, layouts), c.Data, want.Data)
				g.MulLocal(1, c, a, b, false)
				chain(want, a, b, false)
				compare(t, fmt.Sprintf("MulLocal on %s: %v, layouts %d", path, s, layouts), c.Data, want.Data)
			}
		}
	}
}
