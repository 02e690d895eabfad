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

// tileScratch is what one worker needs for attention. The rows of a head lie three
// d_model apart, in a few sets of the caches and each on a page of its own, so a head
// is copied here first, and its keys and values transposed where a product reads them
// as columns: then no product packs them again.
type tileScratch struct {
	scores  []float32  // [queryTile,tileStride] scores, then exp(score - rowMax)
	factors []float32  // [queryTile] what an older sum is multiplied by
	sums    []float32  // [queryTile] sums of the rows of one tile
	partial []float32  // [16,queryTile] partial sums
	q       []float32  // [T,head_dim] scaled queries
	sum     []float32  // [T,head_dim] weighted sum of values; backward: gradient of the queries
	v       []float32  // [keyTile,head_dim] values of one tile of keys
	kt      []float32  // [head_dim,tileStride] keys of one tile, transposed
	fetches fetchQueue // of the head in work

	// Of the backward pass, else nil.
	dscores []float32 // [queryTile,tileStride] gradient of the scores
	delta   []float32 // [T] dmixed·mixed of every query of a head
	g       []float32 // [T,head_dim] gradient of the output
	k       []float32 // [keyTile,head_dim] keys of one tile
	vt      []float32 // [head_dim,tileStride] values of one tile, transposed
	dk, dv  []float32 // [keyTile,head_dim] gradients of one tile
}

func newTileScratch(a *arena, c model.Config, backward bool) tileScratch {
	head, tile, transposed := c.Context*c.HeadDim(), keyTile*c.HeadDim(), c.HeadDim()*tileStride
	s := tileScratch{
		scores:  a.floats(queryTile * tileStride),
		factors: a.floats(queryTile), sums: a.floats(queryTile), partial: a.floats(16 * queryTile),
		q: a.floats(head), sum: a.floats(head),
		v: a.floats(tile), kt: a.floats(transposed),
	}
	if backward {
		s.dscores, s.delta = a.floats(queryTile*tileStride), a.floats(c.Context)
		s.g, s.k, s.vt = a.floats(head), a.floats(tile), a.floats(transposed)
		s.dk, s.dv = a.floats(tile), a.floats(tile)
	}
	return s
}

// attention is causal multi-head attention, all heads in one call. The task fields
// are made once, so that a call allocates nothing.
type attention struct {
	*device
	heads, headDim, dModel int
	scales                 []float32 // [T], each 1/sqrt(head_dim), of the queries
	tiles                  []tileScratch
	blocks                 *attentionBlocks // nil: tiles
	forwardTask            func(worker, i int)
	backwardTask           func(worker, i int)

	// The call in progress.
	windows, t   int
	parts        int // that the queries of a head are cut into, forward
	act          *layerActivations
	dqkv, dmixed []float32
}

func newAttention(dev *device, c model.Config, tiles []tileScratch) *attention {
	a := &attention{
		device: dev, heads: c.NHead, headDim: c.HeadDim(), dModel: c.DModel,
		scales: make([]float32, c.Context), tiles: tiles,
	}
	a.blocks = newAttentionBlocks(dev.path, a.headDim, a.dModel)
	fill(a.scales, float32(1/math.Sqrt(float64(c.HeadDim()))))
	a.forwardTask, a.backwardTask = a.forwardPart, a.backwardHead
	return a
}

// tasksPerWorker is how many tasks the forward pass has at least, so that no worker
// waits long for the last one. Cutting further would copy the keys more often.
const tasksPerWorker = 4

// forward computes act.mixed, act.rowMax and act.rowInverse from act.qkv.
func (a *attention) forward(windows, t int, act *layerActivations) {
	a.windows, a.t, a.act = windows, t, act
	heads := windows * a.heads
	a.parts = min(blocks(tasksPerWorker*a.pool.Workers(), heads), blocks(t, queryTile))
	a.pool.Each(heads*a.parts, a.forwardTask)
}

// backward computes dqkv [R,3d], the gradient of the projections, from dmixed [R,d].
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

// forwardPart computes every parts-th tile of queries of one head.
func (a *attention) forwardPart(worker, i int) {
	if a.inBlocks(a.t) {
		a.forwardPartInBlocks(worker, i)
		return
	}
	h, s := a.head(i/a.parts), &a.tiles[worker]
	for key := 0; key < a.t; key += keyTile {
		keys := h.k.matrix(key, min(keyTile, a.t-key))
		a.path.Transpose(s.kt, tileStride, keys)
		a.path.CopyRows(dense(s.v, keys.Rows, a.headDim), h.v.matrix(key, keys.Rows))
		for first := i % a.parts * queryTile; first < a.t; first += a.parts * queryTile {
			if first >= key {
				a.forwardTile(worker, h, first, key)
			}
		}
	}
}

// forwardTile adds what a tile of queries sees of a tile of keys. The first one brings
// the queries, multiplied by 1/sqrt(head_dim), each product rounded; the last one
// writes the result.
func (a *attention) forwardTile(worker int, h headView, first, key int) {
	n, s := min(queryTile, a.t-first), &a.tiles[worker]
	cols := min(keyTile, first+n-key)
	q, sum := packed(s.q, a.headDim), packed(s.sum, a.headDim)
	if key == 0 {
		a.path.ScaleRows(q.matrix(first, n), h.q.matrix(first, n), a.scales)
	}
	scores := kernel.View(s.scores, n, cols, tileStride)
	a.gemm.MulLocal(worker, scores, q.matrix(first, n), kernel.View(s.kt, a.headDim, cols, tileStride), false)
	a.softmax(s, h, sum.matrix(first, n), first, key, cols)
	a.gemm.MulLocal(worker, sum.matrix(first, n), scores, dense(s.v, cols, a.headDim), key > 0)
	if first+n > key+keyTile {
		return
	}
	inverse := h.rowInverse[first : first+n]
	for r, x := range inverse {
		inverse[r] = 1 / x
	}
	a.path.ScaleRows(h.mixed.matrix(first, n), sum.matrix(first, n), inverse)
}

// softmax turns the scores of the queries from first on into exp(score - rowMax), where
// rowMax is the largest of this tile of keys and those before; what is summed already, rows
// of sum, is scaled to the new rowMax. rowInverse holds the running sum until the last tile.
func (a *attention) softmax(s *tileScratch, h headView, sum kernel.Matrix, first, key, cols int) {
	n := sum.Rows
	tile := kernel.Tile{Data: s.scores, Stride: tileStride, Rows: n, Cols: cols, Visible: first - key + 1}
	largest, total := h.rowMax[first:first+n], h.rowInverse[first:first+n]
	if key == 0 {
		fill(largest, float32(math.Inf(-1)))
		a.path.SoftmaxTile(tile, largest, total)
		return
	}
	factors, sums := s.factors[:n], s.sums[:n]
	copy(factors, largest)
	a.path.SoftmaxTile(tile, largest, sums)
	for r, x := range largest {
		factors[r] -= x
	}
	a.path.ExpSum(factors, factors, 0)
	for r, f := range factors {
		total[r] = float32(total[r]*f) + sums[r]
	}
	a.path.ScaleRows(sum, sum, factors)
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
