package cpuengine

import (
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/cpuengine/internal/pool"
	"andrea/enginetest"
	"andrea/model"
)

// newDevice returns a device of its own with three workers.
func newDevice(t testing.TB, path *kernel.Path) *device {
	p := pool.New(3)
	t.Cleanup(p.Close)
	return &device{path: path, pool: p, gemm: kernel.NewGemm(path, p)}
}

// operations shows the engine's operations to the suite.
func operations(dev *device) enginetest.Ops {
	ops := enginetest.Ops{
		Norm: func(y, x []float32, d int, eps float32) {
			newNorm(dev, d, eps).forward(len(x)/d, y, make([]float32, len(x)/d), x)
		},
		NormBackward: func(dx, dy, x []float32, d int, eps float32) {
			n, y, inverse := newNorm(dev, d, eps), make([]float32, len(x)), make([]float32, len(x)/d)
			n.forward(len(x)/d, y, inverse, x)
			n.backward(len(x)/d, dx, dy, y, inverse, true)
		},
		Activate: func(y, x []float32, kind model.Activation) {
			newActivation(dev, kind).of(dev.path, y, x)
		},
		ActivateBackward: func(dx, dy, x []float32, kind model.Activation) {
			copy(dx, dy)
			newActivation(dev, kind).backward(dx, x, len(x))(0, 0, 1, len(x))
		},
		MulNT: func(c, a, b []float32, m, n, k int, add bool) {
			dev.gemm.Mul(dense(c, m, n), dense(a, m, k), dense(b, n, k).T(), add)
		},
		MulNN: func(c, a, b []float32, m, n, k int, add bool) {
			dev.gemm.Mul(dense(c, m, n), dense(a, m, k), dense(b, k, n), add)
		},
		MulTN: func(c, a, b []float32, m, n, k int, add bool) {
			dev.gemm.Mul(dense(c, m, n), dense(a, k, m).T(), dense(b, k, n), add)
		},
		CrossEntropy: func(dlogits, logits []float32, targets []uint32, v int) float64 {
			work := append([]float32(nil), logits...)
			c := newCrossEntropy(dev, v, make([]float64, len(targets)))
			c.run(inputs(targets, len(targets), 1), 0, dense(work, len(targets), v), dlogits != nil)
			copy(dlogits, work)
			return c.sum(len(targets))
		},
	}
	addEmbedding(&ops, dev)
	addAttention(&ops, dev)
	return ops
}

// inputs is a batch of windows of t tokens with these tokens from offset on; the
// other token of each window is 0.
func inputs(tokens []uint32, t, offset int) model.Batch {
	b := model.Batch{Windows: len(tokens) / t, T: t, Tokens: make([]uint32, len(tokens)/t*(t+1))}
	for w := range b.Windows {
		copy(b.Window(w)[offset:], tokens[w*t:(w+1)*t])
	}
	return b
}

func addEmbedding(ops *enginetest.Ops, dev *device) {
	ops.Embed = func(x, wte, wpe []float32, tokens []uint32, t, d int) {
		newEmbedding(dev, d, nil).forward(inputs(tokens, t, 0), &weights{token: wte, position: wpe}, x, nil, nil)
	}
	ops.EmbedBackward = func(dwte, dwpe, dx []float32, tokens []uint32, t, d int) {
		newEmbedding(dev, d, nil).backward(inputs(tokens, t, 0), &weights{token: dwte, position: dwpe}, dx)
	}
}

// newHeads returns attention with scratch memory of its own, and what it reads and writes.
func newHeads(dev *device, qkv []float32, h enginetest.Heads) (*attention, *layerActivations) {
	c := model.Config{DModel: h.Width(), NHead: h.Count, Context: h.T}
	tiles := make([]tileScratch, dev.pool.Workers())
	for i := range tiles {
		var count arena
		newTileScratch(&count, c, true)
		tiles[i] = newTileScratch(newArena(count.used), c, true)
	}
	rows := h.Windows * h.T
	return newAttention(dev, c, tiles), &layerActivations{
		qkv: append([]float32(nil), qkv...), mixed: make([]float32, rows*h.Width()),
		rowMax: make([]float32, rows*h.Count), rowInverse: make([]float32, rows*h.Count),
	}
}

func addAttention(ops *enginetest.Ops, dev *device) {
	// forward leaves the statistics that backward needs.
	forward := func(qkv []float32, h enginetest.Heads) (*attention, *layerActivations) {
		a, act := newHeads(dev, qkv, h)
		a.forward(h.Windows, h.T, act)
		return a, act
	}
	ops.Attention = func(out, qkv []float32, h enginetest.Heads) {
		_, act := forward(qkv, h)
		copy(out, act.mixed)
	}
	ops.AttentionBackward = func(dqkv, dout, qkv []float32, h enginetest.Heads) {
		a, act := forward(qkv, h)
		a.backward(h.Windows, h.T, act, dqkv, append([]float32(nil), dout...))
	}
}
