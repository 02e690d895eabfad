package kernel

import "testing"

// Which micro-kernel computes which strip: the lean ones where A lies as they need it.
func TestLeanFor(t *testing.T) {
	const rows, k = 8, 5
	var called string
	kernel := func(name string) leanFunc {
		return func(int, int, []float32, int, []float32, int, []float32, int, bool, []float32, int, int, int) {
			called = name
		}
	}
	general := func(int, int, []float32, int, int, int, []float32, int, []float32, int, bool) { called = "general" }
	p := &Path{rows: rows, panel: [3]panelFunc{general, general, general}, lean: leanFuncs{kernel("rows"), kernel("rowsFetch"), kernel("packed")}}
	later := fetch{data: make([]float32, 1)}
	for _, c := range []struct {
		name            string
		vectors, blocks int
		a               strip
		f               fetch
		want            string
	}{
		{"in place", 3, 2, strip{nil, 9, 1, rows * 9}, fetch{}, "rows"},
		{"in place, fetching", 3, 2, strip{nil, 9, 1, rows * 9}, later, "rowsFetch"},
		{"packed", 3, 2, strip{nil, 1, rows, k * rows}, fetch{}, "packed"},
		{"packed, fetching", 3, 2, strip{nil, 1, rows, k * rows}, later, "packed"},
		{"tail", 3, 1, strip{nil, 1, rows, 0}, fetch{}, "packed"},
		{"packed, apart", 3, 2, strip{nil, 1, rows, k*rows + 1}, fetch{}, "general"},
		{"rows, apart", 3, 2, strip{nil, 9, 1, rows*9 + 1}, later, "general"},
		{"transposed in place", 3, 1, strip{nil, 1, 9, rows}, later, "general"},
		{"transposed in place, of one block's width", 3, 1, strip{nil, 1, rows, rows}, later, "packed"},
		{"narrow", 2, 2, strip{nil, 9, 1, rows * 9}, later, "general"},
		{"narrow, packed", 1, 2, strip{nil, 1, rows, k * rows}, later, "general"},
	} {
		tl := tile{path: p, panel: panel{vectors: c.vectors}, k: k}
		called = ""
		tl.run(c.blocks, c.a, nil, 0, c.f)
		if called != c.want {
			t.Errorf("%s: %s, want %s", c.name, called, c.want)
		}
	}
}
