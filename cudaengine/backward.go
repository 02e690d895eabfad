//go:build cuda && cgo && linux

package cudaengine

import (
	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
)

// backward adds to gradient the gradient of everything below the head, whose own is there already.
func (p *pass) backward(gradient *tensors) {
	p.layersBackward(gradient)
	p.embedBackward(gradient)
	p.final(0)
}

// layersBackward is backward down to the embeddings.
func (p *pass) layersBackward(gradient *tensors) {
	tensors := p.layout.Tensors
	p.final(tensors[len(tensors)-1].Offset)
	if p.config.FinalNorm {
		p.normBackward(p.mem.final, p.mem.finalInverse, 0)
	}
	for l := len(p.weights.layers) - 1; l >= 0; l-- {
		w, dw, a := &p.weights.layers[l], &gradient.layers[l], &p.mem.layers[l]
		p.mlpBackward(w, dw, a)
		p.attentionBackward(w, dw, a)
		p.final(tensors[beforeLayers+perLayer*l].Offset)
	}
	if p.config.EmbedNorm {
		p.compute.launch(p.kernels.embedNormBackward, kernels.Sizes{Rows: p.rows}, p.mem.dx, 0, p.mem.dx,
			p.mem.embedded, p.mem.embedInverse, driver.Int(p.rows), driver.Int(p.d), driver.Int(0))
	}
}

// normBackward takes the gradient of a norm's output y from mem.dnormed to mem.dx, adding to it if add is 1, and to
// mem.narrow.
func (p *pass) normBackward(y, inverse driver.Pointer, add int) {
	narrow := p.mem.narrow
	if narrow == p.mem.dx {
		narrow = 0
	}
	p.compute.launch(p.kernels.normBackward, kernels.Sizes{Rows: p.rows}, p.mem.dx, narrow, p.mem.dnormed, y, inverse,
		driver.Int(p.rows), driver.Int(p.d), driver.Int(add))
}

// inputs is C = A[rows,k]·W[k,n]: the gradient of what a weight matrix multiplied.
func (p *pass) inputs(c, a, w driver.Pointer, n, k int, aux driver.Pointer, epilogue int) {
	p.product(nn, matrix{c, n}, matrix{a, k}, matrix{w, n}, aux, p.rows, n, k, epilogue)
}

// addWeights adds A[rows,m]ᵀ·B[rows,n] to a gradient [m,n].
func (p *pass) addWeights(dw, a, b driver.Pointer, m, n int) {
	p.addProduct(dw, matrix{a, m}, matrix{b, n}, m, n, p.rows)
}

// addProduct adds A[k,m]ᵀ·B[k,n] to a gradient [m,n]. Where k is long and the gradient small, the sums are cut into
// parts, which many blocks compute at the same time.
func (p *pass) addProduct(dw driver.Pointer, a, b matrix, m, n, k int) {
	parts := kernels.Parts(m, n, k)
	if parts == 1 || p.library != nil {
		p.product(tn, matrix{dw, n}, a, b, 0, m, n, k, kernels.AddFP32)
		return
	}
	p.compute.launch(p.kernels.mul[tn], kernels.Sizes{M: m, N: n, Parts: parts}, p.mem.parts, a.at, b.at, 0,
		driver.Int(m), driver.Int(n), driver.Int(k), driver.Int(a.stride), driver.Int(b.stride), driver.Int(n), driver.Int(kernels.StoreFP32))
	p.compute.launch(p.kernels.addParts, kernels.Sizes{Count: m * n}, dw, p.mem.parts, driver.Int(m*n), driver.Int(parts))
}

// mlpBackward takes mem.dx from the output to the input of the MLP and adds the gradients of its weights to dw.
func (p *pass) mlpBackward(w, dw *layerTensors, a *layerActivations) {
	d, dx, dh := p.d, p.mem.narrow, p.mem.wide
	p.inputs(dh, dx, w.fc2, 4*d, d, a.active, p.activation(kernels.StoreReLUBackward, kernels.StoreReLU2Backward))
	p.addWeights(dw.fc2, dx, a.active, d, 4*d)
	p.addWeights(dw.fc1, dh, a.normed2, 4*d, d)
	p.inputs(p.mem.dnormed, dh, w.fc1, d, 4*d, 0, kernels.Store)
	p.normBackward(a.normed2, a.inverse2, 1)
}

// attentionBackward takes mem.dx from the output to the input of attention and adds the gradients of its weights to
// dw.
func (p *pass) attentionBackward(w, dw *layerTensors, a *layerActivations) {
	d, dx, dqkv := p.d, p.mem.narrow, p.mem.wide
	aligned := (int64(p.rows)*3*int64(d)*p.bytes + driver.Alignment - 1) / driver.Alignment * driver.Alignment
	dmixed := dqkv + driver.Pointer(aligned)
	p.addWeights(dw.out, dx, a.mixed, d, d)
	p.inputs(dmixed, dx, w.out, d, d, 0, kernels.Store)

	t, heads, headDim := driver.Int(p.batch.T), driver.Int(p.config.NHead), driver.Int(p.config.HeadDim())
	p.compute.launch(p.kernels.attentionDelta, p.headSizes(), p.mem.delta, dmixed, a.mixed, driver.Int(p.rows), t, heads, headDim)
	for _, k := range []kernel{p.kernels.attentionKeys, p.kernels.attentionQueries} {
		p.compute.launch(k, p.headSizes(), dqkv, dmixed, a.qkv, a.lse, p.mem.delta, t, heads, headDim, p.scale())
	}

	p.addWeights(dw.qkv, dqkv, a.normed1, 3*d, d)
	p.inputs(p.mem.dnormed, dqkv, w.qkv, d, 3*d, 0, kernels.Store)
	p.normBackward(a.normed1, a.inverse1, 1)
}

// embedBackward adds the gradients of both tables. The host sorts the rows by token while the device is busy with all
// that was queued before, and the copies stream brings the result.
func (p *pass) embedBackward(gradient *tensors) {
	count := p.sorter.sort(p.batch, p.host.order.Words(), p.host.starts.Words(), p.host.ids.Words())
	p.copies.in(p.mem.order, p.host.order, int64(p.rows)*words)
	p.copies.in(p.mem.starts, p.host.starts, int64(count+1)*words)
	p.copies.in(p.mem.ids, p.host.ids, int64(count)*words)
	p.computeAfterCopies()
	p.compute.launch(p.kernels.embedTokens, kernels.Sizes{Count: count, Width: p.d},
		gradient.token, p.mem.dx, p.mem.order, p.mem.starts, p.mem.ids, driver.Int(count), driver.Int(p.d))
	p.compute.launch(p.kernels.embedPositions, kernels.Sizes{T: p.batch.T, Width: p.d},
		gradient.position, p.mem.dx, driver.Int(p.batch.Windows), driver.Int(p.batch.T), driver.Int(p.d))
}
