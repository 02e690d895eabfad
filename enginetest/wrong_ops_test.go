package enginetest

import (
	"math"
	"testing"

	"andrea/model"
)

// wrongOp is a fault in one operation, and the check that must find it.
type wrongOp struct {
	fault string
	check string // prefix of its name
	apply func(ops *Ops)
}

// Shapes by their T: 1 has relu2, 7 has relu and final_norm, 113 has embed_norm.
const (
	atT1   = "reference/T1_"
	atT7   = "reference/T7_"
	atT113 = "reference/T113_"
)

var wrongOps = []wrongOp{
	{"attention sees the future", "causality", func(o *Ops) {
		good := o.Attention
		o.Attention = func(out, qkv []float32, h Heads) {
			good(out, qkv, h)
			last := len(out) - h.Width()
			for i := range out[:last] {
				out[i] += 1e-6 * out[last+i%h.Width()]
			}
		}
	}},
	{"attention forgets the first token", "causality", func(o *Ops) {
		good := o.Attention
		o.Attention = func(out, qkv []float32, h Heads) {
			d := h.Width()
			good(out, qkv, h)
			if h.T > 1 {
				good(out[d:], qkv[3*d:], Heads{1, h.T - 1, h.Count, h.Dim})
			}
		}
	}},
	{"probabilities that add up to 1.0001", "attention_rows", func(o *Ops) {
		good := o.Attention
		o.Attention = func(out, qkv []float32, h Heads) {
			good(out, qkv, h)
			for i := range out {
				out[i] *= 1.0001
			}
		}
	}},
	{"scores scaled by 1/head_dim", atT7, func(o *Ops) {
		good := o.Attention
		o.Attention = func(out, qkv []float32, h Heads) {
			scaled := append([]float32(nil), qkv...)
			for i := range scaled {
				if i%(3*h.Width()) < h.Width() {
					scaled[i] /= float32(math.Sqrt(float64(h.Dim)))
				}
			}
			good(out, scaled, h)
		}
	}},
	{"gradient of the keys times 1.00001", atT113, func(o *Ops) {
		good := o.AttentionBackward
		o.AttentionBackward = func(dqkv, dout, qkv []float32, h Heads) {
			good(dqkv, dout, qkv, h)
			for i := range dqkv {
				if c := i % (3 * h.Width()) / h.Width(); c == 1 {
					dqkv[i] *= 1.00001
				}
			}
		}
	}},
	{"windows attend to each other", "windows_are_independent", func(o *Ops) {
		good := o.Attention
		o.Attention = func(out, qkv []float32, h Heads) {
			good(out, qkv, Heads{1, h.Windows * h.T, h.Count, h.Dim})
		}
	}},
	{"norm without eps", atT113, func(o *Ops) {
		good := o.Norm
		o.Norm = func(y, x []float32, d int, _ float32) { good(y, x, d, 0) }
	}},
	{"norm that subtracts the mean", atT7, func(o *Ops) {
		good := o.Norm
		o.Norm = func(y, x []float32, d int, eps float32) {
			centred := append([]float32(nil), x...)
			for lo := 0; lo < len(x); lo += d {
				var mean float32
				for _, f := range x[lo : lo+d] {
					mean += f / float32(d)
				}
				for i := range d {
					centred[lo+i] -= mean
				}
			}
			good(y, centred, d, eps)
		}
	}},
	{"norm's gradient replaces that of the residual stream", atT7, func(o *Ops) {
		good := o.NormBackward
		o.NormBackward = func(dx, dy, x []float32, d int, eps float32) {
			clear(dx)
			good(dx, dy, x, d, eps)
		}
	}},
	{"relu instead of relu2", atT1, func(o *Ops) {
		good := o.Activate
		o.Activate = func(y, x []float32, _ model.Activation) { good(y, x, model.ReLU) }
	}},
	{"relu2 instead of relu", atT7, func(o *Ops) {
		good := o.Activate
		o.Activate = func(y, x []float32, _ model.Activation) { good(y, x, model.ReLUSquared) }
	}},
	{"gradient of relu2 without its factor 2", atT1, func(o *Ops) {
		good := o.ActivateBackward
		o.ActivateBackward = func(dx, dy, x []float32, act model.Activation) {
			good(dx, dy, x, act)
			for i := range dx {
				dx[i] /= 2
			}
		}
	}},
	{"gradients of weights replace each other", atT7, func(o *Ops) {
		good := o.MulTN
		o.MulTN = func(c, a, b []float32, m, n, k int, _ bool) { good(c, a, b, m, n, k, false) }
	}},
	{"products of 11 bits", atT7, func(o *Ops) {
		good := o.MulNT
		o.MulNT = func(c, a, b []float32, m, n, k int, add bool) {
			short := append([]float32(nil), a...)
			for i, f := range short {
				short[i] = math.Float32frombits(math.Float32bits(f) &^ 0x1fff)
			}
			good(c, short, b, m, n, k, add)
		}
	}},
	{"gradient of the mean loss", atT7, func(o *Ops) {
		good := o.CrossEntropy
		o.CrossEntropy = func(dlogits, logits []float32, targets []uint32, v int) float64 {
			loss := good(dlogits, logits, targets, v)
			for i := range dlogits {
				dlogits[i] /= float32(len(targets))
			}
			return loss
		}
	}},
	{"mean loss", atT7, func(o *Ops) {
		good := o.CrossEntropy
		o.CrossEntropy = func(dlogits, logits []float32, targets []uint32, v int) float64 {
			return good(dlogits, logits, targets, v) / float64(len(targets))
		}
	}},
	{"loss in bits", "loss_at_init", func(o *Ops) {
		good := o.CrossEntropy
		o.CrossEntropy = func(dlogits, logits []float32, targets []uint32, v int) float64 {
			return good(dlogits, logits, targets, v) / math.Ln2
		}
	}},
	{"loss over one id more", "loss_with_zero_head", func(o *Ops) {
		good := o.CrossEntropy
		o.CrossEntropy = func(dlogits, logits []float32, targets []uint32, v int) float64 {
			return good(dlogits, logits, targets, v) + float64(len(targets))/float64(v)
		}
	}},
	{"loss of Eval in another order", "eval", func(o *Ops) {
		good := o.CrossEntropy
		o.CrossEntropy = func(dlogits, logits []float32, targets []uint32, v int) float64 {
			loss := good(dlogits, logits, targets, v)
			if dlogits == nil {
				return math.Nextafter(loss, 0)
			}
			return loss
		}
	}},
	{"gradient of the first position for all", atT7, func(o *Ops) {
		good := o.EmbedBackward
		o.EmbedBackward = func(dwte, dwpe, dx []float32, tokens []uint32, _, d int) { good(dwte, dwpe, dx, tokens, 1, d) }
	}},
	{"NaN becomes a number", "not_finite", func(o *Ops) {
		good := o.Attention
		o.Attention = func(out, qkv []float32, h Heads) {
			good(out, qkv, h)
			for i, f := range out {
				if f != f {
					out[i] = 0
				}
			}
		}
	}},
	{"every other pass adds in another order", "repeats", func(o *Ops) {
		good, calls := o.NormBackward, 0
		o.NormBackward = func(dx, dy, x []float32, d int, eps float32) {
			good(dx, dy, x, d, eps)
			if calls++; calls == 7 {
				dx[0] = math.Nextafter32(dx[0], 9)
			}
		}
	}},
}

func TestSuiteFindsWrongOperations(t *testing.T) {
	for _, m := range wrongOps {
		t.Run(m.fault, func(t *testing.T) {
			expectFailure(t, m.check, func(cfg model.Config, microbatch, slots int) model.Engine {
				ops := plainOps[float32]()
				m.apply(&ops)
				return newPlain(cfg, microbatch, slots, ops)
			})
		})
	}
}
