package kernels_test

import (
	"math"
	"slices"
	"testing"

	"andrea/enginetest"
	"andrea/kernels"
	"andrea/model"
)

// TestOpsInFloat32 runs the suite of engines over the kernels of the parity mode.
func TestOpsInFloat32(t *testing.T) {
	d := start(t, plain(t))
	enginetest.RunOps(t, ops(d))
}

// ops are the fp32 kernels as the suite calls operations.
func ops(d *device) enginetest.Ops {
	return enginetest.Ops{
		Embed: func(x, wte, wpe []float32, tokens []uint32, t, width int) {
			defer d.free()
			out := room[float32](d, len(x))
			d.run("embed_forward", kernels.Sizes{Rows: len(tokens)}, out, buffer{}, buffer{}, upload(d, wte), upload(d, wpe), upload(d, windows(tokens, t)), len(tokens), t, width, float32(0))
			copy(x, download[float32](d, out))
		},
		EmbedBackward: func(dwte, dwpe, dx []float32, tokens []uint32, t, width int) {
			embedBackward(d, dwte, dwpe, dx, tokens, t, width)
		},
		Norm: func(y, x []float32, width int, eps float32) {
			defer d.free()
			out, rows := room[float32](d, len(y)), len(x)/width
			d.run("norm_forward_fp32", kernels.Sizes{Rows: rows}, out, room[float32](d, rows), upload(d, x), rows, width, eps)
			copy(y, download[float32](d, out))
		},
		NormBackward: func(dx, dy, x []float32, width int, eps float32) {
			defer d.free()
			rows, out := len(x)/width, upload(d, dx)
			y, inverse := room[float32](d, len(x)), room[float32](d, rows)
			d.run("norm_forward_fp32", kernels.Sizes{Rows: rows}, y, inverse, upload(d, x), rows, width, eps)
			d.run("norm_backward_fp32", kernels.Sizes{Rows: rows}, out, buffer{}, upload(d, dy), y, inverse, rows, width, 1)
			copy(dx, download[float32](d, out))
		},
		MulNT: mul(d, "gemm_nt_fp32", func(m, n, k int) (lda, ldb int) { return k, k }),
		MulNN: mul(d, "gemm_nn_fp32", func(m, n, k int) (lda, ldb int) { return k, n }),
		MulTN: mul(d, "gemm_tn_fp32", func(m, n, k int) (lda, ldb int) { return m, n }),
		Attention: func(out, qkv []float32, h enginetest.Heads) {
			defer d.free()
			mixed, _ := attention(d, "fp32", upload(d, qkv), h)
			copy(out, download[float32](d, mixed))
		},
		AttentionBackward: func(dqkv, dout, qkv []float32, h enginetest.Heads) {
			defer d.free()
			copy(dqkv, download[float32](d, attentionBackward(d, "fp32", upload(d, qkv), upload(d, dout), h)))
		},
		Activate: func(y, x []float32, act model.Activation) {
			defer d.free()
			b := upload(d, x)
			d.run("act_forward_fp32", kernels.Sizes{Count: len(x)}, b, b, len(x), kind(act))
			copy(y, download[float32](d, b))
		},
		ActivateBackward: func(dx, dy, x []float32, act model.Activation) {
			defer d.free()
			y, g, s := upload(d, x), upload(d, dy), kernels.Sizes{Count: len(x)}
			d.run("act_forward_fp32", s, y, y, len(x), kind(act))
			d.run("act_backward_fp32", s, g, g, y, len(x), kind(act))
			copy(dx, download[float32](d, g))
		},
		CrossEntropy: func(dlogits, logits []float32, targets []uint32, v int) float64 {
			return crossEntropy(d, dlogits, logits, targets, v)
		},
	}
}

func kind(act model.Activation) int {
	if act == model.ReLU {
		return kernels.ReLU
	}
	return kernels.ReLU2
}

// windows lays inputs out as a batch does, with a target behind every window.
func windows(tokens []uint32, t int) (out []uint32) {
	for w := range slices.Chunk(tokens, t) {
		out = append(append(out, w...), 0)
	}
	return out
}

func mul(d *device, name string, strides func(m, n, k int) (lda, ldb int)) func(c, a, b []float32, m, n, k int, add bool) {
	return func(c, a, b []float32, m, n, k int, add bool) {
		defer d.free()
		epilogue := kernels.Store
		if add {
			epilogue = kernels.AddFP32
		}
		lda, ldb := strides(m, n, k)
		out := upload(d, c)
		d.run(name, kernels.Sizes{M: m, N: n}, out, upload(d, a), upload(d, b), buffer{}, m, n, k, lda, ldb, n, epilogue)
		copy(c, download[float32](d, out))
	}
}

