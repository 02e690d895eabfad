package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// evaluate returns the loss of a checked batch. All layers share the activations of
// the first.
func (e *Engine) evaluate(b model.Batch) model.Loss {
	e.watch.start()
	e.forward(b, func(int) int { return 0 })
	return e.head(b, nil, false)
}

// logits runs the forward pass over tokens as one window and computes one row of logits.
func (e *Engine) logits(tokens []uint32, position int, dst []float32) {
	e.watch.start()
	inputs := e.prompt[:len(tokens)+1]
	copy(inputs, tokens) // the last one is a target, which nothing reads here
	e.forward(model.Batch{Windows: 1, T: len(tokens), Tokens: inputs}, func(int) int { return 0 })
	d, v := e.config.DModel, e.config.Vocab
	e.finalNorm(len(tokens))
	e.gemm.Mul(dense(dst, 1, v), dense(e.mem.final[position*d:], 1, d), dense(e.params.head, v, d).T(), false)
	e.watch.mark(&e.watch.parts.MatMul)
}

// forward leaves the residual stream after the last layer in mem.x. Layer l keeps
// its activations in mem.layers[keep(l)].
func (e *Engine) forward(b model.Batch, keep func(layer int) int) {
	e.embed(b)
	for l := range e.params.layers {
		e.layerForward(b, &e.params.layers[l], &e.mem.layers[keep(l)])
	}
}

// embed starts the residual stream in mem.x.
func (e *Engine) embed(b model.Batch) {
	e.embedding.forward(b, &e.params, e.mem.x, e.mem.embedded, e.mem.embedInverse)
	e.watch.mark(&e.watch.parts.Pointwise)
}

// layerForward takes mem.x through one layer.
func (e *Engine) layerForward(b model.Batch, w *layerWeights, act *layerActivations) {
	e.attentionForward(b, w, act)
	e.mlpForward(b.Windows*b.T, w, act)
}

// attentionForward is x = x + wo · attention(norm(x)).
func (e *Engine) attentionForward(b model.Batch, w *layerWeights, act *layerActivations) {
	rows, d, parts := b.Windows*b.T, e.config.DModel, &e.watch.parts
	e.norm.forward(rows, act.normed1, act.inverse1, e.mem.x)
	e.watch.mark(&parts.Pointwise)
	e.gemm.Mul(dense(act.qkv, rows, 3*d), dense(act.normed1, rows, d), dense(w.qkv, 3*d, d).T(), false)
	e.watch.mark(&parts.MatMul)
	e.attention.forward(b.Windows, b.T, act)
	e.watch.mark(&parts.Attention)
	e.gemm.Mul(dense(e.mem.x, rows, d), dense(act.mixed, rows, d), dense(w.out, d, d).T(), true)
	e.watch.mark(&parts.MatMul)
}

// mlpForward is x = x + fc2 · act(fc1 · norm(x)).
func (e *Engine) mlpForward(rows int, w *layerWeights, act *layerActivations) {
	d, parts := e.config.DModel, &e.watch.parts
	e.norm.forward(rows, act.normed2, act.inverse2, e.mem.x)
	e.watch.mark(&parts.Pointwise)
	hidden := dense(act.hidden, rows, 4*d)
	e.gemm.Mul(hidden, dense(act.normed2, rows, d), dense(w.fc1, 4*d, d).T(), false)
	e.gemm.Run(kernel.Product{C: dense(e.mem.x, rows, d), A: hidden, OfA: e.act.of, B: dense(w.fc2, d, 4*d).T(), Add: true})
	e.watch.mark(&parts.MatMul)
}

// finalNorm leaves what lm_head multiplies in mem.final.
func (e *Engine) finalNorm(rows int) {
	if e.config.FinalNorm {
		e.norm.forward(rows, e.mem.final, e.mem.finalInverse, e.mem.x)
		e.watch.mark(&e.watch.parts.Pointwise)
	}
}

// head returns the loss, one block of rows of the logits after the other. With a
// gradient it sets that of lm_head, or adds to it, blocks in order, and leaves the gradient
// of mem.final in mem.dx.
func (e *Engine) head(b model.Batch, g *gradient, add bool) model.Loss {
	rows, d, v, parts := b.Windows*b.T, e.config.DModel, e.config.Vocab, &e.watch.parts
	e.finalNorm(rows)
	weight := dense(e.params.head, v, d)
	for lo := 0; lo < rows; lo += headRows {
		n := min(headRows, rows-lo)
		logits, x := lined(e.mem.logits, n, v), dense(e.mem.final[lo*d:], n, d)
		e.gemm.Mul(logits, x, weight.T(), false)
		e.watch.mark(&parts.MatMul)
		e.entropy.run(b, lo, logits, g != nil)
		e.watch.mark(&parts.CrossEntropy)
		if g != nil {
			e.gemm.Mul(dense(g.head, v, d), logits.T(), x, add || lo > 0)
			e.gemm.Mul(dense(e.mem.dx[lo*d:], n, d), logits, weight, false)
			e.watch.mark(&parts.MatMul)
		}
	}
	return model.Loss{Sum: e.entropy.sum(rows), Tokens: int64(rows)}
}
