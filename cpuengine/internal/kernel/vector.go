package kernel

// All functions here run on the calling goroutine, take slices of any length and alignment
// that belong to the caller, and allow dst to be one of the sources. Sources must be at least
// as long as the first slice, which sets the length; one of less capacity panics.

// Max returns the largest element of x: -Inf when x is empty, NaN when any element is NaN.
func (p *Path) Max(x []float32) float32 { return p.max(x) }

// Dot returns the inner product of x and y: elements i go to partial chain i%16 of fused
// multiply-adds in ascending order, each from +0, and the partial sums are added in the tree
// 8, 4, 2, 1.
func (p *Path) Dot(x, y []float32) float32 { return p.dot(x, y[:len(x)]) }

// ExpSum sets dst = e^(x-bias), the difference rounded, and returns the sum of dst: partial
// sums and tree as in Dot. The exponential is within 1 ulp; it is +0 for arguments below -87, +Inf above 88.72, exactly 1
// for 0, and NaN for NaN.
func (p *Path) ExpSum(dst, x []float32, bias float32) float32 {
	return p.expSum(dst, x[:len(dst)], bias)
}

// Scale sets dst = x·a.
func (p *Path) Scale(dst, x []float32, a float32) { p.scale(dst, x[:len(dst)], a) }

// Add sets dst = x + y.
func (p *Path) Add(dst, x, y []float32) { p.add(dst, x[:len(dst)], y[:len(dst)]) }

// SoftmaxBackward sets dst = prob·(dprob-delta), each operation rounded: the backward pass
// of one row of a softmax with probabilities prob, their gradient dprob and delta = Σ
// prob·dprob.
func (p *Path) SoftmaxBackward(dst, dprob, prob []float32, delta float32) {
	p.softmaxBackward(dst, dprob[:len(dst)], prob[:len(dst)], delta)
}

// NormBackward sets dst = t, or dst = dst + t when add is set, with t = inv·(dy - y·c), each
// operation rounded: the backward pass of one RMSNorm row with output y, its gradient dy,
// the inverse root inv and c = mean(dy·y).
func (p *Path) NormBackward(dst, dy, y []float32, inv, c float32, add bool) {
	f := p.normBackward
	if add {
		f = p.normBackwardAdd
	}
	f(dst, dy[:len(dst)], y[:len(dst)], inv, c)
}

// Relu sets dst = max(x, 0). NaN and -0 pass through.
func (p *Path) Relu(dst, x []float32) { p.relu(dst, x[:len(dst)]) }

// ReluBackward sets dst = dy where x > 0, and +0 elsewhere.
func (p *Path) ReluBackward(dst, dy, x []float32) {
	p.reluBackward(dst, dy[:len(dst)], x[:len(dst)])
}

// ReluSquared sets dst = max(x, 0)². NaN passes through.
func (p *Path) ReluSquared(dst, x []float32) { p.relu2(dst, x[:len(dst)]) }

// ReluSquaredBackward sets dst = dy·(2·max(x, 0)).
func (p *Path) ReluSquaredBackward(dst, dy, x []float32) {
	p.relu2Backward(dst, dy[:len(dst)], x[:len(dst)])
}

// AdamW updates the weights w and the moments m and v in place from the gradient g, all of
// w's length, with IEEE operations in this order and none fused:
//
//	g' = g·Scale;  m = Beta1·m + OneMinusBeta1·g';  v = Beta2·v + OneMinusBeta2·(g'·g')
//	w = w - LR·(m/Correction1 / (sqrt(v/Correction2) + Eps) + Decay·w)
func (p *Path) AdamW(w, m, v, g []float32, h AdamW) {
	p.adamW(w, m[:len(w)], v[:len(w)], g[:len(w)], h)
}
