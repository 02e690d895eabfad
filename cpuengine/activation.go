package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// activation is the nonlinearity of the MLP. It runs inside the products before it, on
// parts that still lie in the cache.
type activation struct {
	*device
	forwardOf    func(p *kernel.Path, dst, x []float32)
	backwardOf   func(p *kernel.Path, dst, dy, x []float32)
	forwardPart  kernel.Then
	backwardPart kernel.Then

	// The call in progress, matrices of rows of the given width.
	width int
	x, y  []float32 // act's argument and value
	dx    []float32 // gradient of y, overwritten by that of x
}

func newActivation(dev *device, kind model.Activation) *activation {
	a := &activation{device: dev, forwardOf: (*kernel.Path).ReluSquared, backwardOf: (*kernel.Path).ReluSquaredBackward}
	if kind == model.ReLU {
		a.forwardOf, a.backwardOf = (*kernel.Path).Relu, (*kernel.Path).ReluBackward
	}
	a.forwardPart, a.backwardPart = a.forwardRows, a.backwardRows
	return a
}

// forward returns what follows a product into x [R,width]: y = act(x).
func (a *activation) forward(y, x []float32, width int) kernel.Then {
	a.y, a.x, a.width = y, x, width
	return a.forwardPart
}

// backward returns what follows a product into dx [R,width], the gradient of act(x): it is
// multiplied by act'(x), and y = act(x) is computed again, which costs less than to keep it.
func (a *activation) backward(dx, y, x []float32, width int) kernel.Then {
	a.dx, a.y, a.x, a.width = dx, y, x, width
	return a.backwardPart
}

func (a *activation) forwardRows(row, column, rows, columns int) {
	for r := row; r < row+rows; r++ {
		lo, hi := r*a.width+column, r*a.width+column+columns
		a.forwardOf(a.path, a.y[lo:hi], a.x[lo:hi])
	}
}

func (a *activation) backwardRows(row, column, rows, columns int) {
	for r := row; r < row+rows; r++ {
		lo, hi := r*a.width+column, r*a.width+column+columns
		a.forwardOf(a.path, a.y[lo:hi], a.x[lo:hi])
		a.backwardOf(a.path, a.dx[lo:hi], a.dx[lo:hi], a.x[lo:hi])
	}
}
