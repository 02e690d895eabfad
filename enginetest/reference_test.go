package enginetest

import (
	"fmt"
	"math"
	"testing"

	"andrea/model"
)

// switches is every combination of the switches of a shape.
func switches(cfg model.Config) (all []model.Config) {
	for _, act := range []model.Activation{model.ReLUSquared, model.ReLU} {
		for mask := range 4 {
			cfg.Activation = act
			cfg.EmbedNorm, cfg.FinalNorm = mask&1 != 0, mask&2 != 0
			all = append(all, cfg)
		}
	}
	return all
}

// kinkDistance is the smallest |pre-activation|: a finite difference across the
// kink of an activation measures nothing.
func kinkDistance(n network[float64], w tensors[float64], b model.Batch) float64 {
	inputs, _ := inputsAndTargets(b)
	distance := math.Inf(1)
	for _, l := range n.forward(w, inputs, b.T).layers {
		for _, x := range l.pre {
			distance = min(distance, math.Abs(x))
		}
	}
	return distance
}

// The differences move pre-activations by some 1e-4, so states are drawn until all
// are further from the kink.
func drawAwayFromKinks(t *testing.T, n network[float64], b model.Batch) []float64 {
	for seed := range uint64(100) {
		w := convert[float64](DrawState(n.cfg, seed).W)
		if kinkDistance(n, view(n.cfg, w), b) > 1e-3 {
			return w
		}
	}
	t.Fatal("no state of 100 is away from the kinks")
	return nil
}

func TestReferenceGradientAgreesWithFiniteDifferences(t *testing.T) {
	shape := model.DefaultSwitches()
	shape.DModel, shape.NHead, shape.NLayer, shape.Context, shape.Vocab, shape.NormEps = 6, 2, 2, 4, 5, 1e-3
	for _, cfg := range switches(shape) {
		t.Run(fmt.Sprintf("%s/embed_norm=%v/final_norm=%v", cfg.Activation, cfg.EmbedNorm, cfg.FinalNorm), func(t *testing.T) {
			n := network[float64]{cfg, plainOps[float64]()}
			b := DrawBatch(cfg, 2, 3, 1)
			w := drawAwayFromKinks(t, n, b)
			grad := make([]float64, len(w))
			n.accumulate(view(cfg, grad), view(cfg, w), b)
			for _, tensor := range model.NewLayout(cfg).Tensors {
				compareWithDifferences(t, n, tensor, w, grad, b)
			}
		})
	}
}

func compareWithDifferences(t *testing.T, n network[float64], tensor model.Tensor, w, grad []float64, b model.Batch) {
	const h, tolerance = 1e-5, 1e-7
	size := largest(grad[tensor.Offset:tensor.End()], nil)
	if size < 1e-3 {
		t.Errorf("%s: the largest gradient is %g: it would check nothing", tensor.Name, size)
	}
	for i := tensor.Offset; i < tensor.End(); i++ {
		was := w[i]
		w[i] = was + h
		up := n.eval(view(n.cfg, w), b).Sum
		w[i] = was - h
		down := n.eval(view(n.cfg, w), b).Sum
		w[i] = was
		if slope := (up - down) / (2 * h); math.Abs(slope-grad[i]) > tolerance*max(1, size) {
			t.Errorf("%s[%d]: gradient %.9g, finite difference %.9g", tensor.Name, i-tensor.Offset, grad[i], slope)
		}
	}
}

// The layout and the views of the network must place the same tensors.
func TestViewFollowsTheLayout(t *testing.T) {
	cfg := model.DefaultSwitches()
	cfg.DModel, cfg.NHead, cfg.NLayer, cfg.Context, cfg.Vocab = 6, 2, 2, 4, 5
	l := model.NewLayout(cfg)
	flat := make([]float64, l.Size)
	for i := range flat {
		flat[i] = float64(i)
	}
	v := view(cfg, flat)
	parts := map[string][]float64{"wte": v.wte, "wpe": v.wpe, "lm_head": v.head}
	for i, layer := range v.layers {
		third := len(layer.wqkv) / 3
		for j, name := range []string{"attn_wq", "attn_wk", "attn_wv"} {
			parts[fmt.Sprintf("layer%d.%s", i, name)] = layer.wqkv[j*third : (j+1)*third]
		}
		parts[fmt.Sprintf("layer%d.attn_wo", i)] = layer.wo
		parts[fmt.Sprintf("layer%d.mlp_fc1", i)] = layer.fc1
		parts[fmt.Sprintf("layer%d.mlp_fc2", i)] = layer.fc2
	}
	for _, tensor := range l.Tensors {
		part := parts[tensor.Name]
		if len(part) != tensor.Size() || part[0] != float64(tensor.Offset) {
			t.Errorf("%s: %d values from %v, want %d from %d", tensor.Name, len(part), part[0], tensor.Size(), tensor.Offset)
		}
	}
}

// One element by hand, with numbers that float32 holds exactly.
func TestAdamWByHand(t *testing.T) {
	cfg := model.DefaultSwitches()
	cfg.DModel, cfg.NHead, cfg.NLayer, cfg.Context, cfg.Vocab = 1, 1, 1, 1, 1
	l := model.NewLayout(cfg)
	w, m, v, g := make([]float32, l.Size), make([]float32, l.Size), make([]float32, l.Size), make([]float32, l.Size)
	for i := range w {
		w[i], m[i], v[i], g[i] = 8, 2, 4, 16
	}
	h := model.Hyper{LR: 0.5, Beta1: 0.5, OneMinusBeta1: 0.5, Beta2: 0.75, OneMinusBeta2: 0.25, Correction1: 0.5, Correction2: 0.25, Eps: 2, Decay: 0.25}
	adamW(l, w, m, v, g, 0.25, h)
	// g 4; m 1+2 = 3; v 3+4 = 7; ratio 6/(sqrt(28)+2), then w - 0.5·(ratio + 2 or 0).
	ratio := 6 / (float32(math.Sqrt(28)) + 2)
	for _, tensor := range l.Tensors {
		want := 8 - 0.5*ratio
		if tensor.Decay {
			want = 8 - 0.5*(ratio+2)
		}
		if i := tensor.Offset; m[i] != 3 || v[i] != 7 || w[i] != want {
			t.Errorf("%s: m %v v %v w %v, want 3, 7, %v", tensor.Name, m[i], v[i], w[i], want)
		}
	}
}
