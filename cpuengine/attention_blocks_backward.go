package cpuengine

import "andrea/cpuengine/internal/kernel"

// headGradient is what the backward pass of one head reads and writes besides its headView.
type headGradient struct {
	headView
	dmixed     columns // of dmixed [R,d]
	dq, dk, dv columns // of dqkv [R,3d]
}

// gradient returns that of head i.
func (a *attention) gradient(i int) headGradient {
	h := headGradient{headView: a.head(i), dmixed: a.headColumns(a.dmixed, a.dModel, 0, i)}
	h.dq, h.dk, h.dv = a.projections(a.dqkv, i)
	return h
}

// backwardHeadInBlocks is backwardHead on blocks. The gradients of keys and values are computed transposed: then
// their products are as wide as a block.
func (a *attention) backwardHeadInBlocks(worker, i int) {
	h, s := a.gradient(i), &a.tiles[worker]
	s.fetches = fetchQueue{}
	for key := 0; key < a.t; key += blockSide {
		a.path.CopyRows(dense(s.k, blockSide, a.headDim), h.k.matrix(key, blockSide))
		a.path.Transpose(s.kt, blockSide, dense(s.k, blockSide, a.headDim))
		a.path.Transpose(s.vt, blockSide, h.v.matrix(key, blockSide))
		for first := key; first < a.t; first += blockSide {
			if key == 0 {
				a.startQueries(&h, s, first, blockSide)
				a.fetchAhead(s, first+blockSide, h.q, h.dmixed, h.mixed)
			}
			if first == key {
				a.fetchAhead(s, key, h.dq, h.dk, h.dv)
				a.fetchAhead(s, key+blockSide, h.k, h.v)
			}
			a.backwardBlock(&h, s, first, key)
		}
		a.copyTransposed(h.dk, key, s.dk)
		a.copyTransposed(h.dv, key, s.dv)
		a.finishQueries(&h, s, key, blockSide)
	}
}

// backwardBlock is backwardTile on a block.
func (a *attention) backwardBlock(h *headGradient, s *tileScratch, first, key int) {
	const n = blockSide
	at := first * a.headDim
	q, g, b := s.q[at:], s.g[at:], a.blocks
	b.scores.Mul(s.scores, q, s.kt, false, s.fetches.pop())
	b.scores.Mul(s.dscores, g, s.vt, false, s.fetches.pop())
	tile := kernel.Tile{Data: s.scores, Stride: n, Rows: n, Cols: n, Visible: first - key + 1}
	a.path.SoftmaxBackwardTile(tile, s.dscores, h.rowMax[first:first+n], s.delta[first:first+n])
	b.mix.Mul(s.dv, g, s.scores, first > key, s.fetches.pop())
	b.mix.Mul(s.dk, q, s.dscores, first > key, s.fetches.pop())
	b.queries.Mul(s.sum[at:], s.dscores, s.k, key > 0, kernel.Ahead{})
}
