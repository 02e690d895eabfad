package cpuengine

import "andrea/model"

// layerWeights are the matrices of one layer, each stored [out][in]. wq, wk and wv
// follow one another in the flat vector, so they are one matrix here.
type layerWeights struct {
	qkv []float32 // [3d,d]
	out []float32 // [d,d]
	fc1 []float32 // [4d,d]
	fc2 []float32 // [d,4d]
}

// weights are the tensors of a flat vector: the parameters or a gradient.
type weights struct {
	flat     []float32
	token    []float32 // [V,d] wte
	position []float32 // [T,d] wpe
	layers   []layerWeights
	head     []float32 // [V,d] lm_head
}

// gradient is a slot. Zero only marks it: the first products into it then need not read what
// they would add to, so that whole gradients are neither cleared nor read back.
type gradient struct {
	weights
	fresh bool // it is +0, whatever its memory holds
}

// tensorsOfLayer is how many tensors of the layout a layer has: wq, wk, wv, wo,
// fc1, fc2; before the first layer come wte and wpe.
const tensorsOfLayer = 6

// viewWeights names the parts of a flat vector.
func viewWeights(l model.Layout, flat []float32) weights {
	part := func(first, last int) []float32 {
		return flat[l.Tensors[first].Offset:l.Tensors[last].End()]
	}
	n := len(l.Tensors)
	w := weights{flat: flat, token: part(0, 0), position: part(1, 1), head: part(n-1, n-1)}
	for t := 2; t < n-1; t += tensorsOfLayer {
		w.layers = append(w.layers, layerWeights{
			qkv: part(t, t+2), out: part(t+3, t+3), fc1: part(t+4, t+4), fc2: part(t+5, t+5),
		})
	}
	return w
}
