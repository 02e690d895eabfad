package cpuengine

import "andrea/model"

// layerActivations is what the backward pass of one layer needs of its forward
// pass. R = windows·T rows, d = d_model.
type layerActivations struct {
	normed1    []float32 // [R,d] norm(x) before attention
	inverse1   []float32 // [R] 1/root of that norm
	qkv        []float32 // [R,3d] queries, keys, values
	mixed      []float32 // [R,d] output of attention, heads concatenated
	rowMax     []float32 // [windows,n_head,T] largest score of a query
	rowInverse []float32 // [windows,n_head,T] 1/sum of exp(score - rowMax)
	normed2    []float32 // [R,d] norm(x) before the MLP
	inverse2   []float32 // [R] 1/root of that norm
	hidden     []float32 // [R,4d] fc1·normed2, before the activation
}

// memory is everything an engine allocates but what package kernel packs into.
type memory struct {
	params []float32          // flat vector of the layout
	layers []layerActivations // one per layer; without training a single one

	x            []float32 // [R,d] residual stream
	embedded     []float32 // [R,d] output of embed_norm; nil when it is off
	embedInverse []float32 // [R]; nil when it is off
	final        []float32 // [R,d] output of final_norm; x when it is off
	finalInverse []float32 // [R]; nil when it is off
	logits       []float32 // [headRows,V] one block of rows, each in whole cache lines

	tiles []tileScratch // one per worker

	// Of training, else nil.
	m, v    []float32   // flat vectors of the layout
	slots   [][]float32 // flat gradients
	dx      []float32   // [R,d] gradient of the residual stream
	dnormed []float32   // [R,d] gradient of the output of a norm
	wide    []float32   // [R,4d] gradient of hidden; later of qkv [R,3d] and mixed [R,d]
}

// place hands out the memory of an engine; c and o are valid, o.Threads is set.
func place(a *arena, c model.Config, o Options) *memory {
	d, rows, layers := c.DModel, o.Microbatch*c.Context, 1
	mem := &memory{
		params: a.floats(model.NewLayout(c).Size),
		x:      a.floats(rows * d),
		logits: a.floats(min(rows, headRows) * wholeLines(c.Vocab)),
	}
	if o.trains() {
		layers = c.NLayer
		mem.placeTraining(a, c, o)
	}
	if c.EmbedNorm {
		mem.embedded, mem.embedInverse = a.floats(rows*d), a.floats(rows)
	}
	mem.final = mem.x
	if c.FinalNorm {
		mem.final, mem.finalInverse = a.floats(rows*d), a.floats(rows)
	}
	for range layers {
		mem.layers = append(mem.layers, layerActivations{
			normed1: a.floats(rows * d), inverse1: a.floats(rows),
			qkv: a.floats(rows * 3 * d), mixed: a.floats(rows * d),
			rowMax: a.floats(rows * c.NHead), rowInverse: a.floats(rows * c.NHead),
			normed2: a.floats(rows * d), inverse2: a.floats(rows),
			hidden: a.floats(rows * 4 * d),
		})
	}
	for range o.Threads {
		mem.tiles = append(mem.tiles, newTileScratch(a, c, o.trains()))
	}
	return mem
}

// placeTraining hands out what only training needs, but for the tiles'.
func (mem *memory) placeTraining(a *arena, c model.Config, o Options) {
	size := model.NewLayout(c).Size
	d, rows := c.DModel, o.Microbatch*c.Context
	mem.m, mem.v = a.floats(size), a.floats(size)
	for range o.Slots {
		mem.slots = append(mem.slots, a.floats(size))
	}
	mem.dx, mem.dnormed, mem.wide = a.floats(rows*d), a.floats(rows*d), a.floats(rows*4*d)
}
