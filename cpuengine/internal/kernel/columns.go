package kernel

// BlockSide is how many rows and columns a Block has.
const BlockSide = 64

// Block is scores of attention, [BlockSide,BlockSide] without gaps, with a key in a row and a query in a column.
type Block struct{ Data []float32 }

// columnFuncs are the parts of a softmax over columns. Rows are BlockSide long, partial sums 16 rows of them.
type columnFuncs struct {
	mask    func(x []float32)
	largest func(x []float32, rows int, largest []float32)
	exp     func(x []float32, rows int, largest, partial []float32)
	sum     func(partial, sum []float32)
	scale   func(x []float32, rows int, factors []float32)
}

// HasColumns reports whether the path has the functions of a Block.
func (p *Path) HasColumns() bool { return p.columns.exp != nil }

const blockFloats = BlockSide * BlockSide

// HideEarlier sets to -Inf what queries do not see in a block whose first key is the first query's: what lies
// left of the diagonal.
func (p *Path) HideEarlier(b Block) { p.columns.mask(b.Data[:blockFloats]) }

// LargestOfColumns sets largest [BlockSide] to the larger of it and the largest element of every column, a -0 given as
// +0. A NaN in the block is ignored, one in largest stays.
func (p *Path) LargestOfColumns(b Block, largest []float32) {
	p.columns.largest(b.Data[:blockFloats], BlockSide, largest[:BlockSide])
}

// ExpColumns sets the elements of a block to e^(element - largest), for largest [BlockSide] that are at least theirs, and adds
// row i to row i%16 of partial [16,BlockSide].
func (p *Path) ExpColumns(b Block, largest, partial []float32) {
	p.columns.exp(b.Data[:blockFloats], BlockSide, largest[:BlockSide], partial[:partials*BlockSide])
}

// SumColumns sets sum [BlockSide] to the sums of the 16 rows of partial in the tree of ExpSum.
func (p *Path) SumColumns(partial, sum []float32) {
	p.columns.sum(partial[:partials*BlockSide], sum[:BlockSide])
}

// ScaleColumns multiplies the columns of x [rows,BlockSide] by factors [BlockSide].
func (p *Path) ScaleColumns(x []float32, rows int, factors []float32) {
	if rows > 0 {
		p.columns.scale(x[:rows*BlockSide], rows, factors[:BlockSide])
	}
}
