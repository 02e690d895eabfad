package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// columnBlocks is how many blocks of keys the test goes over, the last one on the diagonal.
const columnBlocks = 4

// drawScores returns scores with a key in a row and a query in a column. A few columns hold what is not finite.
func drawScores(fill func() float32) []float32 {
	x := draw(columnBlocks*blockFloats, fill)
	for i, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		x[3*BlockSide+20+i] = float32(bad)
	}
	for key := range columnBlocks * BlockSide {
		x[key*BlockSide+30] = float32(math.Inf(-1))
	}
	return x
}

// transposed returns scores with a query in a row, as SoftmaxTile takes them.
func transposed(x []float32) []float32 {
	const keys = columnBlocks * BlockSide
	out := make([]float32, len(x))
	for key := range keys {
		for query := range BlockSide {
			out[query*keys+key] = x[key*BlockSide+query]
		}
	}
	return out
}

// TestColumnsGiveTheBitsOfRows compares a softmax down columns with the portable one along rows, but for what a column
// with a NaN holds: its sum tells.
func TestColumnsGiveTheBitsOfRows(t *testing.T) {
	const keys = columnBlocks * BlockSide
	for _, p := range Paths() {
		t.Run(p.String(), func(t *testing.T) {
			needsBlocks(t, p)
			r := rand.New(rand.NewPCG(41, 42))
			for round, fill := range [](func() float32){uniform(r), wide(r), func() float32 { return float32(math.Copysign(0, r.Float64()-0.5)) }} {
				scores, largest := drawScores(fill), draw(BlockSide, fill)
				if round != 1 {
					largest[1] = float32(math.Inf(-1))
				}
				rows, wantLargest, wantSum := transposed(scores), copyOf(largest), make([]float32, BlockSide)
				portablePath().SoftmaxTile(Tile{Data: rows, Stride: keys, Rows: BlockSide, Cols: keys, Visible: keys - BlockSide + 1}, wantLargest, wantSum)
				sum := softmaxOfColumns(p, scores, largest)
				got := transposed(scores)
				compare(t, fmt.Sprintf("round %d, sums", round), sum, wantSum)
				for query, s := range wantSum {
					if s == s {
						compare(t, fmt.Sprintf("round %d, query %d", round, query), got[query*keys:][:keys], rows[query*keys:][:keys])
						compare(t, fmt.Sprintf("round %d, largest of query %d", round, query), largest[query:query+1], wantLargest[query:query+1])
					}
				}
			}
		})
	}
}

// softmaxOfColumns turns scores into exponentials and returns their sums.
func softmaxOfColumns(p *Path, scores, largest []float32) []float32 {
	block := func(i int) Block { return Block{Data: scores[i*blockFloats:][:blockFloats]} }
	p.HideEarlier(block(columnBlocks - 1))
	for i := range columnBlocks {
		p.LargestOfColumns(block(i), largest)
	}
	partial, sum := make([]float32, partials*BlockSide), make([]float32, BlockSide)
	for i := range columnBlocks {
		p.ExpColumns(block(i), largest, partial)
	}
	p.SumColumns(partial, sum)
	return sum
}

func TestScaleColumns(t *testing.T) {
	for _, p := range Paths() {
		t.Run(p.String(), func(t *testing.T) {
			needsBlocks(t, p)
			r := rand.New(rand.NewPCG(43, 44))
			x, factors := draw(5*BlockSide+1, awkward(r)), draw(BlockSide, awkward(r))
			want := copyOf(x)
			for i := range 5 * BlockSide {
				want[i] *= factors[i%BlockSide]
			}
			p.ScaleColumns(x, 5, factors)
			compare(t, "scaled", x, want)
		})
	}
}
