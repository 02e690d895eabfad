package cpuengine

import "andrea/cpuengine/internal/kernel"

// blockSide is how many queries and keys a block of scores has: it and what it is computed from lie in the L1 cache.
// It divides keyTile, and the bits do not depend on it.
const blockSide = kernel.BlockSide

// attentionBlocks is what attention needs to go over blocks instead of tiles, where the path has products of them.
type attentionBlocks struct {
	scores  *kernel.BlockProduct // [n,n] = [n,head_dim]·[head_dim,n], for n = blockSide
	mix     *kernel.BlockProduct // [head_dim,n] = [n,head_dim]ᵀ·[n,n]
	queries *kernel.BlockProduct // [n,head_dim] = [n,n]·[n,head_dim]

	// The lines of a block of one head, as offsets from its first, in matrices of rows of d_model and of 3·d_model.
	narrow, wide []int32
}

// newAttentionBlocks returns nil where the path has none, or heads have a shape that it does not multiply.
func newAttentionBlocks(path *kernel.Path, headDim, dModel int) *attentionBlocks {
	const n = blockSide
	scores, ok := path.NewBlockProduct(n, n, headDim, false)
	mix, okMix := path.NewBlockProduct(headDim, n, n, true)
	queries, okQueries := path.NewBlockProduct(n, headDim, n, false)
	if !ok || !okMix || !okQueries || !path.HasColumns() {
		return nil
	}
	lines := max(scores.Lines(), mix.Lines())
	return &attentionBlocks{
		scores: scores, mix: mix, queries: queries,
		narrow: linesOfBlock(headDim, dModel, lines), wide: linesOfBlock(headDim, 3*dModel, lines),
	}
}

// linesOfBlock returns the offsets in bytes of so many lines of blockSide rows, the last one repeated where there
// are fewer.
func linesOfBlock(width, stride, count int) []int32 {
	const bytes = 4 // of a float32
	lines := make([]int32, 0, count)
	for r := range blockSide {
		for i := 0; i < width && len(lines) < count; i += lineFloats {
			lines = append(lines, int32(bytes*(r*stride+i)))
		}
	}
	for len(lines) > 0 && len(lines) < count {
		lines = append(lines, lines[len(lines)-1])
	}
	return lines
}

// inBlocks reports whether windows of t positions are computed block by block.
func (a *attention) inBlocks(t int) bool { return a.blocks != nil && t%blockSide == 0 }

// fetchQueue holds what products are to fetch: rows of a head lie pages apart, where no processor fetches ahead by
// itself, and are waited for as long as they are computed with unless they come during the blocks before.
type fetchQueue struct {
	waiting      [16]kernel.Ahead
	first, count int
}

// push adds one. When there is no room it is left out: it will be fetched when it is needed.
func (q *fetchQueue) push(a kernel.Ahead) {
	if q.count < len(q.waiting) {
		q.waiting[(q.first+q.count)%len(q.waiting)] = a
		q.count++
	}
}

// pop takes out the oldest, or none.
func (q *fetchQueue) pop() (a kernel.Ahead) {
	if q.count > 0 {
		a = q.waiting[q.first]
		q.first = (q.first + 1) % len(q.waiting)
		q.count--
	}
	return a
}

// fetchAhead lets a product fetch a block of rows of each matrix, from row first on, if there is one.
func (a *attention) fetchAhead(s *tileScratch, first int, matrices ...columns) {
	if first >= a.t {
		return
	}
	for _, m := range matrices {
		lines := a.blocks.wide
		if m.stride == a.dModel {
			lines = a.blocks.narrow
		}
		s.fetches.push(kernel.Ahead{Data: m.data[first*m.stride:], Lines: lines})
	}
}

// squareOf is the number of elements of a block.
const squareOf = blockSide * blockSide

// block returns the block of scores whose first row is row, a multiple of blockSide.
func (s *tileScratch) block(row int) kernel.Block {
	return kernel.Block{Data: s.scores[row*blockSide:][:squareOf]}
}

// copyTransposed writes the transposed of a block [head_dim,blockSide] to rows of c from row first on.
func (a *attention) copyTransposed(c columns, first int, block []float32) {
	a.path.Transpose(c.data[first*c.stride:], c.stride, dense(block, a.headDim, blockSide))
}
