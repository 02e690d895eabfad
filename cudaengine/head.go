//go:build cuda && cgo && linux

package cudaengine

import (
	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
)

// head computes the loss, one block of rows of the logits after the other. With a gradient it adds that of lm_head to
// it, blocks in order, and leaves the gradient of mem.final in mem.dnormed if there is a final norm, else in mem.dx
// as float32 and in mem.narrow in the engine's precision.
func (p *pass) head(gradient *tensors) {
	p.finish()
	for first := 0; first < p.rows; first += headRows {
		rows := min(headRows, p.rows-first)
		x := element(p.mem.final, int64(first)*int64(p.d), p.bytes)
		p.logits(x, rows)
		p.crossEntropy(first, rows, gradient != nil)
		if gradient != nil {
			p.headBackward(gradient.head, x, first, rows)
		}
	}
	if gradient != nil && !p.config.FinalNorm && p.mem.narrow != p.mem.dx {
		p.toPrecision(p.mem.narrow, p.mem.dx, p.rows*p.d)
	}
	p.compute.launch(p.kernels.lossSum, kernels.Sizes{}, p.mem.total, p.mem.loss, driver.Int(p.rows))
	p.compute.out(p.host.result, p.mem.total, doubles)
}

// logits computes rows of logits, of which those from the vocabulary's end to the stride stay unset.
func (p *pass) logits(x driver.Pointer, rows int) {
	v := p.config.Vocab
	p.product(nt, matrix{p.mem.logits, paddedVocab(v)}, matrix{x, p.d}, matrix{p.weights.head, p.d}, 0, rows, v, p.d, kernels.StoreFP32)
}

// crossEntropy computes the losses of rows of logits, and their gradient.
func (p *pass) crossEntropy(first, rows int, gradient bool) {
	var dlogits driver.Pointer
	if gradient {
		dlogits = p.mem.dlogits
	}
	v := p.config.Vocab
	p.compute.launch(p.kernels.crossEntropy, kernels.Sizes{Rows: rows}, p.mem.loss, dlogits, p.mem.logits, p.mem.tokens,
		driver.Int(first), driver.Int(rows), driver.Int(p.batch.T), driver.Int(v), driver.Int(paddedVocab(v)))
}

// headBackward adds the gradient of lm_head of a block of rows, and writes that of its input x.
func (p *pass) headBackward(dhead, x driver.Pointer, first, rows int) {
	v, at := p.config.Vocab, int64(first)*int64(p.d)
	dlogits := matrix{p.mem.dlogits, paddedVocab(v)}
	p.addProduct(dhead, dlogits, matrix{x, p.d}, v, p.d, rows)
	dx, epilogue := element(p.mem.dx, at, words), kernels.StoreFP32
	if p.config.FinalNorm {
		dx, epilogue = element(p.mem.dnormed, at, p.bytes), kernels.Store
	}
	p.product(nn, matrix{dx, p.d}, dlogits, matrix{p.weights.head, p.d}, 0, rows, p.d, v, epilogue)
}
