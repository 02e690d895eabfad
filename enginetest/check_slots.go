package enginetest

import (
	"math"

	"andrea/model"
)

// specials are bits that a copy must not change.
var specials = []uint32{
	0x00000000, 0x80000000, // both zeros
	0x00000001, 0x807fffff, // subnormals
	0x7f7fffff, 0x7f800000, 0xff800000, // the largest value, infinities
	0x7fc12345, // NaN with a payload
}

// drawBits draws n values of many magnitudes, among them the specials.
func drawBits(n int, seed uint64) []float32 {
	x := drawMagnitudes(n, seed)
	for i, bits := range specials {
		x[i*(n-1)/len(specials)] = math.Float32frombits(bits)
	}
	return x
}

// drawMagnitudes draws n values of magnitudes from 2^-40 to 2^41, positive and
// negative: random signs and mantissas, exponents of these.
func drawMagnitudes(n int, seed uint64) []float32 {
	rng := source(seed)
	x := make([]float32, n)
	for i := range x {
		exponent := uint32(127 - 40 + rng.IntN(81))
		x[i] = math.Float32frombits(rng.Uint32()&0x807fffff | exponent<<23)
	}
	return x
}

func checkInfo(t tester, open opener) {
	r := mount(t, open, tiny(), 1, 1, DrawState(tiny(), 1))
	first := r.engine.Info()
	if first.Class == "" || first.Device == "" || first.Bytes < int64(r.layout.Size)*4*4 {
		t.Fatalf("Info is %+v: want a class, a device, and at least the bytes of the state and one gradient", first)
	}
	r.accumulate(0, DrawBatch(r.cfg, 1, 5, 2))
	if again := r.engine.Info(); again != first {
		t.Fatalf("Info changed from %+v to %+v", first, again)
	}
}

func checkStateRoundTrip(t tester, open opener) {
	cfg := twoBuckets()
	n := model.NewLayout(cfg).Size
	want := State{drawBits(n, 1), drawBits(n, 2), drawBits(n, 3)}
	given := State{append([]float32(nil), want.W...), append([]float32(nil), want.M...), append([]float32(nil), want.V...)}
	r := mount(t, open, cfg, 1, 1, given)
	for _, x := range [][]float32{given.W, given.M, given.V} {
		clear(x) // the slices are the caller's again
	}
	r.sameState("after Load, Save", r.save(), want)

	// A bucket of its own: the other stays.
	lo, hi := r.layout.Bucket(1)
	for i := lo; i < hi; i++ {
		want.W[i], want.M[i], want.V[i] = 1, 2, 3
	}
	r.ok("Load", r.engine.Load(1, want.W[lo:hi], want.M[lo:hi], want.V[lo:hi]))
	r.sameState("after Load of bucket 1", r.save(), want)
}

func checkGradientRoundTrip(t tester, open opener) {
	cfg := twoBuckets()
	r := mount(t, open, cfg, 1, 2, DrawState(cfg, 1))
	want := [][]float32{drawBits(r.layout.Size, 2), drawBits(r.layout.Size, 3)}
	for slot, g := range want {
		given := append([]float32(nil), g...)
		r.write(slot, given)
		clear(given)
	}
	r.sameBits("slot 0 after WriteGrad", r.read(0), want[0])
	r.sameBits("slot 1 after WriteGrad", r.read(1), want[1])
}

func checkZero(t tester, open opener) {
	cfg := twoBuckets()
	r := mount(t, open, cfg, 1, 2, DrawState(cfg, 1))
	g := drawBits(r.layout.Size, 2)
	r.write(0, g)
	r.write(1, g)
	r.zero(0)
	r.sameBits("slot 0 after Zero", r.read(0), make([]float32, r.layout.Size))
	r.sameBits("slot 1 after Zero of slot 0", r.read(1), g)
}

func checkFold(t tester, open opener) {
	cfg := twoBuckets()
	r := mount(t, open, cfg, 1, 3, DrawState(cfg, 1))
	dst, src, other := drawVector(r.layout.Size, 3, 2), drawVector(r.layout.Size, 3, 3), drawMagnitudes(r.layout.Size, 4)
	// The first elements cancel, overflow, keep a subnormal and the sign of zero.
	copy(dst, []float32{1, math.MaxFloat32, 0x1p-149, 0, float32(math.Copysign(0, -1))})
	copy(src, []float32{-1, math.MaxFloat32, 0x1p-148, 0, float32(math.Copysign(0, -1))})
	r.write(0, dst)
	r.write(1, other)
	r.write(2, src)
	r.fold(0, 2)
	want := make([]float32, r.layout.Size)
	for i := range want {
		want[i] = dst[i] + src[i]
	}
	r.sameBits("slot 0 after Fold(0, 2)", r.read(0), want)
	r.sameBits("slot 1 after Fold(0, 2)", r.read(1), other)
	r.sameBits("slot 2 after Fold(0, 2)", r.read(2), src)
}

func checkSumSquares(t tester, open opener) {
	cfg := twoBuckets()
	r := mount(t, open, cfg, 1, 2, DrawState(cfg, 1))
	for slot := range 2 {
		g := drawVector(r.layout.Size, 3, uint64(slot))
		r.write(slot, g)
		sums := make([]float64, r.layout.Buckets())
		r.ok("SumSquares", r.engine.SumSquares(slot, sums))
		for b, got := range sums {
			lo, hi := r.layout.Bucket(b)
			if want := model.SumSquares(g[lo:hi]); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("SumSquares of slot %d, bucket %d is %v, want %v", slot, b, got, want)
			}
		}
	}
}

func checkDigests(t tester, open opener) {
	cfg := twoBuckets()
	n := model.NewLayout(cfg).Size
	s := State{drawBits(n, 1), drawBits(n, 2), drawBits(n, 3)}
	r := mount(t, open, cfg, 1, 2, s)
	for slot := range 2 {
		g := drawBits(n, uint64(4+slot))
		r.write(slot, g)
		for b := range r.layout.Buckets() {
			lo, hi := r.layout.Bucket(b)
			got, err := r.engine.GradDigest(slot, b)
			r.ok("GradDigest", err)
			if want := model.DigestOf(model.Gradient, lo, g[lo:hi]); got != want {
				t.Fatalf("GradDigest of slot %d, bucket %d is %v, want %v", slot, b, got, want)
			}
		}
	}
	for b := range r.layout.Buckets() {
		lo, hi := r.layout.Bucket(b)
		got, err := r.engine.StateDigest(b)
		r.ok("StateDigest", err)
		if want := model.StateDigestOf(lo, s.W[lo:hi], s.M[lo:hi], s.V[lo:hi]); got != want {
			t.Fatalf("StateDigest of bucket %d is %v, want %v", b, got, want)
		}
	}
}
