package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"andrea/enginetest"
	"andrea/kernels"
)

// toBF16 rounds to nearest even, as the device does.
func toBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return 0x7fff
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

func fromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

func narrow(x []float32) []uint16 {
	out := make([]uint16, len(x))
	for i, f := range x {
		out[i] = toBF16(f)
	}
	return out
}

func widen(x []uint16) []float32 {
	out := make([]float32, len(x))
	for i, h := range x {
		out[i] = fromBF16(h)
	}
	return out
}

// draw gives normal values, the same for the same seed.
func draw(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// drawBF16 gives normal values that bfloat16 holds.
func drawBF16(n int, seed uint64) []float32 { return widen(narrow(draw(n, seed))) }

// drawIntegers gives integers from -3 to 3: sums of their products are exact in any order.
func drawIntegers(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 2))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.IntN(7) - 3)
	}
	return x
}

// product is C[m,n] in exact arithmetic, with element (i,k) of A at i·ai+k·ak.
func product(a, b []float32, m, n, k, ai, ak, bj, bk int) []float32 {
	c := make([]float32, m*n)
	for i := range m {
		for j := range n {
			sum := 0.0
			for l := range k {
				sum += float64(a[i*ai+l*ak]) * float64(b[j*bj+l*bk])
			}
			c[i*n+j] = float32(sum)
		}
	}
	return c
}

// TestProductsAreExact multiplies integers, so that every bit is known whatever the order of a sum, at sizes around the
// tiles and with rows that start at multiples of 16 bytes and not.
func TestProductsAreExact(t *testing.T) {
	d := start(t, plain(t))
	for _, precision := range []string{"bf16", "fp32"} {
		for _, s := range [][3]int{{1, 1, 1}, {8, 8, 8}, {65, 130, 33}, {128, 128, 128}, {129, 24, 200}, {7, 257, 64}, {200, 72, 31}, {1100, 130, 8}} {
			for _, pad := range []int{0, 8, 3} {
				if s[0] > 1000 && pad > 0 {
					continue // for the order of blocks, which has nothing to do with padding
				}
				checkProducts(t, d, precision, s[0], s[1], s[2], pad)
			}
		}
	}
}

func checkProducts(t *testing.T, d *device, precision string, m, n, k, pad int) {
	t.Helper()
	up := func(x []float32) buffer {
		if precision == "bf16" {
			return upload(d, narrow(x))
		}
		return upload(d, x)
	}
	for _, layout := range []struct {
		name           string
		rowsA, colsA   int
		rowsB, colsB   int
		ai, ak, bj, bk func(lda, ldb int) int
	}{
		{"nt", m, k, n, k, func(a, _ int) int { return a }, one, func(_, b int) int { return b }, one},
		{"nn", m, k, k, n, func(a, _ int) int { return a }, one, one, func(_, b int) int { return b }},
		{"tn", k, m, k, n, one, func(a, _ int) int { return a }, one, func(_, b int) int { return b }},
	} {
		lda, ldb, ldc := layout.colsA+pad, layout.colsB+pad, n+pad
		a, b := drawIntegers(layout.rowsA*lda, 1), drawIntegers(layout.rowsB*ldb, 2)
		ab := product(a, b, m, n, k, layout.ai(lda, ldb), layout.ak(lda, ldb), layout.bj(lda, ldb), layout.bk(lda, ldb))
		for epilogue := kernels.Store; epilogue <= kernels.StoreReLU2Backward; epilogue++ {
			before, aux := drawIntegers(m*ldc, 3), drawIntegers(m*ldc, 4)
			for i := range aux {
				aux[i] = aux[i] * aux[i] // squares, whose roots are exact
			}
			half := precision == "bf16" && epilogue != kernels.StoreFP32 && epilogue != kernels.AddFP32
			var c buffer
			if half {
				c = upload(d, narrow(before))
			} else {
				c = upload(d, before)
			}
			d.run("gemm_"+layout.name+"_"+precision, kernels.Sizes{M: m, N: n}, c, up(a), up(b), up(aux), m, n, k, lda, ldb, ldc, epilogue)
			got := before
			if half {
				got = widen(download[uint16](d, c))
			} else {
				got = download[float32](d, c)
			}
			d.free()
			where := fmt.Sprintf("gemm_%s_%s %dx%dx%d, rows %d longer, epilogue %d", layout.name, precision, m, n, k, pad, epilogue)
			for i := range m * ldc {
				want := before[i]
				if j := i % ldc; j < n {
					want = finish(ab[i/ldc*n+j], before[i], aux[i], epilogue)
				}
				if half {
					want = fromBF16(toBF16(want))
				}
				if got[i] != want {
					t.Fatalf("%s: element %d of row %d is %v, want %v", where, i%ldc, i/ldc, got[i], want)
				}
			}
		}
	}
}

