package bench

import (
	"math/rand/v2"
	"time"

	"andrea/cpuengine"
	"andrea/model"
)

// Product is one GEMM of a variant, for productRows tokens.
type Product struct {
	Variant string
	Layer   string // qkv, out, fc1, fc2 or head
	Way     string // forward, input_gradient or weight_gradient
	In, Out int    // width of the layer's input and output
	FLOPs   float64
	Timing
}

// productRows is the number of tokens of the products: one window of the family.
const productRows = 1024

// productsBudget is about how long the products of a variant are timed.
const productsBudget = 15 * time.Second

// products times every GEMM of a variant, in turns.
func products(m *meter, c model.Config) ([]Product, error) {
	d := c.DModel
	var all []Product
	var pieces []func() error
	for _, layer := range []struct {
		name    string
		in, out int
	}{{"qkv", d, 3 * d}, {"out", d, d}, {"fc1", d, 4 * d}, {"fc2", 4 * d, d}, {"head", d, c.Vocab}} {
		l := drawLinear(layer.in, layer.out)
		for _, way := range []struct {
			name string
			run  func(*cpuengine.Linear)
		}{{"forward", m.bench.Forward}, {"input_gradient", m.bench.InputGradient}, {"weight_gradient", m.bench.WeightGradient}} {
			all = append(all, Product{
				Variant: c.Variant, Layer: layer.name, Way: way.name, In: layer.in, Out: layer.out,
				FLOPs: 2 * productRows * float64(layer.in) * float64(layer.out),
			})
			pieces = append(pieces, func() error { way.run(l); return nil })
		}
	}
	timings, err := m.turns(productsBudget, pieces)
	if err != nil {
		return nil, err
	}
	for i, t := range timings {
		all[i].Timing = t
	}
	return all, nil
}

// drawLinear returns a layer with drawn weights and inputs.
func drawLinear(in, out int) *cpuengine.Linear {
	l := cpuengine.NewLinear(productRows, in, out)
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range [][]float32{l.W, l.X, l.Y} {
		for i := range x {
			x[i] = r.Float32() - 0.5
		}
	}
	return l
}
