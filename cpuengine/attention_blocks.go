package cpuengine

import "andrea/cpuengine/internal/kernel"

// blockSide is how many queries and keys a block has. All that is computed of one lies in the L1 cache,
// or is fetched from L2 no more than once.
const blockSide = 64

// inBlocks reports whether a path that multiplies blocks can take windows of t positions.
func (a *attention) inBlocks(t int) bool {
	return t%blockSide == 0 && a.path.HasBlocks(blockSide, blockSide) &&
		a.path.HasBlocks(blockSide, a.headDim) && a.path.HasBlocks(a.headDim, blockSide)
}

// square is a block of scores or of their gradient.
func square(data []float32) kernel.Matrix { return dense(data, blockSide, blockSide) }

// backwardHeadInBlocks is backwardHead on blocks. The gradients of keys and values are computed
// transposed: a product is the faster the more columns it has.
func (a *attention) backwardHeadInBlocks(worker, i int) {
	h, s := a.head(i), &a.tiles[worker]
	a.startHead(h, s, i)
	_, dkOut, dvOut := a.projections(a.dqkv, i)
	dk, dv := dense(s.dk, a.headDim, blockSide), dense(s.dv, a.headDim, blockSide)
	for key := 0; key < a.t; key += blockSide {
		h.k.copyTo(s.k, key, blockSide)
		a.path.Transpose(s.kt, blockSide, dense(s.k, blockSide, a.headDim))
		a.path.Transpose(s.vt, blockSide, h.v.matrix(key, blockSide))
		for first := key; first < a.t; first += blockSide {
			a.backwardBlock(h, s, first, key)
		}
		a.path.Transpose(dkOut.data[key*dkOut.stride:], dkOut.stride, dk)
		a.path.Transpose(dvOut.data[key*dvOut.stride:], dvOut.stride, dv)
	}
	a.endHead(s, i)
}

// backwardBlock is backwardTile on a block.
func (a *attention) backwardBlock(h headView, s *tileScratch, first, key int) {
	const n = blockSide
	q, g := packed(s.q, a.headDim).matrix(first, n), packed(s.g, a.headDim).matrix(first, n)
	dq := packed(s.sum, a.headDim).matrix(first, n)
	scores, dscores := square(s.scores), square(s.dscores)
	a.path.MulBlock(scores, q, dense(s.kt, a.headDim, n), false)
	a.path.MulBlock(dscores, g, dense(s.vt, a.headDim, n), false)
	tile := kernel.Tile{Data: s.scores, Stride: n, Rows: n, Cols: n, Visible: first - key + 1}
	a.path.SoftmaxBackwardTile(tile, s.dscores, h.rowMax[first:first+n], s.delta[first:first+n])
	a.path.MulBlock(dense(s.dv, a.headDim, n), g.T(), scores, first > key)
	a.path.MulBlock(dense(s.dk, a.headDim, n), q.T(), dscores, first > key)
	a.path.MulBlock(dq, dscores, dense(s.k, n, a.headDim), key > 0)
}
