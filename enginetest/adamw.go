package enginetest

import "andrea/model"

// adamW applies one step to the state:
//
//	g = gradient·scale
//	m = β1·m + (1-β1)·g;  v = β2·v + (1-β2)·(g·g)
//	w = w - lr·(m/(1-β1^t) / (sqrt(v/(1-β2^t)) + eps) + decay·w)
//
// with decay only where the layout says (AdamW; Loshchilov and Hutter, 2019). In
// float32 it is the definition of the bits of an update: these operations in this
// order, each rounded, none fused.
func adamW[F Float](l model.Layout, w, m, v, grad []F, scale F, h model.Hyper) {
	for _, t := range l.Tensors {
		decay := F(0)
		if t.Decay {
			decay = F(h.Decay)
		}
		for i := t.Offset; i < t.End(); i++ {
			g := F(grad[i] * scale)
			m[i] = F(F(h.Beta1)*m[i]) + F(F(h.OneMinusBeta1)*g)
			v[i] = F(F(h.Beta2)*v[i]) + F(F(h.OneMinusBeta2)*F(g*g))
			ratio := (m[i] / F(h.Correction1)) / (sqrt(v[i]/F(h.Correction2)) + F(h.Eps))
			w[i] -= F(F(h.LR) * (ratio + F(decay*w[i])))
		}
	}
}
