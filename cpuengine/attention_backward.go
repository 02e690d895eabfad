package cpuengine

import "andrea/cpuengine/internal/kernel"

// backwardHead computes the gradients of one head. With E = exp(scores - rowMax)
// computed again tile by tile, P = E·rowInverse row by row, and G the gradient of
// the output with its rows multiplied by rowInverse:
//
//	dv = Pᵀ·dmixed = Eᵀ·G
//	dscores = P*(dmixed·vᵀ - rowsum(dmixed*mixed)) = E*(G·vᵀ - rowsum(G*mixed))
//	dk = dscoresᵀ·q;  dq = dscores·k·scale
//
// so P itself is never needed. dk and dv add up over the tiles of queries, dq over
// the tiles of keys, both ascending.
func (a *attention) backwardHead(worker, i int) {
	h, s := a.head(i), &a.tiles[worker]
	q, g, dq := packed(s.q, a.headDim), packed(s.g, a.headDim), packed(s.sum, a.headDim)
	a.scaleRows(q, h.q, 0, a.t)
	dmixed := a.headColumns(a.dmixed, a.dModel, 0, i)
	for r := range a.t {
		a.path.Scale(g.row(r), dmixed.row(r), h.rowInverse[r])
		s.delta[r] = a.path.Dot(g.row(r), h.mixed.row(r))
	}
	dqOut, dkOut, dvOut := a.projections(a.dqkv, i)
	for key := 0; key < a.t; key += keyTile {
		keys := min(keyTile, a.t-key)
		a.startKeys(s, h, key, keys)
		for first := key; first < a.t; first += queryTile {
			a.backwardTile(worker, h, first, key)
		}
		dkOut.copyFrom(s.dk, key, keys)
		dvOut.copyFrom(s.dv, key, keys)
	}
	a.scaleRows(dqOut, dq, 0, a.t)
}

// startKeys brings a tile of keys and values and zeroes their gradients.
func (a *attention) startKeys(s *tileScratch, h headView, key, keys int) {
	h.k.copyTo(s.k, key, keys)
	a.path.Transpose(s.kt, tileStride, h.k.matrix(key, keys))
	a.path.Transpose(s.vt, tileStride, h.v.matrix(key, keys))
	clear(s.dk[:keys*a.headDim])
	clear(s.dv[:keys*a.headDim])
}

// backwardTile adds what a tile of queries and a tile of keys give to each other's
// gradients.
func (a *attention) backwardTile(worker int, h headView, first, key int) {
	n, s := min(queryTile, a.t-first), &a.tiles[worker]
	cols := min(keyTile, first+n-key)
	q, g := packed(s.q, a.headDim).matrix(first, n), packed(s.g, a.headDim).matrix(first, n)
	dq := packed(s.sum, a.headDim).matrix(first, n)
	scores, dscores := kernel.View(s.scores, n, cols, tileStride), kernel.View(s.dscores, n, cols, tileStride)
	a.gemm.MulLocal(worker, scores, q, kernel.View(s.kt, a.headDim, cols, tileStride), false)
	a.gemm.MulLocal(worker, dscores, g, kernel.View(s.vt, a.headDim, cols, tileStride), false)
	a.softmaxBackward(s, h, first, n, key, cols)
	a.gemm.MulLocal(worker, dense(s.dv, cols, a.headDim), scores.T(), g, true)
	a.gemm.MulLocal(worker, dense(s.dk, cols, a.headDim), dscores.T(), q, true)
	a.gemm.MulLocal(worker, dq, dscores, dense(s.k, cols, a.headDim), key > 0)
}

// softmaxBackward turns the scores of a tile into E and G·vᵀ into dscores; both are
// +0 where the key lies after the query.
func (a *attention) softmaxBackward(s *tileScratch, h headView, first, n, key, cols int) {
	for r := range n {
		i := first + r
		from, visible := r*tileStride, min(cols, i-key+1)
		e, ds := s.scores[from:from+cols], s.dscores[from:from+cols]
		a.path.ExpSum(e[:visible], e[:visible], h.rowMax[i])
		a.path.SoftmaxBackward(ds[:visible], ds[:visible], e[:visible], s.delta[i])
		clear(e[visible:])
		clear(ds[visible:])
	}
}