// TestPartsAddUp cuts the sums of a product into parts, more than there is work for too, and adds them to what is there.
func TestPartsAddUp(t *testing.T) {
	d := start(t, plain(t))
	const m, n, k = 40, 24, 200
	a, b, before := drawIntegers(m*k, 1), drawIntegers(n*k, 2), drawIntegers(m*n, 3)
	ab := product(a, b, m, n, k, 1, m, 1, n)
	for _, precision := range []string{"bf16", "fp32"} {
		for parts := 1; parts <= 9; parts++ {
			ba, bb := upload(d, a), upload(d, b)
			if precision == "bf16" {
				ba, bb = upload(d, narrow(a)), upload(d, narrow(b))
			}
			c, work, s := upload(d, before), room[float32](d, parts*m*n), kernels.Sizes{M: m, N: n, Parts: parts, Count: m * n}
			odd := upload(d, append([]float32{0}, before...))
			d.run("gemm_tn_"+precision, s, work, ba, bb, buffer{}, m, n, k, m, n, n, kernels.StoreFP32)
			d.run("add_parts", s, c, work, m*n, parts)
			d.run("add_parts", s, odd.from(4), work, m*n, parts)
			same(t, "the sum of the parts, at an odd address", download[float32](d, odd)[1:], download[float32](d, c))
			for i, got := range download[float32](d, c) {
				if got != before[i]+ab[i] {
					t.Fatalf("%s in %d parts: element %d is %v, want %v", precision, parts, i, got, before[i]+ab[i])
				}
			}
			d.free()
		}
	}
}

// TestParts: enough blocks or a short sum is not cut, and no part is without work.
func TestParts(t *testing.T) {
	for _, c := range []struct{ m, n, k, want int }{
		{24, 24, 100, 1}, {768, 768, 511, 1}, {768, 768, 1023, 1}, {768, 768, 65536, 7}, {768, 3072, 65536, 5}, {2304, 768, 65536, 7},
		{384, 384, 65536, 27}, {1536, 6144, 65536, 3}, {8449, 768, 8192, 3},
	} {
		if got := kernels.Parts(c.m, c.n, c.k); got != c.want {
			t.Errorf("Parts(%d, %d, %d) = %d, want %d", c.m, c.n, c.k, got, c.want)
		}
	}
}

func one(_, _ int) int { return 1 }

// finish is what an epilogue makes of ab.
func finish(ab, before, aux float32, epilogue int) float32 {
	switch epilogue {
	case kernels.AddFP32:
		return before + ab
	case kernels.StoreReLU:
		return max(ab, 0)
	case kernels.StoreReLU2:
		return max(ab, 0) * max(ab, 0)
	case kernels.StoreReLUBackward:
		if aux > 0 {
			return ab
		}
		return 0
	case kernels.StoreReLU2Backward:
		return ab * 2 * float32(math.Sqrt(float64(aux)))
	}
	return ab
}

// TestAttentionInBF16 compares with float64 attention of the same bfloat16 operands.
func TestAttentionInBF16(t *testing.T) {
	d := start(t, plain(t))
	for _, h := range []enginetest.Heads{
		{Windows: 1, T: 1, Count: 1, Dim: 64}, {Windows: 2, T: 7, Count: 2, Dim: 32}, {Windows: 1, T: 64, Count: 1, Dim: 64},
		{Windows: 1, T: 65, Count: 1, Dim: 32}, {Windows: 2, T: 113, Count: 2, Dim: 64}, {Windows: 1, T: 200, Count: 1, Dim: 32},
		{Windows: 1, T: 300, Count: 1, Dim: 64},
		{Windows: 2, T: 33, Count: 2, Dim: 8}, {Windows: 1, T: 70, Count: 1, Dim: 24}, {Windows: 1, T: 40, Count: 2, Dim: 72},
		{Windows: 1, T: 65, Count: 1, Dim: 96}, {Windows: 1, T: 64, Count: 1, Dim: 128}, {Windows: 1, T: 9, Count: 1, Dim: 5},
	} {
		precisions := []string{"bf16"}
		if kernels.Fast(h.Dim) {
			precisions = append(precisions, fmt.Sprintf("d%d_bf16", h.Dim))
		}
		for _, p := range precisions {
			t.Run(fmt.Sprintf("%s_T%d_%dx%d", p, h.T, h.Count, h.Dim), func(t *testing.T) { checkAttention(t, d, p, h) })
		}
	}
}

