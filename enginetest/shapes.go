package enginetest

import (
	"fmt"

	"andrea/model"
)

// shape is one model and one batch that an engine computes against the reference.
type shape struct {
	headDim, heads, layers int
	context, vocab         int
	windows, t             int
	act                    model.Activation
	embedNorm, finalNorm   bool
	eps                    float32
	small                  bool // cheap enough for slow engines
	bf16                   bool // the plain version rounds to bfloat16
}

// shapes covers, without the full product: T 1, 7, 113, 293, and T below the context;
// head_dim 8, 24, 32, 64, 72; V 61, 257, 2305; 1 and 3 windows; every combination of
// the switches; a large eps; depth 3; two buckets.
var shapes = []shape{
	{headDim: 8, heads: 2, layers: 1, context: 1, vocab: 257, windows: 1, t: 1, act: model.ReLUSquared, embedNorm: true, eps: 1e-5, small: true},
	{headDim: 24, heads: 3, layers: 2, context: 7, vocab: 257, windows: 3, t: 7, act: model.ReLU, finalNorm: true, eps: 1e-5, small: true},
	{headDim: 8, heads: 3, layers: 1, context: 128, vocab: 257, windows: 1, t: 113, act: model.ReLU, embedNorm: true, eps: 1e-3, small: true},
	{headDim: 32, heads: 2, layers: 1, context: 4, vocab: 8000, windows: 1, t: 3, act: model.ReLUSquared, embedNorm: true, eps: 1e-5, small: true},
	{headDim: 32, heads: 2, layers: 1, context: 113, vocab: 2305, windows: 1, t: 113, act: model.ReLUSquared, embedNorm: true, finalNorm: true, eps: 1e-5},
	{headDim: 64, heads: 1, layers: 1, context: 113, vocab: 257, windows: 3, t: 113, act: model.ReLU, eps: 1e-5},
	{headDim: 72, heads: 2, layers: 1, context: 9, vocab: 2305, windows: 1, t: 7, act: model.ReLUSquared, eps: 1e-5},
	{headDim: 64, heads: 2, layers: 1, context: 1, vocab: 2305, windows: 3, t: 1, act: model.ReLU, embedNorm: true, finalNorm: true, eps: 1e-5},
	{headDim: 72, heads: 1, layers: 1, context: 113, vocab: 257, windows: 1, t: 113, act: model.ReLUSquared, finalNorm: true, eps: 1e-5},
	{headDim: 24, heads: 2, layers: 3, context: 113, vocab: 257, windows: 1, t: 113, act: model.ReLUSquared, embedNorm: true, eps: 1e-5},
	{headDim: 32, heads: 4, layers: 1, context: 7, vocab: 257, windows: 3, t: 7, act: model.ReLU, embedNorm: true, finalNorm: true, eps: 0.1},
	{headDim: 8, heads: 2, layers: 2, context: 300, vocab: 61, windows: 1, t: 293, act: model.ReLUSquared, embedNorm: true, eps: 1e-5},
}

func smallShapes() (small []shape) {
	for _, s := range shapes {
		if s.small {
			small = append(small, s)
		}
	}
	return small
}

func (s shape) config() model.Config {
	return model.Config{
		Variant: model.Custom, DModel: s.headDim * s.heads, NHead: s.heads, NLayer: s.layers,
		Context: s.context, Vocab: s.vocab, Activation: s.act,
		EmbedNorm: s.embedNorm, FinalNorm: s.finalNorm, NormEps: s.eps,
	}
}

func (s shape) name() string {
	return fmt.Sprintf("T%d_of_%d_B%d_V%d_%dx%d_L%d_%s_embed_norm=%v_final_norm=%v_eps=%g",
		s.t, s.context, s.windows, s.vocab, s.heads, s.headDim, s.layers, s.act, s.embedNorm, s.finalNorm, s.eps)
}

// tiny is the shape of the checks that need no particular one: a ragged context of
// 40 tokens, two heads of 12.
func tiny() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 24, 2, 2, 40, 61
	return c
}

// twoBuckets is a shape a little larger than a bucket whose passes stay cheap.
func twoBuckets() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 32, 1, 1, 3, 16300
	return c
}
