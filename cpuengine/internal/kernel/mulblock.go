package kernel

import "fmt"

// blockFuncs are two micro-kernels of tiles as wide, of more and of fewer rows: a product of any
// number of rows from some 20 on is made of both.
type blockFuncs struct {
	vectors    int
	more, less int // rows
	high, low  panelFunc
}

// cut returns how many tiles of both make up so many rows.
func (f blockFuncs) cut(rows int) (high, low int, ok bool) {
	for low = 0; low*f.less <= rows; low++ {
		if rest := rows - low*f.less; rest%f.more == 0 {
			return rest / f.more, low, true
		}
	}
	return 0, 0, false
}

// HasBlocks reports whether MulBlock multiplies into rows x cols elements.
func (p *Path) HasBlocks(rows, cols int) bool {
	f := p.blocks(cols)
	if f.high == nil || rows < 1 || cols < 1 || cols%(f.vectors*p.floats) != 0 {
		return false
	}
	_, _, ok := f.cut(rows)
	return ok
}

// blocks returns the micro-kernels for that many columns.
func (p *Path) blocks(cols int) *blockFuncs {
	if cols == p.narrow.vectors*p.floats {
		return &p.narrow
	}
	return &p.wide
}

// MulBlock is MulLocal for operands that lie in the L1 cache, with the same bits: it packs nothing and
// fetches nothing ahead. B must not be transposed, and HasBlocks hold for C.
func (p *Path) MulBlock(c, a, b Matrix, add bool) {
	checkProduct(c, a, b)
	if b.Transposed || a.Cols < 1 || !p.HasBlocks(c.Rows, c.Cols) {
		panic(fmt.Sprintf("kernel: block product of %d x %d by %d x %d (transposed %t)", a.Rows, a.Cols, b.Rows, b.Cols, b.Transposed))
	}
	f := p.blocks(c.Cols)
	high, low, _ := f.cut(c.Rows)
	row, column := a.Stride, 1
	if a.Transposed {
		row, column = column, row
	}
	split, k, n := high*f.more, a.Cols, f.vectors*p.floats
	for j := 0; j < c.Cols; j += n {
		if high > 0 {
			f.high(high, k, a.Data, row, column, f.more*row, b.Data[j:], b.Stride, c.Data[j:], c.Stride, add)
		}
		if low > 0 {
			f.low(low, k, a.Data[split*row:], row, column, f.less*row, b.Data[j:], b.Stride, c.Data[split*c.Stride+j:], c.Stride, add)
		}
	}
}
