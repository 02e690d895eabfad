package kernel

import "fmt"

// Parts of SoftmaxTile and SoftmaxBackwardTile. A largestTileFunc sets largest and ignores NaN,
// a softmaxTileFunc does the rest.
type (
	largestTileFunc         func(x []float32, stride, rows, cols, visible int, largest []float32)
	softmaxTileFunc         func(x []float32, stride, rows, cols, visible int, largest, sum []float32)
	softmaxBackwardTileFunc func(x, d []float32, stride, rows, cols, visible int, largest, delta []float32)
)

// scaleRowsFunc is ScaleRows, copyRowsFunc CopyRows, dotRowsFunc DotRows; rows and cols are at least 1.
type (
	copyRowsFunc  func(dst []float32, dstStride int, src []float32, srcStride, rows, cols int)
	scaleRowsFunc func(dst []float32, dstStride int, src []float32, srcStride, rows, cols int, factors []float32)
	dotRowsFunc   func(dst, x []float32, xStride int, y []float32, yStride, rows, cols int)
)

// Tile is rows of attention scores in memory of the caller, row r at Data[r*Stride]. The query
// of row r sees the first Visible+r columns, Cols at most. Stride is at least Cols rounded
// up to 16, and what lies between Cols and there may be overwritten.
type Tile struct {
	Data               []float32
	Stride, Rows, Cols int
	Visible            int // at least 1
}

// SoftmaxTile goes one tile further in a softmax over rows. largest[r], on entry that of the
// tiles before or -Inf, becomes the largest including this one, a -0 given as +0; an element
// becomes e^(element - largest), +0 where the query does not see the key; and sum[r] is set
// to the sum of the row, partial sums and tree as in ExpSum. A row with a NaN, or whose
// largest is infinite, becomes NaN as far as it is seen, its largest and its sum too.
func (p *Path) SoftmaxTile(t Tile, largest, sum []float32) {
	t.check(t.Data, largest, sum)
	if p.softmaxTile != nil {
		p.largestTile(t.Data, t.Stride, t.Rows, t.Cols, t.Visible, largest)
		p.softmaxTile(t.Data, t.Stride, t.Rows, t.Cols, t.Visible, largest, sum)
	} else {
		p.softmaxRows(t, largest, sum)
	}
	for r, s := range sum[:t.Rows] {
		if s != s {
			largest[r] = s
			fill(t.seen(t.Data, r), s)
		}
	}
}

// SoftmaxBackwardTile computes the elements e^(element - largest[r]) of a tile again, where
// largest is that of the whole row, and turns d, shaped like the tile, into their product
// with d - delta[r]. Both are +0 where the query does not see the key.
func (p *Path) SoftmaxBackwardTile(t Tile, d []float32, largest, delta []float32) {
	t.check(d, largest, delta)
	if p.softmaxBackwardTile != nil {
		p.softmaxBackwardTile(t.Data, d, t.Stride, t.Rows, t.Cols, t.Visible, largest, delta)
		return
	}
	for r := range t.Rows {
		e, de := t.seen(t.Data, r), t.seen(d, r)
		p.expSum(e, e, largest[r])
		p.softmaxBackward(de, de, e, delta[r])
		t.clearUnseen(t.Data, r)
		t.clearUnseen(d, r)
	}
}

// ScaleRows sets row r of dst to row r of src times factors[r]. Both have the same shape and are
// not transposed; they may be the same.
func (p *Path) ScaleRows(dst, src Matrix, factors []float32) {
	checkRows(dst, src)
	checkPerRow(factors, dst.Rows)
	switch {
	case dst.Rows == 0 || dst.Cols == 0:
	case p.scaleRows != nil:
		p.scaleRows(dst.Data, dst.Stride, src.Data, src.Stride, dst.Rows, dst.Cols, factors)
	default:
		for r := range dst.Rows {
			p.Scale(dst.row(r), src.row(r), factors[r])
		}
	}
}

// CopyRows sets dst to src. Both have the same shape and are not transposed. A call for each short row would take
// longer than its copy.
func (p *Path) CopyRows(dst, src Matrix) {
	checkRows(dst, src)
	switch {
	case dst.Rows == 0 || dst.Cols == 0:
	case p.copyRows != nil:
		p.copyRows(dst.Data, dst.Stride, src.Data, src.Stride, dst.Rows, dst.Cols)
	default:
		for r := range dst.Rows {
			copy(dst.row(r), src.row(r))
		}
	}
}

// DotRows sets dst[r] to the Dot of rows r of x and y, which are not transposed.
func (p *Path) DotRows(dst []float32, x, y Matrix) {
	checkRows(x, y)
	checkPerRow(dst, x.Rows)
	switch {
	case x.Rows == 0 || x.Cols == 0:
		clear(dst[:x.Rows])
	case p.dotRows != nil:
		p.dotRows(dst, x.Data, x.Stride, y.Data, y.Stride, x.Rows, x.Cols)
	default:
		for r := range x.Rows {
			dst[r] = p.Dot(x.row(r), y.row(r))
		}
	}
}

// checkRows panics unless x and y have the same rows in memory.
func checkRows(x, y Matrix) {
	x.check("x")
	y.check("y")
	if x.Transposed || y.Transposed || x.Rows != y.Rows || x.Cols != y.Cols {
		panic(fmt.Sprintf("kernel: rows of %d x %d beside %d x %d (transposed %t, %t)", x.Rows, x.Cols, y.Rows, y.Cols, x.Transposed, y.Transposed))
	}
}

// checkPerRow panics unless there is an element for each row.
func checkPerRow(v []float32, rows int) {
	if len(v) < rows {
		panic(fmt.Sprintf("kernel: a vector of %d for %d rows", len(v), rows))
	}
}

// softmaxRows is SoftmaxTile by the functions of single rows.
func (p *Path) softmaxRows(t Tile, largest, sum []float32) {
	for r := range t.Rows {
		row := t.seen(t.Data, r)
		if m := p.max(row); m > largest[r] || m != m {
			largest[r] = m
		}
		largest[r] += 0 // -0 becomes +0
		sum[r] = p.expSum(row, row, largest[r])
		t.clearUnseen(t.Data, r)
	}
}

// seen returns what the query of row r sees of a matrix shaped like the tile.
func (t Tile) seen(data []float32, r int) []float32 {
	return data[r*t.Stride:][:min(t.Cols, t.Visible+r)]
}

// clearUnseen zeroes the rest of row r.
func (t Tile) clearUnseen(data []float32, r int) {
	clear(data[r*t.Stride:][min(t.Cols, t.Visible+r):t.Cols])
}

// check panics unless the matrices and the vectors hold the tile. The assembly relies on it.
func (t Tile) check(other []float32, vectors ...[]float32) {
	whole := (t.Cols + partials - 1) / partials * partials
	need := (t.Rows-1)*t.Stride + whole
	bad := t.Rows < 1 || t.Cols < 1 || t.Visible < 1 || t.Stride < whole || min(len(t.Data), len(other)) < need
	for _, v := range vectors {
		bad = bad || len(v) < t.Rows
	}
	if bad {
		panic(fmt.Sprintf("kernel: tile of %d x %d, stride %d, %d visible, does not fit %d and %d elements", t.Rows, t.Cols, t.Stride, t.Visible, len(t.Data), len(other)))
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
