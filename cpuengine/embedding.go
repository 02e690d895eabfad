package cpuengine

import "andrea/model"

// columnBlock is how many columns of the embeddings' gradients one task takes: a
// token may occur in any row, so the columns are what tasks can own.
const columnBlock = 64

// embedding is wte[token] + wpe[position], with its norm when the model has one.
type embedding struct {
	*device
	width        int
	norm         *norm // nil: no embed_norm
	forwardTask  func(worker, i int)
	backwardTask func(worker, i int)

	// The call in progress.
	batch              model.Batch
	w                  *weights // parameters forward, gradients backward
	x, normed, inverse []float32
}

func newEmbedding(dev *device, width int, norm *norm) *embedding {
	e := &embedding{device: dev, width: width, norm: norm}
	e.forwardTask, e.backwardTask = e.forwardRows, e.backwardColumns
	return e
}

// forward writes the residual stream x [R,width] of the inputs of a batch. With
// embed_norm it also keeps the norm's output and inverse.
func (e *embedding) forward(b model.Batch, w *weights, x, normed, inverse []float32) {
	e.batch, e.w, e.x, e.normed, e.inverse = b, w, x, normed, inverse
	e.pool.Each(blocks(b.Windows*b.T, rowBlock), e.forwardTask)
}

// backward adds to gradient the gradients of both tables, from dx [R,width] of the sums.
func (e *embedding) backward(b model.Batch, gradient *weights, dx []float32) {
	e.batch, e.w, e.x = b, gradient, dx
	e.pool.Each(blocks(e.width, columnBlock), e.backwardTask)
}

func (e *embedding) forwardRows(_, i int) {
	lo, hi := block(i, rowBlock, e.batch.Windows*e.batch.T)
	for r := lo; r < hi; r++ {
		token, position := e.at(r)
		x := e.x[r*e.width : (r+1)*e.width]
		e.path.Add(x, e.w.token[token:token+e.width], e.w.position[position:position+e.width])
		if e.norm != nil {
			normed := e.normed[r*e.width : (r+1)*e.width]
			e.inverse[r] = e.norm.row(normed, x)
			copy(x, normed)
		}
	}
}

// backwardColumns adds a block of columns of every row, rows in order.
func (e *embedding) backwardColumns(_, i int) {
	lo, hi := block(i, columnBlock, e.width)
	for r := range e.batch.Windows * e.batch.T {
		token, position := e.at(r)
		dx := e.x[r*e.width+lo : r*e.width+hi]
		for _, row := range [...][]float32{
			e.w.token[token+lo : token+hi],
			e.w.position[position+lo : position+hi],
		} {
			e.path.Add(row, row, dx)
		}
	}
}

// at returns where the rows of input r begin in wte and wpe.
func (e *embedding) at(r int) (token, position int) {
	window, t := r/e.batch.T, r%e.batch.T
	return int(e.batch.Tokens[window*(e.batch.T+1)+t]) * e.width, t * e.width
}
