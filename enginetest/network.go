package enginetest

import "andrea/model"

// tensors are views of a flat vector of the layout, as weights or as gradients.
type tensors[F Float] struct {
	wte, wpe, head []F
	layers         []layer[F]
}

// layer is one transformer layer; wqkv is wq, wk and wv, which follow each other.
type layer[F Float] struct{ wqkv, wo, fc1, fc2 []F }

func view[F Float](cfg model.Config, flat []F) tensors[F] {
	d := cfg.DModel
	take := func(n int) (part []F) {
		part, flat = flat[:n:n], flat[n:]
		return part
	}
	v := tensors[F]{wte: take(cfg.Vocab * d), wpe: take(cfg.Context * d)}
	for range cfg.NLayer {
		v.layers = append(v.layers, layer[F]{
			wqkv: take(3 * d * d), wo: take(d * d), fc1: take(4 * d * d), fc2: take(4 * d * d),
		})
	}
	v.head = take(cfg.Vocab * d)
	return v
}

// network computes the model with the operations of a table.
type network[F Float] struct {
	cfg model.Config
	ops OpTable[F]
}

// trace is what the forward pass keeps for the backward pass: [R, ·] matrices of
// R = windows·T rows.
type trace[F Float] struct {
	windows, t int
	tokens     []uint32 // inputs [R]
	embedded   []F      // wte + wpe
	layers     []layerTrace[F]
	last, head []F // residual stream after the layers, and what enters lm_head
}

// layerTrace keeps the residual stream before either half of a layer (x, mid), and
// inside the halves the normed rows, the projections, and what enters the output
// matrices.
type layerTrace[F Float] struct {
	x, normX, qkv, att []F
	mid, normMid       []F
	pre, act           []F // fc1·norm before and after the activation
}

// inputsAndTargets splits a batch into R inputs and R targets.
func inputsAndTargets(b model.Batch) (inputs, targets []uint32) {
	for w := range b.Windows {
		window := b.Window(w)
		inputs = append(inputs, window[:b.T]...)
		targets = append(targets, window[1:]...)
	}
	return inputs, targets
}

// forward runs the layers over windows of t input tokens.
func (n network[F]) forward(w tensors[F], tokens []uint32, t int) *trace[F] {
	d := n.cfg.DModel
	size := len(tokens) * d
	tr := &trace[F]{windows: len(tokens) / t, t: t, tokens: tokens, embedded: make([]F, size)}
	n.ops.Embed(tr.embedded, w.wte, w.wpe, tokens, t, d)
	x := tr.embedded
	if n.cfg.EmbedNorm {
		x = n.normed(x)
	}
	for _, l := range w.layers {
		lt, next := n.forwardLayer(l, x, tr)
		tr.layers = append(tr.layers, lt)
		x = next
	}
	tr.last, tr.head = x, x
	if n.cfg.FinalNorm {
		tr.head = n.normed(x)
	}
	return tr
}

func (n network[F]) forwardLayer(l layer[F], x []F, tr *trace[F]) (lt layerTrace[F], next []F) {
	d, rows := n.cfg.DModel, len(tr.tokens)
	lt.x, lt.normX = x, n.normed(x)
	lt.qkv = make([]F, rows*3*d)
	n.ops.MulNT(lt.qkv, lt.normX, l.wqkv, rows, 3*d, d, false)
	lt.att = make([]F, rows*d)
	n.ops.Attention(lt.att, lt.qkv, n.heads(tr))
	lt.mid = append([]F(nil), x...)
	n.ops.MulNT(lt.mid, lt.att, l.wo, rows, d, d, true)

	lt.normMid = n.normed(lt.mid)
	lt.pre, lt.act = make([]F, rows*4*d), make([]F, rows*4*d)
	n.ops.MulNT(lt.pre, lt.normMid, l.fc1, rows, 4*d, d, false)
	n.ops.Activate(lt.act, lt.pre, n.cfg.Activation)
	next = append([]F(nil), lt.mid...)
	n.ops.MulNT(next, lt.act, l.fc2, rows, d, 4*d, true)
	return lt, next
}

