package cpuengine

import (
	"math"

	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// Attention goes over tiles of queries and keys, so that the scores of a tile stay
// in the cache. keyTile is a multiple of queryTile: then a tile of queries begins
// at or after the beginning of every tile of keys that it sees. The sizes decide
// where a sum is rescaled, hence the bits. Rows of a tile lie a cache line further
// apart than they are long, so that a column does not fall into one set of the cache.
const (
	queryTile  = 64
	keyTile    = 256
	tileStride = keyTile + lineFloats
)

// tileScratch is what one worker needs for attention.
type tileScratch struct {
	scores  []float32 // [queryTile,tileStride] scores, then exp(score - rowMax)
	dscores []float32 // [queryTile,tileStride] gradient of the scores
	sum     []float32 // [queryTile,head_dim] weighted sum of values
	factor  []float32 // [1] a single exponential
	delta   []float32 // [T] dmixed·mixed of every query of a head
}

func newTileScratch(a *arena, c model.Config) tileScratch {
	return tileScratch{
		scores:  a.floats(queryTile * tileStride),
		dscores: a.floats(queryTile * tileStride),
		sum:     a.floats(queryTile * c.HeadDim()),
		factor:  a.floats(1),
		delta:   a.floats(c.Context),
	}
}

// attention is causal multi-head attention, all heads in one call. The task fields
// are made once, so that a call allocates nothing.
type attention struct {
	*device
	heads, headDim, dModel int
	scale                  float32 // 1/sqrt(head_dim), on the queries
	tiles                  []tileScratch
	forwardTask            func(worker, i int)
	backwardTask           func(worker, i int)

	// The call in progress.
	windows, t   int
	act          *layerActivations
	dqkv, dmixed []float32
}

func newAttention(dev *device, c model.Config, tiles []tileScratch) *attention {
	a := &attention{
		device: dev, heads: c.NHead, headDim: c.HeadDim(), dModel: c.DModel,
		scale: float32(1 / math.Sqrt(float64(c.HeadDim()))), tiles: tiles,
	}
	a.forwardTask, a.backwardTask = a.forwardTile, a.backwardHead
	return a
}

// forward computes act.mixed, act.rowMax and act.rowInverse from act.qkv, whose
// queries it multiplies by 1/sqrt(head_dim), each product rounded.
func (a *attention) forward(windows, t int, act *layerActivations) {
	a.windows, a.t, a.act = windows, t, act
	a.pool.Each(blocks(t, queryTile)*windows*a.heads, a.forwardTask)
}

// backward computes dqkv [R,3d], the gradient of the projections before the
// queries were scaled, from dmixed [R,d], which it overwrites.
func (a *attention) backward(windows, t int, act *layerActivations, dqkv, dmixed []float32) {
	a.windows, a.t, a.act, a.dqkv, a.dmixed = windows, t, act, dqkv, dmixed
	a.pool.Each(windows*a.heads, a.backwardTask)
}

// headView is one head of one window: row i of every view belongs to position i.
type headView struct {
	q, k, v    columns   // of qkv [T,3d]
	mixed      columns   // [T,d]
	rowMax     []float32 // [T]
	rowInverse []float32 // [T]
}

// head returns head h of window w, numbered i = w·heads + h.
func (a *attention) head(i int) headView {
	q, k, v := a.projections(a.act.qkv, i)
	return headView{
		q: q, k: k, v: v,
		mixed:      a.headColumns(a.act.mixed, a.dModel, 0, i),
		rowMax:     a.act.rowMax[i*a.t : (i+1)*a.t],
		rowInverse: a.act.rowInverse[i*a.t : (i+1)*a.t],
	}
}

// projections returns the queries, keys and values of head i, or their gradients.
func (a *attention) projections(qkv []float32, i int) (q, k, v columns) {
	width := 3 * a.dModel
	return a.headColumns(qkv, width, 0, i), a.headColumns(qkv, width, a.dModel, i), a.headColumns(qkv, width, 2*a.dModel, i)
}

// headColumns returns the columns of head i in a matrix of rows of the given width, in
// the part of the row that begins at offset.
func (a *attention) headColumns(data []float32, width, offset, i int) columns {
	w, h := i/a.heads, i%a.heads
	return columns{data: data[w*a.t*width+offset+h*a.headDim:], stride: width, width: a.headDim}
}

// forwardTile computes one tile of queries of one head. The last tiles, which see
// the most keys, come first.
func (a *attention) forwardTile(worker, i int) {
	perTile := a.windows * a.heads
	first := (blocks(a.t, queryTile) - 1 - i/perTile) * queryTile
	n := min(queryTile, a.t-first)
	h, s := a.head(i%perTile), &a.tiles[worker]
	for r := first; r < first+n; r++ {
		a.path.Scale(h.q.row(r), h.q.row(r), a.scale)
	}
	sum := kernel.View(s.sum, n, a.headDim, a.headDim)
	for key := 0; key < first+n; key += keyTile {
		cols := min(keyTile, first+n-key)
		scores := kernel.View(s.scores, n, cols, tileStride)
		a.gemm.MulLocal(worker, scores, h.q.matrix(first, n), h.k.matrix(key, cols).T(), false)
		a.onlineSoftmax(s, h, first, n, key, cols)
		a.gemm.MulLocal(worker, sum, scores, h.v.matrix(key, cols), key > 0)
	}
	for r := range n {
		h.rowInverse[first+r] = 1 / h.rowInverse[first+r]
		a.path.Scale(h.mixed.row(first+r), s.sum[r*a.headDim:(r+1)*a.headDim], h.rowInverse[first+r])
	}
}

// onlineSoftmax turns the scores of a tile into exp(score - rowMax), where rowMax
// is the largest of this tile and those before; what is summed already is scaled
// to the new rowMax. rowInverse holds the running sum until the last tile.
func (a *attention) onlineSoftmax(s *tileScratch, h headView, first, n, key, cols int) {
	for r := range n {
		i := first + r
		row := s.scores[r*tileStride : r*tileStride+cols]
		visible := row[:min(cols, i-key+1)]
		largest := a.path.Max(visible)
		if key > 0 {
			largest = max(largest, h.rowMax[i])
		}
		tileSum := a.path.ExpSum(visible, visible, largest)
		clear(row[len(visible):])
		switch {
		case key == 0:
			h.rowInverse[i] = tileSum
		case largest == h.rowMax[i]:
			h.rowInverse[i] += tileSum
		default:
			factor := a.path.ExpSum(s.factor, h.rowMax[i:i+1], largest)
			h.rowInverse[i] = float32(h.rowInverse[i]*factor) + tileSum
			sum := s.sum[r*a.headDim : (r+1)*a.headDim]
			a.path.Scale(sum, sum, factor)
		}
		h.rowMax[i] = largest
	}
}
