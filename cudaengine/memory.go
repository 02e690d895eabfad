//go:build cuda && cgo && linux

package cudaengine

import (
	"fmt"

	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
	"andrea/model"
)

// headRows is how many rows of logits exist at a time. Part of the bits: the gradient of lm_head is added up block by
// block.
const headRows = 8192

// Bytes of the elements of memory.
const (
	words   = 4 // float32 and uint32
	doubles = 8
)

// layerActivations is what the backward pass of one layer needs of its forward pass. R = windows·T rows, d = d_model;
// elements are of the engine's precision unless said otherwise.
type layerActivations struct {
	normed1  driver.Pointer // [R,d] norm(x) before attention
	inverse1 driver.Pointer // [R] float32, 1/root of that norm
	qkv      driver.Pointer // [R,3d] queries, keys, values
	mixed    driver.Pointer // [R,d] output of attention, heads concatenated
	lse      driver.Pointer // [windows,n_head,T] float32, logarithm of the sum of exponentials
	normed2  driver.Pointer // [R,d] norm(x) before the MLP
	inverse2 driver.Pointer // [R] float32
	active   driver.Pointer // [R,4d] act(fc1·normed2)
}

// memory is where everything lies on the device; 0 is what this engine does not have.
type memory struct {
	params driver.Pointer // flat vector of the layout, float32
	half   driver.Pointer // the same in bfloat16, which the products of bf16 read
	layers []layerActivations

	x            driver.Pointer // [R,d] float32, residual stream
	embedded     driver.Pointer // [R,d] float32, output of embed_norm
	embedInverse driver.Pointer // [R] float32
	final        driver.Pointer // [R,d] what lm_head multiplies; x when that has the precision and there is no final_norm
	finalInverse driver.Pointer // [R] float32
	logits       driver.Pointer // [headRows,ld] float32
	dlogits      driver.Pointer // [headRows,ld]; logits in fp32
	loss         driver.Pointer // [R] float64
	total        driver.Pointer // [1] float64
	tokens       driver.Pointer // [windows][T+1] uint32
	workspace    driver.Pointer // of the library of products
	sumsBefore   driver.Pointer // [R,4d] float32, products of that library before their activation; 0 in fp32
	digest       driver.Pointer // [2] uint64

	// Of training.
	m, v    driver.Pointer   // flat vectors
	slots   []driver.Pointer // flat gradients, float32
	sums    driver.Pointer   // [buckets] float64
	dx      driver.Pointer   // [R,d] float32, gradient of the residual stream
	narrow  driver.Pointer   // the same in the engine's precision; dx in fp32
	dnormed driver.Pointer   // [R,d] gradient of the output of a norm
	parts   driver.Pointer   // the parts of one gradient of a weight, float32; see kernels.Parts
	wide    driver.Pointer   // [R,4d] gradient of fc1's output, or of qkv [R,3d] and, behind it, of mixed [R,d]
	delta   driver.Pointer   // [windows,n_head,T] float32
	order   driver.Pointer   // [R] uint32, rows by token
	starts  driver.Pointer   // [R+1] uint32, where a token's rows begin in order
	ids     driver.Pointer   // [R] uint32, the tokens
}

// plan is memory before it has addresses.
type plan struct {
	config  model.Config
	options Options
	driver  *driver.Plan
	set     []func(driver.Arena)
	mem     memory
}

// newPlan plans the memory of a valid shape.
func newPlan(c model.Config, o Options, to *driver.Plan) *plan {
	p := &plan{config: c, options: o, driver: to}
	size, rows, d := int64(model.NewLayout(c).Size), p.rows(), int64(c.DModel)
	p.add(&p.mem.params, "weights", size*words)
	if o.Precision == BF16 {
		p.add(&p.mem.half, "weights in bf16", size*p.element())
	}
	p.add(&p.mem.x, "residual stream", rows*d*words)
	if c.EmbedNorm {
		p.add(&p.mem.embedded, "embeddings", rows*d*words)
		p.add(&p.mem.embedInverse, "statistics", rows*words)
	}
	p.addHead()
	p.add(&p.mem.tokens, "tokens", int64(o.Microbatch)*int64(c.Context+1)*words)
	p.add(&p.mem.digest, "digest", 2*doubles)
	if o.GEMM == CuBLASLt {
		p.add(&p.mem.workspace, "workspace of cuBLASLt", workspaceBytes)
		if o.Precision == BF16 {
			p.add(&p.mem.sumsBefore, "products before activations", rows*4*d*words)
		}
	}
	layers := 1
	if o.trains() {
		layers = c.NLayer
		p.addTraining(size)
	}
	p.mem.layers = make([]layerActivations, layers)
	for l := range p.mem.layers {
		p.addLayer(&p.mem.layers[l])
	}
	return p
}

