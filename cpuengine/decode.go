package cpuengine

import (
	"fmt"

	"andrea/model"
)

// decoder holds what later tokens need of those read so far: with it a token costs
// one row of every product instead of the whole text.
type decoder struct {
	*Engine
	length int // tokens read
	layers []layerCache
	task   func(worker, i int)

	// The call in progress.
	here  weights // the embeddings, positions from the token's on
	layer *layerCache
	act   *layerActivations // row 0 of qkv and mixed is the token's
}

// layerCache holds the keys and values of one layer.
type layerCache struct {
	keys, values []float32 // [T,d]
}

// Begin forgets what was read, reads 1 to context tokens and writes the logits [V] of
// what follows them into dst. The first call allocates the keys and values of a whole
// context, n_layer·T·2·d_model floats, which stay until Close and are no part of Bytes,
// the memory that New allocates.
func (e *Engine) Begin(tokens []uint32, dst []float32) error {
	if err := e.checkPrompt(tokens, dst); err != nil {
		return err
	}
	if e.decoder == nil {
		e.decoder = newDecoder(e)
	}
	e.decoder.begin(tokens, dst)
	return nil
}

// Next reads one token behind those read since Begin and writes the logits [V] of what
// follows it into dst: the bits that Logits gives for all of them. The weights must be
// those that Begin saw.
func (e *Engine) Next(token uint32, dst []float32) error {
	if e.closed {
		return errClosed
	}
	c, d := e.config, e.decoder
	switch {
	case d == nil:
		return fmt.Errorf("reading a token: id %d: nothing was read before it: call Begin first", token)
	case d.length == c.Context:
		return fmt.Errorf("reading a token: id %d: the context of %d tokens is full: call Begin with fewer", token, c.Context)
	case len(dst) != c.Vocab:
		return fmt.Errorf("reading a token: id %d: %d values for its logits: the model has %d", token, len(dst), c.Vocab)
	case int64(token) >= int64(c.Vocab):
		return fmt.Errorf("reading a token: id %d: the model has %d ids: the text was encoded for another model", token, c.Vocab)
	}
	d.next(token, dst)
	return nil
}

// checkPrompt returns why Begin cannot take its arguments, if so.
func (e *Engine) checkPrompt(tokens []uint32, dst []float32) error {
	if e.closed {
		return errClosed
	}
	c := e.config
	if len(tokens) < 1 || len(tokens) > c.Context || len(dst) != c.Vocab {
		return fmt.Errorf("reading a text: %d tokens, %d values for the logits: the engine takes 1 to %d tokens and %d values", len(tokens), len(dst), c.Context, c.Vocab)
	}
	for i, id := range tokens {
		if int64(id) >= int64(c.Vocab) {
			return fmt.Errorf("reading a text: token %d has id %d: the model has %d ids: the text was encoded for another model", i, id, c.Vocab)
		}
	}
	return nil
}

func newDecoder(e *Engine) *decoder {
	size := e.config.Context * e.config.DModel
	block := newArena(2 * e.config.NLayer * (size + lineFloats))
	d := &decoder{Engine: e, layers: make([]layerCache, e.config.NLayer)}
	for l := range d.layers {
		d.layers[l] = layerCache{keys: block.floats(size), values: block.floats(size)}
	}
	d.task = d.attendHead
	return d
}

// begin runs the forward pass, all layers in the activations of the first, and keeps the
// keys and values of each.
func (d *decoder) begin(tokens []uint32, dst []float32) {
	n := len(tokens)
	d.watch.start()
	inputs := d.prompt[:n+1]
	copy(inputs, tokens) // the last one is a target, which nothing reads here
	batch, act := model.Batch{Windows: 1, T: n, Tokens: inputs}, &d.mem.layers[0]
	d.embed(batch)
	for l := range d.layers {
		d.layerForward(batch, &d.params.layers[l], act)
		for i := range n {
			d.keep(l, i, act.qkv[i*3*d.config.DModel:])
		}
	}
	d.length = n
	d.finalNorm(n)
	d.rowHead(d.mem.final[(n-1)*d.config.DModel:], dst)
}

// keep stores the keys and values of a position from a row of qkv [3d].
func (d *decoder) keep(layer, position int, qkv []float32) {
	width := d.config.DModel
	cache := &d.layers[layer]
	copy(cache.keys[position*width:(position+1)*width], qkv[width:])
	copy(cache.values[position*width:(position+1)*width], qkv[2*width:])
}

