package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// tileShapes reach every tail of a row, rows that see less than the others, and padding.
func tileShapes() []Tile {
	var shapes []Tile
	for cols := 1; cols <= 70; cols++ {
		shapes = append(shapes, Tile{Rows: 3, Cols: cols, Visible: max(1, cols-1)})
	}
	for _, s := range [][3]int{{1, 256, 256}, {64, 256, 193}, {64, 64, 1}, {5, 130, 300}, {20, 17, 1}, {2, 255, 254}} {
		shapes = append(shapes, Tile{Rows: s[0], Cols: s[1], Visible: s[2]})
	}
	for i := range shapes {
		shapes[i].Stride = (shapes[i].Cols+15)/16*16 + i%2*7
	}
	return shapes
}

// draw returns n elements.
func draw(n int, fill func() float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = fill()
	}
	return x
}

// withCanaries sets what lies between the rows, where nothing may be written.
func (t Tile) withCanaries(data []float32) []float32 {
	whole := (t.Cols + 15) / 16 * 16
	for r := range t.Rows {
		for i := r*t.Stride + whole; i < (r+1)*t.Stride; i++ {
			data[i] = canary
		}
	}
	return data
}

// compareTile compares the columns of two tiles and the canaries between them.
func compareTile(t *testing.T, what string, shape Tile, got, want []float32) {
	t.Helper()
	whole := (shape.Cols + 15) / 16 * 16
	for r := range shape.Rows {
		from := r * shape.Stride
		compare(t, fmt.Sprint(what, ", row ", r), got[from:from+shape.Cols], want[from:from+shape.Cols])
		compare(t, fmt.Sprint(what, ", after row ", r), got[from+whole:from+shape.Stride], want[from+whole:from+shape.Stride])
	}
}

func copyOf(x []float32) []float32 { return append([]float32(nil), x...) }

func TestTilesGiveTheBitsOfPortable(t *testing.T) {
	portable := portablePath()
	for _, path := range nativePaths() {
		r := rand.New(rand.NewPCG(21, 22))
		for round, fill := range [](func() float32){uniform(r), awkward(r), wide(r)} {
			for _, shape := range tileShapes() {
				what := fmt.Sprintf("%s, round %d, %+v", path, round, shape)
				data := shape.withCanaries(draw(shape.Rows*shape.Stride, fill))
				largest := draw(shape.Rows, fill)
				if round != 1 {
					largest[0] = float32(math.Inf(-1))
				}
				checkSoftmaxTile(t, what, portable, path, shape, data, largest)
				checkSoftmaxBackwardTile(t, what, portable, path, shape, data, shape.withCanaries(draw(len(data), fill)), draw(shape.Rows, fill))
			}
		}
	}
}

func checkSoftmaxTile(t *testing.T, what string, portable, path *Path, shape Tile, data, largest []float32) {
	t.Helper()
	var tiles [2]Tile
	var vectors [2][]float32
	for i, p := range []*Path{portable, path} {
		tiles[i] = shape
		tiles[i].Data = copyOf(data)
		l, sum := append(copyOf(largest), canary), draw(shape.Rows+1, func() float32 { return canary })
		p.SoftmaxTile(tiles[i], l[:shape.Rows], sum[:shape.Rows])
		vectors[i] = append(l, sum...)
	}
	compare(t, what+", largest and sums", vectors[1], vectors[0])
	compareTile(t, what, shape, tiles[1].Data, tiles[0].Data)
}

func checkSoftmaxBackwardTile(t *testing.T, what string, portable, path *Path, shape Tile, data, d, delta []float32) {
	t.Helper()
	largest := make([]float32, shape.Rows)
	for r := range largest {
		shape.Data = data
		largest[r] = max(portable.Max(shape.seen(data, r)), 0)
	}
	var tiles, gradients [2][]float32
	for i, p := range []*Path{portable, path} {
		shape.Data, gradients[i] = copyOf(data), copyOf(d)
		p.SoftmaxBackwardTile(shape, gradients[i], largest, delta)
		tiles[i] = shape.Data
	}
	compareTile(t, what+", computed again", shape, tiles[1], tiles[0])
	compareTile(t, what+", gradient", shape, gradients[1], gradients[0])
}

// TestSoftmaxTileMeaning follows a softmax over two tiles in float64.
func TestSoftmaxTileMeaning(t *testing.T) {
	const rows, cols, stride = 6, 37, 48
	for _, p := range Paths() {
		r := rand.New(rand.NewPCG(23, 24))
		largest, sum, want := make([]float32, rows), make([]float32, rows), make([]float64, rows)
		fill(largest, float32(math.Inf(-1)))
		for visible := cols; visible > 0; visible -= cols - 2 { // all seen, then less
			data := draw(rows*stride, func() float32 { return r.Float32()*8 - 4 })
			old := copyOf(data)
			p.SoftmaxTile(Tile{Data: data, Stride: stride, Rows: rows, Cols: cols, Visible: visible}, largest, sum)
			for i := range rows {
				seen, total := min(cols, visible+i), 0.0
				for j := range cols {
					e := 0.0
					if j < seen {
						e = math.Exp(float64(old[i*stride+j]) - float64(largest[i]))
						want[i] = max(want[i], float64(old[i*stride+j]))
					}
					total += e
					if math.Abs(float64(data[i*stride+j])-e) > 1e-6 {
						t.Fatalf("%s: %d visible, element %d, %d is %v, want %v", p, visible, i, j, data[i*stride+j], e)
					}
				}
				if math.Abs(float64(sum[i])-total) > 1e-5 || float64(largest[i]) != want[i] {
					t.Fatalf("%s: %d visible, row %d: sum %v, largest %v, want %v, %v", p, visible, i, sum[i], largest[i], total, want[i])
				}
			}
		}
	}
}

