package cpuengine

import (
	"math"

	"andrea/cpuengine/internal/kernel"
)

// forwardPartInBlocks is forwardPart on blocks, with everything transposed: a key in a row of the scores and a query in
// a column. Then all products are as wide as a block, and the softmax goes down columns.
func (a *attention) forwardPartInBlocks(worker, i int) {
	h, s := a.head(i/a.parts), &a.tiles[worker]
	for key := 0; key < a.t; key += keyTile {
		keys := min(keyTile, a.t-key)
		h.k.copyTo(s.kt, key, keys) // not transposed
		h.v.copyTo(s.v, key, keys)
		for first := i % a.parts * blockSide; first < a.t; first += a.parts * blockSide {
			if first >= key {
				a.forwardBlocks(h, s, first, key)
			}
		}
	}
}

// forwardBlocks is forwardTile on the blocks of a tile of keys.
func (a *attention) forwardBlocks(h headView, s *tileScratch, first, key int) {
	const n = blockSide
	d, side := a.headDim, n*a.headDim
	q, sum := s.q[first*d:][:side], s.sum[first*d:][:side] // [head_dim,n]
	if key == 0 {
		rows := dense(s.scores, n, d)
		a.path.ScaleRows(rows, h.q.matrix(first, n), a.scales)
		a.path.Transpose(q, n, rows)
	}
	end := min(key+keyTile, first+n)
	largest, total := h.rowMax[first:first+n], h.rowInverse[first:first+n]
	if key == 0 {
		fill(largest, float32(math.Inf(-1)))
	}
	copy(s.factors, largest)
	for at := key; at < end; at += n {
		scores := s.block(at - key)
		a.path.MulBlock(square(scores.Data), dense(s.kt[(at-key)*d:], n, d), dense(q, d, n), false)
		if at == first {
			a.path.HideEarlier(scores)
		}
		a.path.LargestOfColumns(scores, largest)
	}
	if key > 0 {
		for r, x := range largest {
			s.factors[r] -= x
		}
		a.path.ExpSum(s.factors, s.factors, 0)
		a.path.ScaleColumns(sum, d, s.factors)
	}
	clear(s.partial)
	for at := key; at < end; at += n {
		scores := s.block(at - key)
		a.path.ExpColumns(scores, largest, s.partial)
		a.path.MulBlock(dense(sum, d, n), dense(s.v[(at-key)*d:], n, d).T(), square(scores.Data), at > 0)
	}
	a.path.SumColumns(s.partial, s.sums)
	for r, x := range s.sums {
		if x != x {
			largest[r] = x
		}
		if key > 0 {
			x += float32(total[r] * s.factors[r])
		}
		total[r] = x
	}
	if end < first+n {
		return
	}
	for r, x := range total {
		total[r] = 1 / x
	}
	a.path.ScaleColumns(sum, d, total)
	a.path.Transpose(h.mixed.data[first*h.mixed.stride:], h.mixed.stride, dense(sum, d, n))
}

// block returns the block of scores whose first row is row.
func (s *tileScratch) block(row int) kernel.Block {
	return kernel.Block{Data: s.scores[row*blockSide:][:blockSide*blockSide]}
}
