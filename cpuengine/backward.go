package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// differentiate returns the loss of a checked batch and adds the gradient of its
// sum to g.
func (e *Engine) differentiate(g *gradient, b model.Batch) model.Loss {
	e.watch.start()
	add := !g.fresh
	if g.fresh {
		g.fresh = false
		e.clear(g.flat, e.optimizer.tables)
	}
	e.forward(b, func(layer int) int { return layer })
	loss := e.head(b, g, add)
	rows, mem, parts := b.Windows*b.T, e.mem, &e.watch.parts
	e.reveal.down(e.layout.Tensors[len(e.layout.Tensors)-1].Offset)
	if e.config.FinalNorm {
		e.norm.backward(rows, mem.dx, mem.dx, mem.final, mem.finalInverse, false)
	}
	for l := len(e.params.layers) - 1; l >= 0; l-- {
		w, dw, act := &e.params.layers[l], &g.layers[l], &mem.layers[l]
		e.mlpBackward(rows, w, dw, act, add)
		e.attentionBackward(b, w, dw, act, add)
		e.reveal.down(e.layout.Tensors[2+l*tensorsOfLayer].Offset)
	}
	if e.config.EmbedNorm {
		e.norm.backward(rows, mem.dx, mem.dx, mem.embedded, mem.embedInverse, false)
	}
	e.embedding.backward(b, &g.weights, mem.dx)
	e.reveal.down(0)
	e.watch.mark(&parts.Pointwise)
	return loss
}

// mlpBackward takes mem.dx from the output to the input of the MLP and sets dw to the
// gradients of its weights, or adds them.
func (e *Engine) mlpBackward(rows int, w, dw *layerWeights, act *layerActivations, add bool) {
	d, mem, parts := e.config.DModel, e.mem, &e.watch.parts
	dx, dh := dense(mem.dx, rows, d), dense(mem.wide, rows, 4*d)
	e.gemm.Run(kernel.Product{C: dh, A: dx, B: dense(w.fc2, d, 4*d), Then: e.act.backward(mem.wide, act.hidden, 4*d)})
	e.gemm.Run(kernel.Product{C: dense(dw.fc2, d, 4*d), A: dx.T(), B: dense(act.hidden, rows, 4*d), OfB: e.act.of, Add: add})
	e.gemm.Mul(dense(dw.fc1, 4*d, d), dh.T(), dense(act.normed2, rows, d), add)
	e.gemm.Mul(dense(mem.dnormed, rows, d), dh, dense(w.fc1, 4*d, d), false)
	e.watch.mark(&parts.MatMul)
	e.norm.backward(rows, mem.dx, mem.dnormed, act.normed2, act.inverse2, true)
	e.watch.mark(&parts.Pointwise)
}

// attentionBackward takes mem.dx from the output to the input of attention and sets dw to
// the gradients of its weights, or adds them.
func (e *Engine) attentionBackward(b model.Batch, w, dw *layerWeights, act *layerActivations, add bool) {
	rows, d, mem, parts := b.Windows*b.T, e.config.DModel, e.mem, &e.watch.parts
	dx := dense(mem.dx, rows, d)
	dqkv, dmixed := mem.wide[:rows*3*d], mem.wide[rows*3*d:rows*4*d]
	e.gemm.Mul(dense(dw.out, d, d), dx.T(), dense(act.mixed, rows, d), add)
	e.gemm.Mul(dense(dmixed, rows, d), dx, dense(w.out, d, d), false)
	e.watch.mark(&parts.MatMul)
	e.attention.backward(b.Windows, b.T, act, dqkv, dmixed)
	e.watch.mark(&parts.Attention)
	e.gemm.Mul(dense(dw.qkv, 3*d, d), dense(dqkv, rows, 3*d).T(), dense(act.normed1, rows, d), add)
	e.gemm.Mul(dense(mem.dnormed, rows, d), dense(dqkv, rows, 3*d), dense(w.qkv, 3*d, d), false)
	e.watch.mark(&parts.MatMul)
	e.norm.backward(rows, mem.dx, mem.dnormed, act.normed1, act.inverse1, true)
	e.watch.mark(&parts.Pointwise)
}
