package cpuengine

import "math"

// rowBlock is how many rows of the residual stream one task takes.
const rowBlock = 16

// norm is RMSNorm without gain over rows of width d:
//
//	y = x·inverse, inverse = 1/sqrt(sum(x²)/d + eps)
//	dx = inverse·(dy - y·(dy·y)/d)
type norm struct {
	*device
	width        int
	eps          float32
	forwardTask  func(worker, i int)
	backwardTask func(worker, i int)

	// The call in progress.
	rows                  int
	x, y, dx, dy, inverse []float32
	add                   bool
}

func newNorm(dev *device, width int, eps float32) *norm {
	n := &norm{device: dev, width: width, eps: eps}
	n.forwardTask, n.backwardTask = n.forwardRows, n.backwardRows
	return n
}

// forward writes y [rows,width] and inverse [rows] from x; y may be x.
func (n *norm) forward(rows int, y, inverse, x []float32) {
	n.rows, n.y, n.inverse, n.x = rows, y, inverse, x
	n.pool.Each(blocks(rows, rowBlock), n.forwardTask)
}

// backward writes dx from dy and what forward wrote, or adds to dx; dx may be dy
// unless it adds.
func (n *norm) backward(rows int, dx, dy, y, inverse []float32, add bool) {
	n.rows, n.dx, n.dy, n.y, n.inverse, n.add = rows, dx, dy, y, inverse, add
	n.pool.Each(blocks(rows, rowBlock), n.backwardTask)
}

func (n *norm) forwardRows(_, i int) {
	lo, hi := block(i, rowBlock, n.rows)
	for r := lo; r < hi; r++ {
		n.inverse[r] = n.row(n.y[r*n.width:(r+1)*n.width], n.x[r*n.width:(r+1)*n.width])
	}
}

// row norms one row and returns its inverse.
func (n *norm) row(y, x []float32) float32 {
	mean := n.path.Dot(x, x) / float32(n.width)
	inverse := 1 / float32(math.Sqrt(float64(mean+n.eps)))
	n.path.Scale(y, x, inverse)
	return inverse
}

func (n *norm) backwardRows(_, i int) {
	lo, hi := block(i, rowBlock, n.rows)
	for r := lo; r < hi; r++ {
		from, to := r*n.width, (r+1)*n.width
		dy, y := n.dy[from:to], n.y[from:to]
		mean := n.path.Dot(dy, y) / float32(n.width)
		n.path.NormBackward(n.dx[from:to], dy, y, n.inverse[r], mean, n.add)
	}
}
