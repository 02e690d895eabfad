//go:build cuda && cgo && linux

package cudaengine

import (
	"andrea/cudaengine/internal/driver"
	"andrea/model"
)

// layerTensors are the addresses of a layer's matrices, each [out][in].
type layerTensors struct {
	qkv      driver.Pointer // [3d,d]: attn_wq, attn_wk and attn_wv lie one after the other
	out      driver.Pointer // [d,d]
	fc1, fc2 driver.Pointer // [4d,d] and [d,4d]
}

// tensors are the addresses of the tensors of a flat vector.
type tensors struct {
	token, position driver.Pointer // wte and wpe
	layers          []layerTensors
	head            driver.Pointer
}

// How many tensors of the layout stand before the layers, and in each: see model.NewLayout.
const beforeLayers, perLayer = 2, 6

// view places the tensors of a vector whose elements have that many bytes.
func view(c model.Config, l model.Layout, flat driver.Pointer, bytes int64) tensors {
	at := func(i int) driver.Pointer { return element(flat, int64(l.Tensors[i].Offset), bytes) }
	t := tensors{token: at(0), position: at(1), head: at(len(l.Tensors) - 1)}
	for i := range c.NLayer {
		first := beforeLayers + perLayer*i
		t.layers = append(t.layers, layerTensors{qkv: at(first), out: at(first + 3), fc1: at(first + 4), fc2: at(first + 5)})
	}
	return t
}

// element is the address of an element of a vector whose elements have that many bytes.
func element(p driver.Pointer, index, bytes int64) driver.Pointer {
	return p + driver.Pointer(index*bytes)
}
