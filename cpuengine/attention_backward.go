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
	if a.inBlocks(a.t) {
		a.backwardHeadInBlocks(worker, i)
		return
	}
	h, s := a.gradient(i), &a.tiles[worker]
	a.startQueries(&h, s, 0, a.t)
	for key := 0; key < a.t; key += keyTile {
		keys := min(keyTile, a.t-key)
		a.startKeys(s, h.headView, key, keys)
		for first := key; first < a.t; first += queryTile {
			a.backwardTile(worker, h.headView, first, key)
		}
		a.path.CopyRows(h.dk.matrix(key, keys), dense(s.dk, keys, a.headDim))
		a.path.CopyRows(h.dv.matrix(key, keys), dense(s.dv, keys, a.headDim))
	}
	a.finishQueries(&h, s, 0, a.t)
}

// startQueries brings n scaled queries from row first on, their rows of G, and the row sums of G*mixed.
func (a *attention) startQueries(h *headGradient, s *tileScratch, first, n int) {
	q, g := packed(s.q, a.headDim).matrix(first, n), packed(s.g, a.headDim).matrix(first, n)
	a.path.ScaleRows(q, h.q.matrix(first, n), a.scales)
	a.path.ScaleRows(g, h.dmixed.matrix(first, n), h.rowInverse[first:])
	a.path.DotRows(s.delta[first:], g, h.mixed.matrix(first, n))
}

// finishQueries writes the gradient of n queries from row first on.
func (a *attention) finishQueries(h *headGradient, s *tileScratch, first, n int) {
	a.path.ScaleRows(h.dq.matrix(first, n), packed(s.sum, a.headDim).matrix(first, n), a.scales)
}

// startKeys brings a tile of keys and values and zeroes their gradients.
func (a *attention) startKeys(s *tileScratch, h headView, key, keys int) {
	a.path.CopyRows(dense(s.k, keys, a.headDim), h.k.matrix(key, keys))
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
	tile := kernel.Tile{Data: s.scores, Stride: tileStride, Rows: n, Cols: cols, Visible: first - key + 1}
	a.path.SoftmaxBackwardTile(tile, s.dscores, h.rowMax[first:first+n], s.delta[first:first+n])
	a.gemm.MulLocal(worker, dense(s.dv, cols, a.headDim), scores.T(), g, true)
	a.gemm.MulLocal(worker, dense(s.dk, cols, a.headDim), dscores.T(), q, true)
	a.gemm.MulLocal(worker, dq, dscores, dense(s.k, cols, a.headDim), key > 0)
}