func checkAttention(t *testing.T, d *device, precision string, h enginetest.Heads) {
	defer d.free()
	rows, width := h.Windows*h.T, h.Count*h.Dim
	qkv, dmixed := drawBF16(rows*3*width, 1), drawBF16(rows*width, 2)
	want := referenceAttention(qkv, dmixed, h)
	q, g := upload(d, narrow(qkv)), upload(d, narrow(dmixed))
	mixed, lse := attention(d, precision, q, h)
	dqkv := attentionBackward(d, precision, q, g, h)
	near(t, "lse", download[float32](d, lse), want.lse, 0x1p-18)
	near(t, "mixed", widen(download[uint16](d, mixed)), want.mixed, 0x1p-8)
	near(t, "dqkv", widen(download[uint16](d, dqkv)), want.dqkv, 0x1.6p-8)
}

// near allows an error of a share of the values, as root mean squares; of a single element, eight times as much.
func near(t *testing.T, name string, got []float32, want []float64, share float64) {
	t.Helper()
	squares, errors := 0.0, 0.0
	for i, w := range want {
		squares += w * w
		errors += (float64(got[i]) - w) * (float64(got[i]) - w)
	}
	root, distance := math.Sqrt(squares/float64(len(want))), math.Sqrt(errors/float64(len(want)))
	if !(distance <= share*root) {
		t.Errorf("%s: the error is %.3g of the values, at most %.3g is allowed", name, distance/root, share)
	}
	for i, w := range want {
		if limit := 8 * share * (math.Abs(w) + root); !(math.Abs(float64(got[i])-w) <= limit) {
			t.Fatalf("%s: element %d is %v, want %v within %.2g", name, i, got[i], w, limit)
		}
	}
}

// attended is what attention of one batch gives.
type attended struct{ mixed, lse, dqkv []float64 }

// referenceAttention is attention in float64, query by query.
func referenceAttention(qkv, dmixed []float32, h enginetest.Heads) attended {
	rows, width := h.Windows*h.T, h.Count*h.Dim
	a := attended{make([]float64, rows*width), make([]float64, h.Windows*h.Count*h.T), make([]float64, rows*3*width)}
	for w := range h.Windows {
		for head := range h.Count {
			for i := range h.T {
				a.query(qkv, dmixed, h, w, head, i)
			}
		}
	}
	return a
}

func (a attended) query(qkv, dmixed []float32, h enginetest.Heads, w, head, i int) {
	width := h.Count * h.Dim
	at := func(position, part int) int { return ((w*h.T+position)*3+part)*width + head*h.Dim }
	vector := func(x []float32, from int) []float32 { return x[from : from+h.Dim] }
	dot := func(x, y []float32) (sum float64) {
		for c := range x {
			sum += float64(x[c]) * float64(y[c])
		}
		return sum
	}
	scale, sum := 1/math.Sqrt(float64(h.Dim)), 0.0
	p := make([]float64, i+1)
	for j := range p {
		p[j] = math.Exp(dot(vector(qkv, at(i, 0)), vector(qkv, at(j, 1))) * scale)
		sum += p[j]
	}
	a.lse[(w*h.Count+head)*h.T+i] = math.Log(sum)
	out := (w*h.T+i)*width + head*h.Dim
	g, delta := vector(dmixed, out), 0.0
	dp := make([]float64, i+1)
	for j := range p {
		p[j] /= sum
		for c, v := range vector(qkv, at(j, 2)) {
			a.mixed[out+c] += p[j] * float64(v)
			a.dqkv[at(j, 2)+c] += p[j] * float64(g[c])
		}
		dp[j] = dot(g, vector(qkv, at(j, 2)))
		delta += p[j] * dp[j]
	}
	for j := range p {
		ds := p[j] * (dp[j] - delta) * scale
		for c := range h.Dim {
			a.dqkv[at(i, 0)+c] += ds * float64(qkv[at(j, 1)+c])
			a.dqkv[at(j, 1)+c] += ds * float64(qkv[at(i, 0)+c])
		}
	}
}

