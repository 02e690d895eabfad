package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// activation is the nonlinearity of the MLP. Its values are never stored: they are computed where a product
// packs them, and its derivative is applied to parts of a product that still lie in the cache.
type activation struct {
	*device
	of           kernel.Elementwise // act
	backwardOf   func(p *kernel.Path, dst, dy, x []float32)
	backwardPart kernel.Then

	// The call in progress, matrices of rows of the given width.
	width int
	x     []float32 // act's argument
	dx    []float32 // gradient of its value, overwritten by that of x
}

func newActivation(dev *device, kind model.Activation) *activation {
	a := &activation{device: dev, of: (*kernel.Path).ReluSquared, backwardOf: (*kernel.Path).ReluSquaredBackward}
	if kind == model.ReLU {
		a.of, a.backwardOf = (*kernel.Path).Relu, (*kernel.Path).ReluBackward
	}
	a.backwardPart = a.backwardRows
	return a
}

// backward returns what follows a product into dx [R,width], the gradient of act(x): it is
// multiplied by act'(x).
func (a *activation) backward(dx, x []float32, width int) kernel.Then {
	a.dx, a.x, a.width = dx, x, width
	return a.backwardPart
}

func (a *activation) backwardRows(row, column, rows, columns int) {
	for r := row; r < row+rows; r++ {
		lo, hi := r*a.width+column, r*a.width+column+columns
		a.backwardOf(a.path, a.dx[lo:hi], a.dx[lo:hi], a.x[lo:hi])
	}
}