// logits multiplies the last rows of the trace, from row lo on, by lm_head.
func (n network[F]) logits(w tensors[F], tr *trace[F], lo, hi int) []F {
	d, v := n.cfg.DModel, n.cfg.Vocab
	out := make([]F, (hi-lo)*v)
	n.ops.MulNT(out, tr.head[lo*d:hi*d], w.head, hi-lo, v, d, false)
	return out
}

// eval returns the loss of a batch.
func (n network[F]) eval(w tensors[F], b model.Batch) model.Loss {
	inputs, targets := inputsAndTargets(b)
	tr := n.forward(w, inputs, b.T)
	sum := n.ops.CrossEntropy(nil, n.logits(w, tr, 0, len(inputs)), targets, n.cfg.Vocab)
	return model.Loss{Sum: sum, Tokens: int64(len(targets))}
}

// accumulate returns the loss of a batch and adds the gradient of its sum to grad.
func (n network[F]) accumulate(grad, w tensors[F], b model.Batch) model.Loss {
	inputs, targets := inputsAndTargets(b)
	tr := n.forward(w, inputs, b.T)
	rows, d, v := len(inputs), n.cfg.DModel, n.cfg.Vocab
	logits := n.logits(w, tr, 0, rows)
	dlogits := make([]F, len(logits))
	sum := n.ops.CrossEntropy(dlogits, logits, targets, v)

	dx := make([]F, rows*d)
	n.ops.MulNN(dx, dlogits, w.head, rows, d, v, false)
	n.ops.MulTN(grad.head, dlogits, tr.head, v, d, rows, true)
	if n.cfg.FinalNorm {
		dx = n.normedBackward(dx, tr.last)
	}
	for i := len(w.layers) - 1; i >= 0; i-- {
		n.backwardLayer(grad.layers[i], w.layers[i], tr.layers[i], dx, tr)
	}
	if n.cfg.EmbedNorm {
		dx = n.normedBackward(dx, tr.embedded)
	}
	n.ops.EmbedBackward(grad.wte, grad.wpe, dx, inputs, b.T, d)
	return model.Loss{Sum: sum, Tokens: int64(len(targets))}
}

// backwardLayer adds the gradients of a layer's weights to g and turns dx, the
// gradient of its output, into that of its input.
func (n network[F]) backwardLayer(g, l layer[F], lt layerTrace[F], dx []F, tr *trace[F]) {
	d, rows := n.cfg.DModel, len(tr.tokens)
	dact, dpre := make([]F, rows*4*d), make([]F, rows*4*d)
	n.ops.MulNN(dact, dx, l.fc2, rows, 4*d, d, false)
	n.ops.MulTN(g.fc2, dx, lt.act, d, 4*d, rows, true)
	n.ops.ActivateBackward(dpre, dact, lt.pre, n.cfg.Activation)
	dnorm := make([]F, rows*d)
	n.ops.MulNN(dnorm, dpre, l.fc1, rows, d, 4*d, false)
	n.ops.MulTN(g.fc1, dpre, lt.normMid, 4*d, d, rows, true)
	n.ops.NormBackward(dx, dnorm, lt.mid, d, F(n.cfg.NormEps))

	datt, dqkv := make([]F, rows*d), make([]F, rows*3*d)
	n.ops.MulNN(datt, dx, l.wo, rows, d, d, false)
	n.ops.MulTN(g.wo, dx, lt.att, d, d, rows, true)
	n.ops.AttentionBackward(dqkv, datt, lt.qkv, n.heads(tr))
	n.ops.MulNN(dnorm, dqkv, l.wqkv, rows, d, 3*d, false)
	n.ops.MulTN(g.wqkv, dqkv, lt.normX, 3*d, d, rows, true)
	n.ops.NormBackward(dx, dnorm, lt.x, d, F(n.cfg.NormEps))
}

func (n network[F]) normed(x []F) []F {
	y := make([]F, len(x))
	n.ops.Norm(y, x, n.cfg.DModel, F(n.cfg.NormEps))
	return y
}

func (n network[F]) normedBackward(dy, x []F) []F {
	dx := make([]F, len(x))
	n.ops.NormBackward(dx, dy, x, n.cfg.DModel, F(n.cfg.NormEps))
	return dx
}

func (n network[F]) heads(tr *trace[F]) Heads {
	return Heads{Windows: tr.windows, T: tr.t, Count: n.cfg.NHead, Dim: n.cfg.HeadDim()}
}