// TestBF16RoundsFP32 shows that the kernels of rows and elements compute the same in both precisions, up to one
// rounding at the end.
func TestBF16RoundsFP32(t *testing.T) {
	d := start(t, plain(t))
	for _, width := range []int{1, 6, 24, 129, 384} {
		rows := 5
		s, x := kernels.Sizes{Rows: rows, Count: rows * width}, upload(d, draw(rows*width, 1))
		half, full := room[uint16](d, rows*width), room[float32](d, rows*width)
		inverse, inverse2 := room[float32](d, rows), room[float32](d, rows)
		d.run("norm_forward_bf16", s, half, inverse, x, rows, width, float32(1e-5))
		d.run("norm_forward_fp32", s, full, inverse2, x, rows, width, float32(1e-5))
		same(t, "norm_forward", download[uint16](d, half), narrow(download[float32](d, full)))
		same(t, "inverse", download[float32](d, inverse), download[float32](d, inverse2))
		y, dy := download[uint16](d, half), narrow(draw(rows*width, 2))
		for add := range 2 {
			dx, dx2, rounded := upload(d, draw(rows*width, 3)), upload(d, draw(rows*width, 3)), room[uint16](d, rows*width)
			d.run("norm_backward_bf16", s, dx, rounded, upload(d, dy), half, inverse, rows, width, add)
			d.run("norm_backward_fp32", s, dx2, buffer{}, upload(d, widen(dy)), upload(d, widen(y)), inverse, rows, width, add)
			same(t, "norm_backward", download[float32](d, dx), download[float32](d, dx2))
			same(t, "its copy", download[uint16](d, rounded), narrow(download[float32](d, dx)))
		}
		for kind := range 2 {
			a, b := room[uint16](d, rows*width), upload(d, draw(rows*width, 4))
			d.run("act_forward_bf16", s, a, b, rows*width, kind)
			d.run("act_forward_fp32", s, b, b, rows*width, kind)
			same(t, "act_forward", download[uint16](d, a), narrow(download[float32](d, b)))
			g, g2 := room[uint16](d, rows*width), upload(d, draw(rows*width, 5))
			d.run("act_backward_bf16", s, g, g2, a, rows*width, kind)
			d.run("act_backward_fp32", s, g2, g2, upload(d, widen(download[uint16](d, a))), rows*width, kind)
			same(t, "act_backward", download[uint16](d, g), narrow(download[float32](d, g2)))
		}
		d.run("narrow", s, half, full, rows*width)
		same(t, "narrow", download[uint16](d, half), narrow(download[float32](d, full)))
		d.free()
	}
}

// same compares bits.
func same[T any](t *testing.T, name string, got, want []T) {
	t.Helper()
	if string(bytesOf(got)) != string(bytesOf(want)) {
		t.Fatalf("%s: %v, want %v", name, got, want)
	}
}

// TestCrossEntropyInBF16 compares with float64, and the columns of padding with zero.
func TestCrossEntropyInBF16(t *testing.T) {
	d := start(t, plain(t))
	for _, v := range []int{1, 7, 257, 2305} {
		defer d.free()
		rows, ld, first := 3, (v+63)/64*64, 2
		logits, tokens := draw(rows*ld, 1), make([]uint32, 2*(rows+first))
		for i := range tokens {
			tokens[i] = uint32(i*31) % uint32(v)
		}
		losses, gradient := room[float64](d, rows+first), room[uint16](d, rows*ld)
		d.run("cross_entropy_bf16", kernels.Sizes{Rows: rows}, losses, gradient, upload(d, logits), upload(d, tokens), first, rows, 1, v, ld)
		want, wantLoss := make([]float64, rows*ld), make([]float64, rows)
		for r := range rows {
			sum := 0.0
			for c := range v {
				sum += math.Exp(float64(logits[r*ld+c]))
			}
			target := int(tokens[2*(first+r)+1])
			wantLoss[r] = math.Log(sum) - float64(logits[r*ld+target])
			for c := range v {
				want[r*ld+c] = math.Exp(float64(logits[r*ld+c])) / sum
			}
			want[r*ld+target]--
		}
		got := widen(download[uint16](d, gradient))
		near(t, "dlogits", got, want, 0x1p-9)
		for i := range got {
			if i%ld >= v && got[i] != 0 {
				t.Fatalf("column %d of %d is %v in the padding, want 0", i%ld, v, got[i])
			}
		}
		for r, l := range download[float64](d, losses)[first:] {
			if math.Abs(l-wantLoss[r]) > 1e-6 {
				t.Fatalf("loss of row %d is %v, want %v", r, l, wantLoss[r])
			}
		}
	}
}