// TestSoftmaxTileNaN: what is not finite makes all that a query sees NaN, and nothing else.
func TestSoftmaxTileNaN(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, p := range Paths() {
		for _, bad := range []float32{inf, nan, math.Float32frombits(0x7f8001ff)} {
			data := draw(2*48, func() float32 { return 1 })
			data[7] = bad
			largest, sum := []float32{-inf, -inf}, make([]float32, 2)
			p.SoftmaxTile(Tile{Data: data, Stride: 48, Rows: 2, Cols: 40, Visible: 33}, largest, sum)
			for i, x := range data[:33] {
				if x == x {
					t.Fatalf("%s: element %d beside %v is %v", p, i, bad, x)
				}
			}
			if data[33] != 0 || data[48] != 1 || largest[0] == largest[0] || sum[0] == sum[0] || largest[1] != 1 || sum[1] != 34 {
				t.Fatalf("%s: beside %v: %v, %v, largest %v, sums %v", p, bad, data[33], data[48], largest, sum)
			}
		}
	}
}

// TestRowsAreRowByRow compares ScaleRows, DotRows and CopyRows with the functions of one row.
func TestRowsAreRowByRow(t *testing.T) {
	const rows = 5
	for _, p := range Paths() {
		r := rand.New(rand.NewPCG(25, 26))
		for _, n := range lengths() {
			fill := awkward(r)
			x, y := View(draw(rows*(n+3), fill), rows, n, n+3), View(draw(rows*(n+1), fill), rows, n, n+1)
			factors, dots, dot := draw(rows, fill), draw(rows, fill), make([]float32, rows)
			scaled, want := View(draw(rows*(n+2), fill), rows, n, n+2), View(nil, rows, n, n+2)
			want.Data = copyOf(scaled.Data)
			for i := range rows {
				p.Scale(want.row(i), x.row(i), factors[i])
				dot[i] = p.Dot(x.row(i), y.row(i))
			}
			copied := View(draw(rows*(n+4), func() float32 { return canary }), rows, n, n+4)
			wantCopy := copyOf(copied.Data)
			for i := range rows {
				copy(wantCopy[i*(n+4):], x.row(i))
			}
			p.CopyRows(copied, x)
			compare(t, fmt.Sprint(p, ", copied rows of ", n), copied.Data, wantCopy)
			p.DotRows(dots, x, y)
			p.ScaleRows(scaled, x, factors)
			compare(t, fmt.Sprint(p, ", dots of ", n), dots, dot)
			compare(t, fmt.Sprint(p, ", scaled rows of ", n), scaled.Data, want.Data)
		}
	}
}

func TestTilesThatDoNotFitPanic(t *testing.T) {
	p, v := Paths()[0], make([]float32, 4)
	good := Tile{Data: make([]float32, 4*32), Stride: 32, Rows: 4, Cols: 20, Visible: 1}
	p.SoftmaxTile(good, v, v)
	for name, f := range map[string]func(t Tile){
		"no room for the vector of the last row": func(t Tile) { t.Data = t.Data[:4*32-1]; p.SoftmaxTile(t, v, v) },
		"a stride less than whole vectors":       func(t Tile) { t.Stride = 31; p.SoftmaxTile(t, v, v) },
		"few largest":                            func(t Tile) { p.SoftmaxTile(t, v[:3], v) },
		"few sums":                               func(t Tile) { p.SoftmaxTile(t, v, v[:3]) },
		"nothing seen":                           func(t Tile) { t.Visible = 0; p.SoftmaxTile(t, v, v) },
		"no rows":                                func(t Tile) { t.Rows = 0; p.SoftmaxTile(t, v, v) },
		"a short gradient":                       func(t Tile) { p.SoftmaxBackwardTile(t, t.Data[:100], v, v) },
		"few factors":                            func(t Tile) { p.ScaleRows(View(t.Data, 4, 20, 32), View(t.Data, 4, 20, 32), v[:3]) },
		"rows of other lengths":                  func(t Tile) { p.DotRows(v, View(t.Data, 4, 20, 32), View(t.Data, 4, 19, 32)) },
		"a transposed matrix":                    func(t Tile) { p.DotRows(v, View(t.Data, 4, 4, 32).T(), View(t.Data, 4, 4, 32)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f(good)
		}()
	}
}
