package kernel

import (
	"math"

	"andrea/numeric"
)

// partials is the virtual width of every reduction over a row: element i belongs to partial
// result i % partials. Assembly holds them in one AVX-512, two AVX2 or four NEON registers.
const partials = 16

// fold sums the partial results in a fixed tree: halves are added until one is left.
func fold(acc *[partials]float32) float32 {
	for h := partials / 2; h > 0; h /= 2 {
		for i := range h {
			acc[i] += acc[i+h]
		}
	}
	return acc[0]
}

// larger is the hardware's maximum: y when the two are equal.
func larger(x, y float32) float32 {
	if x > y {
		return x
	}
	return y
}

func portableMax(x []float32) float32 {
	var acc [partials]float32
	for i := range acc {
		acc[i] = float32(math.Inf(-1))
	}
	for i, v := range x {
		if v != v {
			return float32(math.NaN())
		}
		acc[i%partials] = larger(acc[i%partials], v)
	}
	for h := partials / 2; h > 0; h /= 2 {
		for i := range h {
			acc[i] = larger(acc[i], acc[i+h])
		}
	}
	return acc[0]
}

// portableSum adds element i to partial sum i%16 in ascending order, each from +0, and folds.
func portableSum(x []float32) float32 {
	var acc [partials]float32
	for i, v := range x {
		acc[i%partials] += v
	}
	return fold(&acc)
}

func portableDot(x, y []float32) float32 {
	var acc [partials]float32
	for i, v := range x {
		acc[i%partials] = numeric.FMA32(v, y[i], acc[i%partials])
	}
	return fold(&acc)
}

func portableScale(dst, x []float32, a float32) {
	for i, v := range x {
		dst[i] = v * a
	}
}

func portableAdd(dst, x, y []float32) {
	for i, v := range x {
		dst[i] = v + y[i]
	}
}

// portableAxpy sets dst = fma(a, x, dst), rounded once.
func portableAxpy(dst, x []float32, a float32) {
	for i, v := range x {
		dst[i] = numeric.FMA32(a, v, dst[i])
	}
}

func portableSoftmaxBackward(dst, dprob, prob []float32, delta float32) {
	for i, v := range dprob {
		dst[i] = prob[i] * (v - delta)
	}
}

func portableNormBackward(dst, dy, y []float32, inv, c float32) {
	for i, v := range dy {
		dst[i] = inv * (v - float32(y[i]*c))
	}
}

func portableNormBackwardAdd(dst, dy, y []float32, inv, c float32) {
	for i, v := range dy {
		dst[i] += float32(inv * (v - float32(y[i]*c)))
	}
}

// clip is max(x, 0) as the hardware has it: NaN and -0 pass.
func clip(x float32) float32 { return larger(0, x) }

func portableRelu(dst, x []float32) {
	for i, v := range x {
		dst[i] = clip(v)
	}
}

func portableReluBackward(dst, dy, x []float32) {
	for i, v := range x {
		d := dy[i]
		if !(v > 0) {
			d = 0
		}
		dst[i] = d
	}
}

func portableRelu2(dst, x []float32) {
	for i, v := range x {
		dst[i] = clip(v) * clip(v)
	}
}

func portableRelu2Backward(dst, dy, x []float32) {
	for i, v := range x {
		r := clip(v)
		dst[i] = dy[i] * float32(r+r)
	}
}

func portableAdamW(w, m, v, g []float32, h AdamW) {
	for i := range w {
		gi := g[i] * h.Scale
		mi := float32(h.Beta1*m[i]) + float32(h.OneMinusBeta1*gi)
		vi := float32(h.Beta2*v[i]) + float32(h.OneMinusBeta2*float32(gi*gi))
		root := float32(math.Sqrt(float64(float32(vi / h.Correction2)))) // correctly rounded: float64 has more than twice the bits
		update := float32(float32(mi/h.Correction1)/float32(root+h.Eps)) + float32(h.Decay*w[i])
		m[i], v[i] = mi, vi
		w[i] -= float32(h.LR * update)
	}
}