// next is the forward pass of one row.
func (d *decoder) next(token uint32, dst []float32) {
	width, mem, parts := d.config.DModel, d.mem, &d.watch.parts
	d.watch.start()
	inputs := d.prompt[:2]
	inputs[0] = token
	d.here = weights{token: d.params.token, position: d.params.position[d.length*width:]}
	d.embedding.forward(model.Batch{Windows: 1, T: 1, Tokens: inputs}, &d.here, mem.x, mem.embedded, mem.embedInverse)
	d.watch.mark(&parts.Pointwise)
	for l := range d.layers {
		w, act := &d.params.layers[l], &mem.layers[0]
		d.norm.forward(1, act.normed1, act.inverse1, mem.x)
		d.watch.mark(&parts.Pointwise)
		d.mulRow(act.qkv, act.normed1, w.qkv, 3*width, width, false)
		d.watch.mark(&parts.MatMul)
		d.keep(l, d.length, act.qkv)
		d.attend(&d.layers[l], act)
		d.watch.mark(&parts.Attention)
		d.mulRow(mem.x, act.mixed, w.out, width, width, true)
		d.watch.mark(&parts.MatMul)
		d.rowMLP(w, act)
	}
	d.length++
	d.finalNorm(1)
	d.rowHead(mem.final, dst)
}

// rowMLP is mlpForward of one row.
func (d *decoder) rowMLP(w *layerWeights, act *layerActivations) {
	width, mem, parts := d.config.DModel, d.mem, &d.watch.parts
	d.norm.forward(1, act.normed2, act.inverse2, mem.x)
	d.watch.mark(&parts.Pointwise)
	d.mulRow(act.hidden, act.normed2, w.fc1, 4*width, width, false)
	d.watch.mark(&parts.MatMul)
	hidden := act.hidden[:4*width]
	d.Engine.act.of(d.path, hidden, hidden) // nobody needs the argument
	d.watch.mark(&parts.Pointwise)
	d.mulRow(mem.x, hidden, w.fc2, width, 4*width, true)
	d.watch.mark(&parts.MatMul)
}

// rowHead writes the logits of one row x [d].
func (d *decoder) rowHead(x, dst []float32) {
	d.mulRow(dst, x, d.params.head, d.config.Vocab, d.config.DModel, false)
	d.watch.mark(&d.watch.parts.MatMul)
}

// mulRow sets y = w·x, or adds to y, for w [out][in]. As a column the row needs no
// packing of w, which is read once and in place; an element's chain is the same.
func (d *decoder) mulRow(y, x, w []float32, out, in int, add bool) {
	d.gemm.Mul(dense(y, out, 1), dense(w, out, in), dense(x, 1, in).T(), add)
}

// attend computes act.mixed of the newest position from act.qkv, as attention.forward
// does.
func (d *decoder) attend(layer *layerCache, act *layerActivations) {
	d.layer, d.act = layer, act
	d.pool.Each(d.config.NHead, d.task)
}

// attendHead computes one head: the same tiles of keys, one query.
func (d *decoder) attendHead(worker, i int) {
	a, t, position := d.attention, d.config.Context, d.length
	s, from := &a.tiles[worker], i*a.headDim
	q := d.act.qkv[from : from+a.headDim]
	h := headView{
		k:          columns{data: d.layer.keys[from:], stride: a.dModel, width: a.headDim},
		v:          columns{data: d.layer.values[from:], stride: a.dModel, width: a.headDim},
		rowMax:     d.act.rowMax[i*t : (i+1)*t],
		rowInverse: d.act.rowInverse[i*t : (i+1)*t],
	}
	a.path.Scale(q, q, a.scales[0])
	sum := dense(s.sum, 1, a.headDim)
	for key := 0; key <= position; key += keyTile {
		cols := min(keyTile, position+1-key)
		a.gemm.MulLocal(worker, dense(s.scores, cols, 1), h.k.matrix(key, cols), dense(q, 1, a.headDim).T(), false)
		a.softmax(s, h, sum, position, key, cols)
		a.gemm.MulLocal(worker, sum, dense(s.scores, 1, cols), h.v.matrix(key, cols), key > 0)
	}
	a.path.Scale(d.act.mixed[from:from+a.headDim], s.sum[:a.headDim], 1/h.rowInverse[position])
}
