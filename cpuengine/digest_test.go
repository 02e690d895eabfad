package cpuengine

import (
	"math"
	"math/rand/v2"
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// Every path gives the digest that package model defines, whatever the bits, the length
// and the place in the flat vector, up to its end.
func TestDigestsAreThoseOfTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, 3*spanSize+7)
	for i := range x {
		x[i] = math.Float32frombits(r.Uint32())
	}
	for _, path := range kernel.Paths() {
		d := &device{path: path}
		for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 17, 100, spanSize, len(x)} {
			for _, start := range []int{0, 1, 1 << 20, model.MaxParameters - n} {
				for kind := model.Weight; kind <= model.Gradient; kind++ {
					part := x[len(x)-n:]
					if got, want := d.digestOf(kind, start, part), model.DigestOf(kind, start, part); got != want {
						t.Fatalf("%s: digest of %d elements of kind %d from %d on is %s, want %s", path, n, kind, start, got, want)
					}
				}
			}
		}
		if got, want := d.stateDigestOf(5, x[:50], x[50:100], x[100:150]), model.StateDigestOf(5, x[:50], x[50:100], x[100:150]); got != want {
			t.Errorf("%s: digest of a state is %s, want %s", path, got, want)
		}
	}
}

// The kernels' sums of squares are the model's, for every rest and for numbers whose squares
// float32 could not hold.
func TestSumSquaresIsTheModels(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, path := range kernel.Paths() {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 31, 1000, 4099} {
			for _, scale := range []float64{1, 1e-40, 1e38} {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(scale * (2*r.Float64() - 1))
				}
				got, ok := path.SumSquares(x)
				if want := model.SumSquares(x); ok && math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("%s: %d elements of %v: %v, want %v", path, n, scale, got, want)
				}
			}
		}
	}
}