// rows is the most rows of a batch.
func (p *plan) rows() int64 { return int64(p.options.Microbatch) * int64(p.config.Context) }

// element is the size of an element of the engine's precision, in bytes.
func (p *plan) element() int64 { return elementBytes(p.options.Precision) }

func elementBytes(precision string) int64 {
	if precision == BF16 {
		return 2
	}
	return 4
}

// add plans a region whose address goes to *to.
func (p *plan) add(to *driver.Pointer, name string, bytes int64) {
	r := p.driver.Add(name, bytes)
	p.set = append(p.set, func(a driver.Arena) { *to = a.At(r) })
}

func (p *plan) addHead() {
	rows, d := p.rows(), int64(p.config.DModel)
	chunk := min(rows, headRows) * int64(paddedVocab(p.config.Vocab))
	if p.config.FinalNorm || p.options.Precision == BF16 {
		p.add(&p.mem.final, "input of lm_head", rows*d*p.element())
	}
	if p.config.FinalNorm {
		p.add(&p.mem.finalInverse, "statistics", rows*words)
	}
	p.add(&p.mem.logits, "logits", chunk*words)
	if p.options.Precision == BF16 && p.options.trains() {
		p.add(&p.mem.dlogits, "gradient of the logits", chunk*p.element())
	}
	p.add(&p.mem.loss, "losses", rows*doubles)
	p.add(&p.mem.total, "loss", doubles)
}

// parts is the most elements that the parts of one gradient of a weight have; 0 if none is cut.
func (p *plan) parts() (most int64) {
	if p.options.GEMM == CuBLASLt {
		return 0 // the library cuts as it likes, in its workspace
	}
	rows, d := int(p.rows()), p.config.DModel
	for _, shape := range [][3]int{{d, d, rows}, {3 * d, d, rows}, {4 * d, d, rows}, {d, 4 * d, rows}, {p.config.Vocab, d, min(rows, headRows)}} {
		if parts := kernels.Parts(shape[0], shape[1], shape[2]); parts > 1 {
			most = max(most, int64(parts)*int64(shape[0])*int64(shape[1]))
		}
	}
	return most
}

func (p *plan) addTraining(size int64) {
	rows, d := p.rows(), int64(p.config.DModel)
	p.add(&p.mem.m, "first moments", size*words)
	p.add(&p.mem.v, "second moments", size*words)
	p.mem.slots = make([]driver.Pointer, p.options.Slots)
	for i := range p.mem.slots {
		p.add(&p.mem.slots[i], fmt.Sprintf("gradient slot %d", i), size*words)
	}
	p.add(&p.mem.sums, "sums of squares", int64(model.NewLayout(p.config).Buckets())*doubles)
	if most := p.parts(); most > 0 {
		p.add(&p.mem.parts, "parts of a gradient", most*words)
	}
	p.add(&p.mem.dx, "gradient of the residual stream", rows*d*words)
	if p.options.Precision == BF16 {
		p.add(&p.mem.narrow, "gradient of the residual stream in bf16", rows*d*p.element())
	}
	p.add(&p.mem.dnormed, "gradients of norms", rows*d*p.element())
	p.add(&p.mem.wide, "gradients inside a layer", rows*4*d*p.element()+driver.Alignment)
	p.add(&p.mem.delta, "statistics", rows*int64(p.config.NHead)*words)
	p.add(&p.mem.order, "rows by token", rows*words)
	p.add(&p.mem.starts, "rows by token", (rows+1)*words)
	p.add(&p.mem.ids, "rows by token", rows*words)
}

func (p *plan) addLayer(a *layerActivations) {
	rows, d, heads := p.rows(), int64(p.config.DModel), int64(p.config.NHead)
	p.add(&a.normed1, "activations of a layer", rows*d*p.element())
	p.add(&a.inverse1, "statistics", rows*words)
	p.add(&a.qkv, "activations of a layer", rows*3*d*p.element())
	p.add(&a.mixed, "activations of a layer", rows*d*p.element())
	p.add(&a.lse, "statistics", rows*heads*words)
	p.add(&a.normed2, "activations of a layer", rows*d*p.element())
	p.add(&a.inverse2, "statistics", rows*words)
	p.add(&a.active, "activations of a layer", rows*4*d*p.element())
}

// at gives the planned memory its addresses.
func (p *plan) at(a driver.Arena) memory {
	for _, set := range p.set {
		set(a)
	}
	if p.mem.final == 0 {
		p.mem.final = p.mem.x
	}
	if p.options.Precision == FP32 {
		p.mem.dlogits, p.mem.narrow = p.mem.logits, p.mem.dx
	}
	return p.mem
}

// paddedVocab is the elements from one row of the logits to the next: products of bf16 want rows that start at
// multiples of 16 bytes.
func paddedVocab(vocab int) int { return (vocab + 63) / 64 * 64 }
