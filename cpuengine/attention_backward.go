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
	dq, dk, dv := a.projections(a.dqkv, i)
	g := a.headColumns(a.dmixed, a.dModel, 0, i)
	for r := range a.t {
		a.path.Scale(g.row(r), g.row(r), h.rowInverse[r])
		s.delta[r] = a.path.Dot(g.row(r), h.mixed.row(r))
		clear(dk.row(r))
		clear(dv.row(r))
	}
	for key := 0; key < a.t; key += keyTile {
		for first := key; first < a.t; first += queryTile {
			n := min(queryTile, a.t-first)
			cols := min(keyTile, first+n-key, a.t-key)
			q, k, v := h.q.matrix(first, n), h.k.matrix(key, cols), h.v.matrix(key, cols)
			scores := kernel.View(s.scores, n, cols, tileStride)
			dscores := kernel.View(s.dscores, n, cols, tileStride)
			a.gemm.MulLocal(worker, scores, q, k.T(), false)
			a.gemm.MulLocal(worker, dscores, g.matrix(first, n), v.T(), false)
			a.softmaxBackward(s, h, first, n, key, cols)
			a.gemm.MulLocal(worker, dv.matrix(key, cols), scores.T(), g.matrix(first, n), true)
			a.gemm.MulLocal(worker, dk.matrix(key, cols), dscores.T(), q, true)
			a.gemm.MulLocal(worker, dq.matrix(first, n), dscores, k, key > 0)
		}
	}
	for r := range a.t {
		a.path.Scale(dq.row(r), dq.row(r), a.scale)
	}
}

// softmaxBackward turns the scores of a tile into E and G·vᵀ into dscores; both are
// +0 where the key lies after the query.
func (a *attention) softmaxBackward(s *tileScratch, h headView, first, n, key, cols int) {
	for r := range n {
		i := first + r
		from, visible := r*tileStride, min(cols, i-key+1)
		e, ds := s.scores[from:from+cols], s.dscores[from:from+cols]
		a.path.ExpSum(e[:visible], e[:visible], h.rowMax[i])
		a.path.SubScaleMul(ds[:visible], ds[:visible], e[:visible], s.delta[i], 1)
		clear(e[visible:])
		clear(ds[visible:])
	}
}
