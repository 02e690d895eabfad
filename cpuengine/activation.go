package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// activationBlock is how many elements one task takes: 32 KiB of each vector.
const activationBlock = 8192

// activation is the nonlinearity of the MLP.
type activation struct {
	*device
	forwardOf    func(p *kernel.Path, dst, x []float32)
	backwardOf   func(p *kernel.Path, dst, dy, x []float32)
	forwardTask  func(worker, i int)
	backwardTask func(worker, i int)

	dst, dy, x []float32 // the call in progress
}

func newActivation(dev *device, kind model.Activation) *activation {
	a := &activation{device: dev, forwardOf: (*kernel.Path).ReluSquared, backwardOf: (*kernel.Path).ReluSquaredBackward}
	if kind == model.ReLU {
		a.forwardOf, a.backwardOf = (*kernel.Path).Relu, (*kernel.Path).ReluBackward
	}
	a.forwardTask, a.backwardTask = a.forwardBlock, a.backwardBlock
	return a
}

// forward writes act(x) to dst, of equal length.
func (a *activation) forward(dst, x []float32) {
	a.dst, a.x = dst, x
	a.pool.Each(blocks(len(x), activationBlock), a.forwardTask)
}

// backward writes dy·act'(x) to dst, which may be dy.
func (a *activation) backward(dst, dy, x []float32) {
	a.dst, a.dy, a.x = dst, dy, x
	a.pool.Each(blocks(len(x), activationBlock), a.backwardTask)
}

func (a *activation) forwardBlock(_, i int) {
	lo, hi := block(i, activationBlock, len(a.x))
	a.forwardOf(a.path, a.dst[lo:hi], a.x[lo:hi])
}

func (a *activation) backwardBlock(_, i int) {
	lo, hi := block(i, activationBlock, len(a.x))
	a.backwardOf(a.path, a.dst[lo:hi], a.dy[lo:hi], a.x[lo:hi])
}
