package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
	"andrea/numeric"
)

// headRows is how many rows of logits exist at a time, lossBlock how many of them
// one task takes.
const (
	headRows  = 512
	lossBlock = 4
)

// crossEntropy is the softmax loss of rows of logits.
type crossEntropy struct {
	*device
	vocab int
	loss  []float64 // [R] of every row of the batch
	task  func(worker, i int)

	// The call in progress: rows [first, first+n) of the batch.
	batch    model.Batch
	first    int
	logits   kernel.Matrix // of rows from first on
	gradient bool
}

func newCrossEntropy(dev *device, vocab int, loss []float64) *crossEntropy {
	c := &crossEntropy{device: dev, vocab: vocab, loss: loss}
	c.task = c.runBlock
	return c
}

// run computes the losses of rows of a batch, from the given first one on, from their logits [n,V]
// and overwrites these, with gradient by the gradient of the loss sum.
func (c *crossEntropy) run(b model.Batch, first int, logits kernel.Matrix, gradient bool) {
	c.batch, c.first, c.logits, c.gradient = b, first, logits, gradient
	c.pool.Each(blocks(logits.Rows, lossBlock), c.task)
}

func (c *crossEntropy) runBlock(_, i int) {
	lo, hi := block(i, lossBlock, c.logits.Rows)
	for r := lo; r < hi; r++ {
		window, t := (c.first+r)/c.batch.T, (c.first+r)%c.batch.T
		target := c.batch.Tokens[window*(c.batch.T+1)+t+1]
		c.loss[c.first+r] = c.row(c.logits.Data[r*c.logits.Stride:][:c.vocab], target)
	}
}

// row returns ln(sum(exp(logit - largest))) + largest - logit of the target. The
// exponentials and their sum are float32, the rest float64.
func (c *crossEntropy) row(logits []float32, target uint32) float64 {
	largest, logit := c.path.Max(logits), logits[target]
	sum := c.path.ExpSum(logits, logits, largest)
	if c.gradient {
		c.path.Scale(logits, logits, 1/sum)
		logits[target]--
	}
	return numeric.Log(float64(sum)) + (float64(largest) - float64(logit))
}

// sum adds the losses of the first n rows in order.
func (c *crossEntropy) sum(n int) float64 {
	total := 0.0
	for _, l := range c.loss[:n] {
		total += l
	}
	return total
}
