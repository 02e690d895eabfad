package kernels_test

import (
	"math"
	"testing"

	"andrea/kernels"
	"andrea/model"
	"andrea/numeric"
)

// adamW is the update of design: fp32, in this order, nothing fused.
func adamW(w, m, v, g []float32, scale float32, h model.Hyper, decay func(i int) float32) {
	for i := range w {
		gi := g[i] * scale
		m[i] = float32(h.Beta1*m[i]) + float32(h.OneMinusBeta1*gi)
		v[i] = float32(h.Beta2*v[i]) + float32(h.OneMinusBeta2*float32(gi*gi))
		root := float32(math.Sqrt(float64(float32(v[i] / h.Correction2))))
		w[i] -= float32(h.LR * (float32(float32(m[i]/h.Correction1)/float32(root+h.Eps)) + float32(decay(i)*w[i])))
	}
}

// TestAdamWHasTheBitsOfEveryEngine updates a vector in two launches and compares weights, moments, the rounded copy and
// the digest.
func TestAdamWHasTheBitsOfEveryEngine(t *testing.T) {
	d := start(t, plain(t))
	const n, cut, decayFrom = 9003, 4100, 777
	h := model.Hyper{LR: 1e-3, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05, Correction1: 0.271, Correction2: 0.142625, Eps: 1e-8, Decay: 0.1}
	w, m, v, g := draw(n, 1), draw(n, 2), draw(n, 3), draw(n, 4)
	for i := range v {
		v[i] *= v[i]
		g[i] *= float32(math.Ldexp(1, i%40-20))
	}
	g[5], m[5], v[5] = 0, 0, 0
	scale := float32(0.37)
	digest := upload(d, []uint64{0, 0})
	var got [3][]float32
	var copies []uint16
	for _, r := range [][2]int{{0, cut}, {cut, n}} {
		part := func(x []float32) buffer { return upload(d, x[r[0]:r[1]]) }
		count := r[1] - r[0]
		bw, bm, bv, rounded := part(w), part(m), part(v), room[uint16](d, count)
		d.run("adamw", kernels.Sizes{Count: count}, digest, bw, bm, bv, part(g), rounded, r[0], count, decayFrom,
			scale, h.LR, h.Beta1, h.OneMinusBeta1, h.Beta2, h.OneMinusBeta2, h.Correction1, h.Correction2, h.Eps, h.Decay)
		for i, b := range []buffer{bw, bm, bv} {
			got[i] = append(got[i], download[float32](d, b)...)
		}
		copies = append(copies, download[uint16](d, rounded)...)
	}
	adamW(w, m, v, g, scale, h, func(i int) float32 {
		if i < decayFrom {
			return 0
		}
		return h.Decay
	})
	same(t, "weights", got[0], w)
	same(t, "first moments", got[1], m)
	same(t, "second moments", got[2], v)
	same(t, "rounded weights", copies, narrow(w))
	sum := model.StateDigestOf(0, w, m, v)
	same(t, "digest", download[uint64](d, digest), sum[:])
}

// TestSums compares digest, sum of squares, fold and loss sum with what package model promises.
func TestSums(t *testing.T) {
	d := start(t, plain(t))
	for _, n := range []int{1, 8, 4097, model.BucketSize + 4099} {
		x, y := draw(n, 1), draw(n, 2)
		x[n/2] = 0x1p-140 // a subnormal keeps its bits
		bx := upload(d, x)
		buckets := (n + model.BucketSize - 1) / model.BucketSize
		sums, digest := room[float64](d, buckets), upload(d, []uint64{0, 0})
		d.run("sum_squares", kernels.Sizes{Buckets: buckets}, sums, bx, n)
		for i, got := range download[float64](d, sums) {
			if want := model.SumSquares(x[i*model.BucketSize : min((i+1)*model.BucketSize, n)]); got != want {
				t.Fatalf("sum of squares of bucket %d of %d elements is %v, want %v", i, n, got, want)
			}
		}
		d.run("digest", kernels.Sizes{Count: n}, digest, bx, n, 12345, int(model.Gradient))
		want := model.DigestOf(model.Gradient, 12345, x)
		same(t, "digest", download[uint64](d, digest), want[:])
		d.run("fold", kernels.Sizes{Count: n}, bx, upload(d, y), n)
		for i := range x {
			x[i] += y[i]
		}
		same(t, "fold", download[float32](d, bx), x)
		d.free()
	}
}

// TestLossHasTheBitsOfNumeric takes rows whose logits are all equal: their loss is ln V exactly as package numeric
// computes it, whatever V; and the sum of equal losses is their number times one.
func TestLossHasTheBitsOfNumeric(t *testing.T) {
	d := start(t, plain(t))
	for _, v := range []int{1, 2, 3, 257, 2305, 8449} {
		ld := (v + 63) / 64 * 64
		losses, sum := room[float64](d, 2), room[float64](d, 1)
		logits, tokens := upload(d, make([]float32, 2*ld)), upload(d, make([]uint32, 4))
		d.run("cross_entropy_fp32", kernels.Sizes{Rows: 2}, losses, buffer{}, logits, tokens, 0, 2, 1, v, ld)
		d.run("loss_sum", kernels.Sizes{}, sum, losses, 2)
		l := numeric.Log(float64(v))
		same(t, "losses", download[float64](d, losses), []float64{l, l})
		same(t, "their sum", download[float64](d, sum), []float64{2 * l})
		d.free()
	}
}

// TestNonFiniteValuesAreKept puts a NaN or an infinity into one logit: the loss of its row says so, that of the other
// does not.
func TestNonFiniteValuesAreKept(t *testing.T) {
	d := start(t, plain(t))
	for _, kernel := range []string{"cross_entropy_bf16", "cross_entropy_fp32"} {
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			for _, at := range []int{0, 3, 300, 1099} {
				logits := draw(2*1152, 1)
				logits[1152+at] = float32(bad)
				losses := room[float64](d, 2)
				d.run(kernel, kernels.Sizes{Rows: 2}, losses, buffer{}, upload(d, logits), upload(d, make([]uint32, 4)), 0, 2, 1, 1100, 1152)
				got := download[float64](d, losses)
				if math.IsNaN(got[0]) || math.IsInf(got[0], 0) || !(math.IsNaN(got[1]) || math.IsInf(got[1], 0)) {
					t.Errorf("%s: %v at column %d of the second row: losses %v", kernel, bad, at, got)
				}
				d.free()
			}
		}
	}
}

// TestPositionsAtOddAddresses adds the gradient of wpe where a table of odd size lies before it.
func TestPositionsAtOddAddresses(t *testing.T) {
	d := start(t, plain(t))
	const windows, positions, width = 3, 4, 6
	dx, before := draw(windows*positions*width, 1), draw(positions*width, 2)
	table := upload(d, append([]float32{0}, before...))
	d.run("embed_positions", kernels.Sizes{T: positions, Width: width}, table.from(4), upload(d, dx), windows, positions, width)
	for i := range before {
		sum := float32(0)
		for w := range windows {
			sum += dx[w*positions*width+i]
		}
		before[i] += sum
	}
	same(t, "dwpe", download[float32](d, table)[1:], before)
}
