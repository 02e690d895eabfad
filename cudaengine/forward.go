//go:build cuda && cgo && linux

package cudaengine

import (
	"math"

	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
	"andrea/model"
)

// pass is one run over a batch: the engine with the numbers that its kernels take.
type pass struct {
	*engine
	batch   model.Batch
	rows, d int
	weights tensors // what products read, in the engine's precision
	masters tensors // float32
	bytes   int64   // of an element of the engine's precision
	reveal  *reveal // nil: nobody waits for buckets
}

func (e *engine) newPass(b model.Batch) pass {
	p := pass{engine: e, batch: b, rows: b.Windows * b.T, d: e.config.DModel, bytes: elementBytes(e.options.Precision)}
	p.masters = view(e.config, e.layout, e.mem.params, words)
	p.weights = p.masters
	if e.mem.half != 0 {
		p.weights = view(e.config, e.layout, e.mem.half, p.bytes)
	}
	return p
}

// layout says how the operands of a product lie; see the table of package kernels.
type layout int

const (
	nt layout = iota // A[M,K]·B[N,K]ᵀ
	nn               // A[M,K]·B[K,N]
	tn               // A[K,M]ᵀ·B[K,N]
)

// matrix is an operand of a product: row-major, with the elements from one row to the next.
type matrix struct {
	at     driver.Pointer
	stride int
}

// product queues C = A·B in one of three layouts: m rows and n columns of C, k products an element.
func (p *pass) product(l layout, c, a, b matrix, aux driver.Pointer, m, n, k, epilogue int) {
	if p.library != nil {
		p.productByLibrary(l, c, a, b, aux, m, n, k, epilogue)
		return
	}
	p.compute.launch(p.kernels.mul[l], kernels.Sizes{M: m, N: n}, c.at, a.at, b.at, aux,
		driver.Int(m), driver.Int(n), driver.Int(k), driver.Int(a.stride), driver.Int(b.stride), driver.Int(c.stride), driver.Int(epilogue))
}

// nt is C = A[m,k]·B[n,k]ᵀ of matrices without gaps: activations times weights.
func (p *pass) nt(c, a, b driver.Pointer, m, n, k, epilogue int) {
	p.product(nt, matrix{c, n}, matrix{a, k}, matrix{b, k}, 0, m, n, k, epilogue)
}

// forward leaves the residual stream after the last layer in mem.x. Layer l keeps its activations in
// mem.layers[keep(l)].
func (p *pass) forward(keep func(layer int) int) {
	p.embed()
	for l := range p.weights.layers {
		w, a := &p.weights.layers[l], &p.mem.layers[keep(l)]
		p.attentionForward(w, a)
		p.mlpForward(w, a)
	}
}

// embed takes the batch's tokens to the device and starts the residual stream.
func (p *pass) embed() {
	n := copy(p.host.tokens.Words(), p.batch.Tokens)
	p.compute.in(p.mem.tokens, p.host.tokens, int64(n)*words)
	p.compute.launch(p.kernels.embedForward, kernels.Sizes{Rows: p.rows},
		p.mem.x, p.mem.embedded, p.mem.embedInverse, p.masters.token, p.masters.position, p.mem.tokens,
		driver.Int(p.rows), driver.Int(p.batch.T), driver.Int(p.d), driver.Float(p.config.NormEps))
}

// norm queues y = norm(x) of the residual stream.
func (p *pass) norm(y, inverse driver.Pointer) {
	p.compute.launch(p.kernels.normForward, kernels.Sizes{Rows: p.rows},
		y, inverse, p.mem.x, driver.Int(p.rows), driver.Int(p.d), driver.Float(p.config.NormEps))
}

// attentionForward is x = x + wo · attention(norm(x)).
func (p *pass) attentionForward(w *layerTensors, a *layerActivations) {
	p.norm(a.normed1, a.inverse1)
	p.nt(a.qkv, a.normed1, w.qkv, p.rows, 3*p.d, p.d, kernels.Store)
	p.compute.launch(p.kernels.attentionForward, p.headSizes(), a.mixed, a.lse, a.qkv,
		driver.Int(p.batch.T), driver.Int(p.config.NHead), driver.Int(p.config.HeadDim()), p.scale())
	p.nt(p.mem.x, a.mixed, w.out, p.rows, p.d, p.d, kernels.AddFP32)
}

// mlpForward is x = x + fc2 · act(fc1 · norm(x)).
func (p *pass) mlpForward(w *layerTensors, a *layerActivations) {
	p.norm(a.normed2, a.inverse2)
	p.nt(a.active, a.normed2, w.fc1, p.rows, 4*p.d, p.d, p.activation(kernels.StoreReLU, kernels.StoreReLU2))
	p.nt(p.mem.x, a.active, w.fc2, p.rows, p.d, 4*p.d, kernels.AddFP32)
}

// activation chooses by the model's nonlinearity.
func (p *pass) activation(relu, relu2 int) int {
	if p.config.Activation == model.ReLU {
		return relu
	}
	return relu2
}

// headSizes are the sizes that attention's grids depend on.
func (p *pass) headSizes() kernels.Sizes {
	return kernels.Sizes{Rows: p.rows, T: p.batch.T, Heads: p.config.NHead, Windows: p.batch.Windows, HeadDim: p.config.HeadDim()}
}

// scale is what scores are multiplied by: 1/sqrt(head_dim).
func (p *pass) scale() driver.Slot {
	return driver.Float(float32(1 / math.Sqrt(float64(p.config.HeadDim()))))
}

// finish leaves what lm_head multiplies in mem.final.
func (p *pass) finish() {
	switch {
	case p.config.FinalNorm:
		p.norm(p.mem.final, p.mem.finalInverse)
	case p.mem.final != p.mem.x:
		p.toPrecision(p.mem.final, p.mem.x, p.rows*p.d)
	}
}

// toPrecision converts float32 to bfloat16.
func (p *pass) toPrecision(to, from driver.Pointer, count int) {
	p.compute.launch(p.kernels.narrow, kernels.Sizes{Count: count}, to, from, driver.Int(count))
}