// sorted groups rows by token as the engine does: rows in the order of their tokens, where each token's begin, and the
// tokens.
func sorted(tokens []uint32) (order, starts, ids []uint32) {
	for r := range tokens {
		order = append(order, uint32(r))
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return int(tokens[a]) - int(tokens[b]) })
	for i, r := range order {
		if i == 0 || tokens[r] != ids[len(ids)-1] {
			starts, ids = append(starts, uint32(i)), append(ids, tokens[r])
		}
	}
	return order, append(starts, uint32(len(order))), ids
}

func embedBackward(d *device, dwte, dwpe, dx []float32, tokens []uint32, t, width int) {
	defer d.free()
	order, starts, ids := sorted(tokens)
	te, pe, g := upload(d, dwte), upload(d, dwpe), upload(d, dx)
	d.run("embed_tokens", kernels.Sizes{Count: len(ids), Width: width}, te, g, upload(d, order), upload(d, starts), upload(d, ids), len(ids), width)
	d.run("embed_positions", kernels.Sizes{T: t, Width: width}, pe, g, len(tokens)/t, t, width)
	copy(dwte, download[float32](d, te))
	copy(dwpe, download[float32](d, pe))
}

// attentionSizes are what the grid rules of attention read.
func attentionSizes(h enginetest.Heads) kernels.Sizes {
	return kernels.Sizes{Windows: h.Windows, T: h.T, Heads: h.Count, HeadDim: h.Dim, Rows: h.Windows * h.T}
}

func scaleOf(h enginetest.Heads) float32 { return float32(1 / math.Sqrt(float64(h.Dim))) }

// attention runs the forward kernel of a precision ("fp32", "bf16", "d64_bf16", ...).
func attention(d *device, precision string, qkv buffer, h enginetest.Heads) (mixed, lse buffer) {
	lse = room[float32](d, h.Windows*h.Count*h.T)
	mixed = room[byte](d, qkv.size/3)
	d.run("attention_forward_"+precision, attentionSizes(h), mixed, lse, qkv, h.T, h.Count, h.Dim, scaleOf(h))
	return mixed, lse
}

// attentionBackward runs forward and all of backward.
func attentionBackward(d *device, precision string, qkv, dmixed buffer, h enginetest.Heads) buffer {
	s := attentionSizes(h)
	mixed, lse := attention(d, precision, qkv, h)
	delta, dqkv := room[float32](d, lse.size/4), room[byte](d, qkv.size)
	d.run("attention_delta_"+precision[len(precision)-4:], s, delta, dmixed, mixed, s.Rows, h.T, h.Count, h.Dim)
	d.run("attention_keys_"+precision, s, dqkv, dmixed, qkv, lse, delta, h.T, h.Count, h.Dim, scaleOf(h))
	d.run("attention_queries_"+precision, s, dqkv, dmixed, qkv, lse, delta, h.T, h.Count, h.Dim, scaleOf(h))
	return dqkv
}

// crossEntropy gives every row a window of its own, so that the tokens are pairs of nothing and the target.
func crossEntropy(d *device, dlogits, logits []float32, targets []uint32, v int) float64 {
	defer d.free()
	rows, ld := len(targets), (v+63)/64*64
	padded := make([]float32, rows*ld)
	tokens := make([]uint32, 2*rows)
	for r := range rows {
		copy(padded[r*ld:], logits[r*v:(r+1)*v])
		tokens[2*r+1] = targets[r]
	}
	x, losses, sum := upload(d, padded), room[float64](d, rows), room[float64](d, 1)
	gradient := x
	if dlogits == nil {
		gradient = buffer{}
	}
	d.run("cross_entropy_fp32", kernels.Sizes{Rows: rows}, losses, gradient, x, upload(d, tokens), 0, rows, 1, v, ld)
	d.run("loss_sum", kernels.Sizes{}, sum, losses, rows)
	for r, row := range slices.Collect(slices.Chunk(download[float32](d, x), ld)) {
		if dlogits != nil {
			copy(dlogits[r*v:(r+1)*v], row)
		}
	}
	return download[float64](d, sum)[0]
}
