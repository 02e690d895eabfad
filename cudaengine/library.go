//go:build cuda && cgo && linux

package cudaengine

import (
	"fmt"

	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
	"andrea/model"
)

// workspaceBytes is what the library of products may use, by its makers' advice for Hopper. Part of the bits: it bounds which
// algorithms there are.
const workspaceBytes = 32 << 20

// version opens the library of products where the options ask for it, and returns its version; empty: it is not wanted.
func (o Options) version() (string, error) {
	if o.GEMM != CuBLASLt {
		return "", nil
	}
	return driver.LibraryVersion()
}

// startLibrary starts the library of products and plans all products of whole microbatches, so that what it cannot
// compute is known before the first step. The engine's text names the algorithms.
func (e *engine) startLibrary(version string) (err error) {
	if e.library, err = e.device.NewProducts(e.mem.workspace, workspaceBytes); err != nil {
		return err
	}
	e.compute.dry = true
	p := e.newPass(model.Batch{Windows: e.options.Microbatch, T: e.config.Context})
	p.forward(func(int) int { return 0 })
	p.head(nil)
	if e.options.trains() {
		gradient := view(e.config, e.layout, e.mem.slots[0], words)
		p.head(&gradient)
		p.layersBackward(&gradient)
	}
	e.compute.dry = false
	e.info.Device += fmt.Sprintf(", products by cuBLASLt %s: %d algorithms, together %016x", version, e.library.Planned(), e.library.Digest())
	return e.compute.err // what is not queued need not be waited for
}

// productByLibrary is product by cuBLASLt. Activations follow as kernels of their own, which read the sums before they are
// rounded.
func (p *pass) productByLibrary(l layout, c, a, b matrix, aux driver.Pointer, m, n, k, epilogue int) {
	sums := c
	act := epilogue >= kernels.StoreReLU
	if act && p.mem.sumsBefore != 0 {
		sums = matrix{p.mem.sumsBefore, n}
	}
	whole := act || epilogue == kernels.StoreFP32 || epilogue == kernels.AddFP32
	p.multiply(l, sums, a, b, m, n, k, whole, epilogue == kernels.AddFP32)
	size := kernels.Sizes{Count: m * n}
	switch epilogue {
	case kernels.StoreReLU, kernels.StoreReLU2:
		p.compute.launch(p.kernels.actForward, size, c.at, sums.at, driver.Int(m*n), p.activationKind())
	case kernels.StoreReLUBackward, kernels.StoreReLU2Backward:
		p.compute.launch(p.kernels.actBackward, size, c.at, sums.at, aux, driver.Int(m*n), p.activationKind())
	}
}

// multiply plans and queues a product whose result is float32 if it is whole, or else of the engine's precision.
func (p *pass) multiply(l layout, c, a, b matrix, m, n, k int, whole, add bool) {
	half, out := p.options.Precision == BF16, p.bytes
	if whole {
		out = words
	}
	s := driver.Shape{
		M: m, N: n, K: k, LDA: a.stride, LDB: b.stride, LDC: c.stride, TurnA: l == tn, TurnB: l == nt, HalfIn: half, HalfOut: half && !whole,
		AlignA: alignment(a, p.bytes), AlignB: alignment(b, p.bytes), AlignC: alignment(c, out),
	}
	if err := p.library.Plan(s); err != nil {
		p.compute.fail(err)
		return
	}
	p.compute.issue(func() error { return p.library.Multiply(p.compute.stream, s, c.at, a.at, b.at, add) })
}

// activationKind is the model's nonlinearity as the kernels of activations count them.
func (p *pass) activationKind() driver.Slot {
	return driver.Int(p.activation(kernels.ReLU, kernels.ReLU2))
}

// alignment is what the addresses of all rows of a matrix are multiples of, in bytes, up to 16: more the kernels of this
// program do not promise either.
func alignment(x matrix, bytes int64) int {
	common := uint64(x.at) | uint64(int64(x.stride)*bytes) | 16
	return int(common & -common)
}
