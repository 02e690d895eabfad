package cpuengine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// The kernel that updates and mixes at once does what the two do one after the other, whatever the length, the place
// and the bits, as far as it says that it has come; the rest it leaves alone.
func TestUpdateAndDigestAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	h := kernel.AdamW{Scale: 0.5, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05, LR: 1e-3, Correction1: 0.1, Correction2: 0.05, Eps: 1e-8, Decay: 0.1}
	for _, path := range kernel.Paths() {
		for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 48, 1000, spanSize} {
			for _, start := range []int{0, 1, model.MaxParameters - n} {
				var got, want [4][]float32
				for i := range got {
					got[i] = drawElements(r, n, i == 2)
					want[i] = slices.Clone(got[i])
				}
				sums, done := path.AdamWMix(got[0], got[1], got[2], got[3], h, digestIndex(model.Weight, start))
				if whole := n / 16 * 16; done != whole && (done != 0 || path.String() == "avx512") {
					t.Fatalf("%s: %d of %d elements are done", path, done, n)
				}
				path.AdamW(want[0][:done], want[1][:done], want[2][:done], want[3][:done], h)
				for i := range got {
					for j := range got[i] {
						if math.Float32bits(got[i][j]) != math.Float32bits(want[i][j]) {
							t.Fatalf("%s: element %d of %d of vector %d is %v, want %v", path, j, n, i, got[i][j], want[i][j])
						}
					}
				}
				if digest := model.StateDigestOf(start, want[0][:done], want[1][:done], want[2][:done]); digest != sums {
					t.Fatalf("%s: digest of %d elements from %d on is %v, want %v", path, done, start, sums, digest)
				}
			}
		}
	}
}

// drawElements draws numbers of all sizes, zeros and infinities among them.
func drawElements(r *rand.Rand, n int, positive bool) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Ldexp(r.Float64()-0.5, r.IntN(300)-160))
		if r.IntN(8) == 0 {
			x[i] = []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1))}[r.IntN(3)]
		}
		if positive {
			x[i] = float32(math.Abs(float64(x[i])))
		}
	}
	return x
}
