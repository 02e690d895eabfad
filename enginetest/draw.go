package enginetest

import (
	"math"
	"math/rand/v2"

	"andrea/model"
)

// State is the weights and moments of a replica, flat in the order of the layout.
type State struct{ W, M, V []float32 }

// DrawState draws a state in which every tensor is non-zero (the product's initial
// weights zero two of them, and with these four gradients), of a size that keeps
// the activations near 1. The moments are those of a run under way. The same bits
// on every machine for one seed.
func DrawState(cfg model.Config, seed uint64) State {
	l := model.NewLayout(cfg)
	s := State{make([]float32, l.Size), make([]float32, l.Size), make([]float32, l.Size)}
	rng := source(seed)
	for _, t := range l.Tensors {
		amplitude := math.Sqrt(3 / float64(cfg.DModel))
		if t.Name == "wte" || t.Name == "wpe" {
			amplitude = 1
		}
		for i := t.Offset; i < t.End(); i++ {
			s.W[i] = symmetric(rng, amplitude)
			s.M[i] = symmetric(rng, 0.5)
			s.V[i] = 0.25 + float32(rng.Float64())
		}
	}
	return s
}

// DrawBatch draws uniformly random tokens.
func DrawBatch(cfg model.Config, windows, t int, seed uint64) model.Batch {
	return model.Batch{Windows: windows, T: t, Tokens: drawTokens(cfg.Vocab, windows*(t+1), seed)}
}

func drawTokens(vocab, n int, seed uint64) []uint32 {
	rng := source(seed)
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(rng.IntN(vocab))
	}
	return tokens
}

// drawVector draws n values uniformly from -amplitude to amplitude.
func drawVector(n int, amplitude float64, seed uint64) []float32 {
	rng := source(seed)
	x := make([]float32, n)
	for i := range x {
		x[i] = symmetric(rng, amplitude)
	}
	return x
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x656e67696e65)) }

func symmetric(rng *rand.Rand, amplitude float64) float32 {
	return float32(amplitude * (2*rng.Float64() - 1))
}

// convert copies x to another precision.
func convert[To, From Float](x []From) []To {
	y := make([]To, len(x))
	for i, f := range x {
		y[i] = To(f)
	}
	return y
}
