package kernel

import (
	"testing"
	"unsafe"

	"andrea/cpuengine/internal/pool"
)

// In the course of all blocks every row is fetched, where there are enough of them; and nothing is asked for that
// begins after the last row.
func TestFetchRows(t *testing.T) {
	const stride = 5
	for _, k := range []int{1, 7, 8, 16, 100, 384, 455, 512} {
		data := make([]float32, (k-1)*stride+1)
		for blocks := 1; blocks <= 200; blocks += 1 + blocks/9 {
			fetched, most := make([]bool, k), 0
			for first := range blocks {
				f := fetchRows(data, stride, k, first, blocks)
				if f.data == nil {
					continue
				}
				if f.shift < 3 {
					t.Fatalf("k %d, %d blocks: a piece every %d steps", k, blocks, 1<<f.shift)
				}
				begin := (len(data) - len(f.data)) / stride
				for left := k - 16; left >= 0; left -= 16 { // as the micro-kernels count down
					for _, step := range []int{left + 8, left} {
						if row := begin + step>>f.shift*f.stride/stride; row < k {
							fetched[row] = true
						}
					}
				}
				// What a call of several blocks fetches is what calls of one would.
				if f.step != max(1, (k+blocks-1)/blocks)*stride {
					t.Fatalf("k %d, %d blocks: step %d", k, blocks, f.step)
				}
				most = max(most, f.step/stride)
			}
			if most > k/16*2 || k%16 > 7 { // more rows a block than pieces, or steps without one
				continue
			}
			for row, ok := range fetched {
				if !ok {
					t.Fatalf("k %d, %d blocks: row %d is not fetched", k, blocks, row)
				}
			}
		}
	}
}

// place returns at which element of x the slice y of it begins; -1: y is nil.
func place(x, y []float32) int {
	if y == nil {
		return -1
	}
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(y)))-uintptr(unsafe.Pointer(unsafe.SliceData(x)))) / 4
}

// What two workers fetch by rows: the next panel during their first block, then the block after the other worker's,
// evenly under all panels.
func TestFetchByRows(t *testing.T) {
	const rows, k, n, panels = 5 * blockM, 64, 96, 2
	p := pool.New(2)
	defer p.Close()
	g := NewGemm(avx512Or(portablePath()), p)
	a, b := View(make([]float32, k*rows), k, rows, rows), View(make([]float32, k*n), k, n, n)
	width := 3 * g.path.floats
	for _, c := range []struct {
		name       string
		transposed bool
		block      int
		opening    bool
		panel      int
		ofB, ofA   int
	}{
		{"first block", true, 0, true, 0, width, -1},
		{"last panel of it", true, 0, true, panels - 1, -1, -1},
		{"a block", true, 1, false, 0, -1, 3 * blockM},
		{"its second panel", true, 1, false, 1, -1, 3*blockM + k/panels*rows},
		{"the last block but one", true, 3, false, 0, -1, -1},
		{"a block that is not transposed", false, 1, false, 0, -1, -1},
	} {
		whole := a.T()
		if !c.transposed {
			whole = View(a.Data, rows, k, k)
		}
		s := &g.local[0]
		s.block, s.opening = c.block, c.opening
		s.rows = rowBlock{k: k, full: blockM / g.path.rows}
		g.job = job{a: whole, b: slab{cut: cut{floats: g.path.floats, columns: panels * width, panels: panels, wide: panels}, b: b, direct: true}}
		f := g.fetchFor(s, c.panel)
		if c.ofB >= 0 && place(b.Data, f.data) != c.ofB || c.ofB < 0 && c.ofA >= 0 && place(a.Data, f.data) != c.ofA || c.ofB < 0 && c.ofA < 0 && f.data != nil {
			t.Errorf("%s: fetches from element %d of B, %d of A on", c.name, place(b.Data, f.data), place(a.Data, f.data))
		}
	}
}

// A worker's first block is the first only.
func TestOnlyTheFirstBlockOpens(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	g := NewGemm(Paths()[0], p)
	for rows, want := range map[int]bool{blockM: true, 3 * blockM: false} {
		g.Mul(View(make([]float32, rows*3), rows, 3, 3), View(random(rows*2), rows, 2, 2), View(random(6), 2, 3, 3), false)
		if got := g.local[0].opening; got != want {
			t.Errorf("%d rows: %t", rows, got)
		}
	}
}

// avx512Or returns the path whose kernels fetch, or another where there is none: what is planned is the same.
func avx512Or(other *Path) *Path {
	if p, err := PathByName("avx512"); err == nil {
		return p
	}
	return other
}

// By panels it is the panel after the other worker's, from where the row blocks before have come to.
func TestFetchByPanels(t *testing.T) {
	const k, n = 64, 480
	p := pool.New(2)
	defer p.Close()
	g := NewGemm(avx512Or(portablePath()), p)
	b := View(make([]float32, k*n), k, n, n)
	width := 3 * g.path.floats
	panels := n / width
	for _, c := range []struct{ panel, first, want int }{
		{0, 0, 2 * width}, {1, 16, 3*width + 16*n}, {panels - 2, 0, -1}, {panels - 3, 31, (panels-1)*width + 31*n},
	} {
		g.job = job{b: slab{cut: newCut(n, g.path.floats), b: b}, rows: rowBlock{k: k, full: 64}}
		if f := g.fetchPanel(c.panel, c.first); place(b.Data, f.data) != c.want {
			t.Errorf("panel %d, row block %d: from element %d on, want %d", c.panel, c.first, place(b.Data, f.data), c.want)
		}
		g.job.b.b = View(b.Data, n, k, k).T()
		if f := g.fetchPanel(c.panel, c.first); f.data != nil {
			t.Errorf("panel %d of a transposed B is fetched", c.panel)
		}
	}
}
