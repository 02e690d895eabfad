package kernel

import "fmt"

// blockFunc multiplies a strip of A, of blocks tiles of rows, with as many columns of B as it is made for into C.
// Element (r, kk) of the strip is a[r*aStride+kk], or a[kk*aStride+r] in the function for a transposed A; rows of b
// are bStride apart, those of c cStride. The arithmetic is panelFunc's, and k >= 1. A function that fetches takes
// linesPerStep of lines, offsets in bytes from ahead on, for every stepOfLines steps over k.
type blockFunc func(blocks, k int, a []float32, aStride int, b []float32, bStride int, c []float32, cStride int, add bool, ahead []float32, lines []int32)

const (
	stepOfLines  = 4
	linesPerStep = 2
)

// blockRows are the micro-kernels of tiles of so many rows: for A as stored and transposed, and of each one that
// fetches nothing and one that fetches, or nil.
type blockRows struct {
	rows int
	run  [2][2]blockFunc
}

// blockFuncs are micro-kernels of tiles as wide, of more and of fewer rows: any number of rows from some
// 20 on is made of both.
type blockFuncs struct {
	vectors    int
	more, less blockRows
}

// cut returns how many tiles of both make up so many rows.
func (f *blockFuncs) cut(rows int) (more, less int, ok bool) {
	for less = 0; less*f.less.rows <= rows; less++ {
		if rest := rows - less*f.less.rows; rest%f.more.rows == 0 {
			return rest / f.more.rows, less, true
		}
	}
	return 0, 0, false
}

// BlockProduct is a product of matrices without gaps that lie in the L1 cache. It packs nothing and fetches none
// of its operands, and gives the bits of MulLocal.
type BlockProduct struct {
	funcs         *blockFuncs
	rows, cols, k int
	aStride       int
	transposed    int // 1: A is
	more, less    int // tiles
	restA, restC  int // where A and C begin for the tiles of fewer rows
	width         int // columns of a tile
	lines         int // that a call fetches
}

// NewBlockProduct prepares C [rows,cols] = A·B, for A [rows,k] or, where it is transposed, stored as [k,rows], and B
// [k,cols]. Ok is false where the path or the shape has none.
func (p *Path) NewBlockProduct(rows, cols, k int, transposed bool) (product *BlockProduct, ok bool) {
	f := &p.wide
	if cols == p.narrow.vectors*p.floats {
		f = &p.narrow
	}
	if f.vectors == 0 || rows < 1 || cols < 1 || k < 1 || cols%(f.vectors*p.floats) != 0 {
		return nil, false
	}
	b := &BlockProduct{funcs: f, rows: rows, cols: cols, k: k, aStride: k, width: f.vectors * p.floats}
	if b.more, b.less, ok = f.cut(rows); !ok {
		return nil, false
	}
	split := b.more * f.more.rows
	b.restA, b.restC = split*k, split*cols
	if transposed {
		b.transposed, b.aStride, b.restA = 1, rows, split
	}
	if f.more.run[b.transposed][1] != nil {
		b.lines = (b.more + b.less) * b.linesOfTile()
	}
	return b, true
}

// linesOfTile is how many lines a tile fetches.
func (b *BlockProduct) linesOfTile() int { return b.k / stepOfLines * linesPerStep }

// Ahead is memory that a product fetches into the cache while it computes: Lines are offsets in bytes, from the
// first element of Data on, of the lines. The zero Ahead is none.
type Ahead struct {
	Data  []float32
	Lines []int32
}

// Lines is how many lines a call of Mul fetches, if it is given any: 0 where the path has no function that does.
func (b *BlockProduct) Lines() int { return b.lines }

// Mul computes the product, or adds it to c. Ahead is none, or has Lines lines.
func (b *BlockProduct) Mul(c, a, x []float32, add bool, ahead Ahead) {
	if len(c) < b.rows*b.cols || len(a) < b.rows*b.k || len(x) < b.k*b.cols || len(ahead.Lines) != 0 && len(ahead.Lines) < b.lines {
		panic(fmt.Sprintf("kernel: block product of %d x %d by %d x %d: %d, %d and %d elements, %d lines", b.rows, b.k, b.k, b.cols, len(a), len(x), len(c), len(ahead.Lines)))
	}
	f, fetch := b.funcs, 0
	if len(ahead.Lines) > 0 && b.lines > 0 {
		fetch = 1
	}
	more, less := f.more.run[b.transposed][fetch], f.less.run[b.transposed][fetch]
	for j := 0; j < b.cols; j += b.width {
		if b.more > 0 {
			more(b.more, b.k, a, b.aStride, x[j:], b.cols, c[j:], b.cols, add, ahead.Data, ahead.Lines)
		}
		if b.less > 0 {
			rest := ahead.Lines
			if fetch > 0 {
				rest = rest[b.more*b.linesOfTile():]
			}
			less(b.less, b.k, a[b.restA:], b.aStride, x[j:], b.cols, c[b.restC+j:], b.cols, add, ahead.Data, rest)
		}
	}
}
