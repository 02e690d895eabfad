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

// headGradient is what the backward pass of one head reads and writes besides its headView.
type headGradient struct {
	headView
	dmixed     columns // [T,d]
	dq, dk, dv columns // of dqkv [T,3d]
}

// backwardHeadInBlocks is backwardHead on blocks. The gradients of keys and values are computed
// transposed: a product is the faster the more columns it has. Rows lie pages apart, where no processor fetches
// ahead by itself: those of the next queries and keys are fetched while these are computed.
func (a *attention) backwardHeadInBlocks(worker, i int) {
	s, h := &a.tiles[worker], headGradient{headView: a.head(i), dmixed: a.headColumns(a.dmixed, a.dModel, 0, i)}
	h.dq, h.dk, h.dv = a.projections(a.dqkv, i)
	dk, dv := dense(s.dk, a.headDim, blockSide), dense(s.dv, a.headDim, blockSide)
	for key := 0; key < a.t; key += blockSide {
		h.k.copyTo(s.k, key, blockSide)
		a.path.Transpose(s.kt, blockSide, dense(s.k, blockSide, a.headDim))
		a.path.Transpose(s.vt, blockSide, h.v.matrix(key, blockSide))
		for first := key; first < a.t && !skipBlocks; first += blockSide {
			if key == 0 {
				a.startQueries(&h, s, first)
			}
			a.backwardBlock(&h, s, first, key)
		}
		a.path.Transpose(h.dk.data[key*h.dk.stride:], h.dk.stride, dk)
		a.path.Transpose(h.dv.data[key*h.dv.stride:], h.dv.stride, dv)
		a.path.ScaleRows(h.dq.matrix(key, blockSide), packed(s.sum, a.headDim).matrix(key, blockSide), a.scales)
	}
}

// startQueries brings a block of scaled queries, of G, and the row sums of G*mixed.
func (a *attention) startQueries(h *headGradient, s *tileScratch, first int) {
	const n = blockSide
	q, g := packed(s.q, a.headDim).matrix(first, n), packed(s.g, a.headDim).matrix(first, n)
	a.path.ScaleRows(q, h.q.matrix(first, n), a.scales)
	a.path.ScaleRows(g, h.dmixed.matrix(first, n), h.rowInverse[first:])
	a.path.DotRows(s.delta[first:], g, h.mixed.matrix(first, n))
}

// backwardBlock is backwardTile on a block.
func (a *attention) backwardBlock(h *headGradient, s *tileScratch, first, key int) {
	const n = blockSide
	q, g := packed(s.q, a.headDim).matrix(first, n), packed(s.g, a.headDim).matrix(first, n)
	dq := packed(s.sum, a.headDim).matrix(first, n)
	scores, dscores := square(s.scores), square(s.dscores)
	a.fetchFor(h, first, key, 0)
	a.path.MulBlock(scores, q, dense(s.kt, a.headDim, n), false)
	a.fetchFor(h, first, key, 1)
	a.path.MulBlock(dscores, g, dense(s.vt, a.headDim, n), false)
	tile := kernel.Tile{Data: s.scores, Stride: n, Rows: n, Cols: n, Visible: first - key + 1}
	a.path.SoftmaxBackwardTile(tile, s.dscores, h.rowMax[first:first+n], s.delta[first:first+n])
	a.fetchFor(h, first, key, 2)
	a.path.MulBlock(dense(s.dv, a.headDim, n), g.T(), scores, first > key)
	a.fetchFor(h, first, key, 3)
	a.path.MulBlock(dense(s.dk, a.headDim, n), q.T(), dscores, first > key)
	a.fetchFor(h, first, key, 4)
	a.path.MulBlock(dq, dscores, dense(s.k, n, a.headDim), key > 0)
}

// fetchFor fetches part of what comes after a block, before product i of its five.
func (a *attention) fetchFor(h *headGradient, first, key, i int) {
	const n = blockSide
	if noFetch {
		return
	}
	if key == 0 && first+n < a.t {
		switch i {
		case 0:
			a.path.Fetch(h.q.matrix(first+n, n))
		case 2:
			a.path.Fetch(h.dmixed.matrix(first+n, n))
		case 4:
			a.path.Fetch(h.mixed.matrix(first+n, n))
		}
	}
	if first == key {
		switch i {
		case 0:
			a.path.FetchToWrite(h.dq.matrix(key, n))
		case 1:
			a.path.FetchToWrite(h.dk.matrix(key, n))
		case 2:
			a.path.FetchToWrite(h.dv.matrix(key, n))
		case 3:
			if key+n < a.t {
				a.path.Fetch(h.k.matrix(key+n, n))
			}
		case 4:
			if key+n < a.t {
				a.path.Fetch(h.v.matrix(key+n, n))
			}
		}
	}
}

var skipBlocks, noFetch = false, false
