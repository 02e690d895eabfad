package cpuengine

import "math"

// forwardPartInBlocks is forwardPart on blocks, with everything transposed: a key in a row of the scores and a query in
// a column. Then all products are as wide as a block, and the softmax goes down columns.
func (a *attention) forwardPartInBlocks(worker, i int) {
	h, s := a.head(i/a.parts), &a.tiles[worker]
	s.fetches = fetchQueue{}
	for key := 0; key < a.t; key += keyTile {
		copied := key
		for first := i % a.parts * blockSide; first < a.t; first += a.parts * blockSide {
			if first < key {
				continue
			}
			end := min(key+keyTile, first+blockSide)
			if end > copied {
				n, at := end-copied, (copied-key)*a.headDim
				a.path.CopyRows(dense(s.kt[at:], n, a.headDim), h.k.matrix(copied, n))
				a.path.CopyRows(dense(s.v[at:], n, a.headDim), h.v.matrix(copied, n))
				copied = end
				a.fetchAhead(s, end, h.k, h.v)
			}
			a.forwardBlocks(h, s, first, key, end)
		}
	}
}

// forwardBlocks is forwardTile on the blocks of a tile of keys that end before end. Of the scratch, q and sum are
// [head_dim,blockSide] for each block of queries, and kt holds the keys, not transposed.
func (a *attention) forwardBlocks(h headView, s *tileScratch, first, key, end int) {
	side := blockSide * a.headDim
	q, sum := s.q[first*a.headDim:][:side], s.sum[first*a.headDim:][:side]
	largest, total := h.rowMax[first:first+blockSide], h.rowInverse[first:first+blockSide]
	if key == 0 {
		a.startForward(h, s, first, q, largest)
	}
	copy(s.factors, largest)
	for at := key; at < end; at += blockSide {
		scores := s.block(at - key)
		a.blocks.scores.Mul(scores.Data, s.kt[(at-key)*a.headDim:], q, false, s.fetches.pop())
		if at == first {
			a.path.HideEarlier(scores)
		}
		a.path.LargestOfColumns(scores, largest)
	}
	if key > 0 {
		a.rescale(s, largest, total, sum)
	}
	clear(s.partial)
	for at := key; at < end; at += blockSide {
		scores := s.block(at - key)
		a.path.ExpColumns(scores, largest, s.partial)
		a.blocks.mix.Mul(sum, s.v[(at-key)*a.headDim:], scores.Data, at > 0, s.fetches.pop())
	}
	a.addSums(s, largest, total, key)
	if end == first+blockSide {
		for r, x := range total {
			total[r] = 1 / x
		}
		a.path.ScaleColumns(sum, a.headDim, total)
		a.copyTransposed(h.mixed, first, sum)
	}
}

// startForward brings a block of scaled queries, transposed to q.
func (a *attention) startForward(h headView, s *tileScratch, first int, q, largest []float32) {
	a.path.Transpose(q, blockSide, h.q.matrix(first, blockSide))
	a.path.Scale(q, q, a.scales[0])
	fill(largest, float32(math.Inf(-1)))
	a.fetchAhead(s, first+a.parts*blockSide, h.q)
	a.fetchAhead(s, first, h.mixed)
}

// rescale multiplies what is summed already by e^(old - new), of the largest scores; the old ones are in factors.
func (a *attention) rescale(s *tileScratch, largest, total, sum []float32) {
	a.path.Scale(s.sums, largest, -1)
	a.path.Add(s.factors, s.factors, s.sums)
	a.path.ExpSum(s.factors, s.factors, 0)
	a.path.ScaleColumns(sum, a.headDim, s.factors)
	a.path.ScaleColumns(total, 1, s.factors)
}

// addSums adds the sums of a tile of keys to those of the tiles before, and makes the largest score of
// a query NaN where its sum is.
func (a *attention) addSums(s *tileScratch, largest, total []float32, key int) {
	a.path.SumColumns(s.partial, s.sums)
	if x := a.path.Max(s.sums); x != x {
		for r, sum := range s.sums {
			if sum != sum {
				largest[r] = sum
			}
		}
	}
	if key == 0 {
		copy(total, s.sums)
	} else {
		a.path.Add(total, total, s.sums)
	}
}
