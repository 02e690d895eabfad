package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

var negativeZero = float32(math.Copysign(0, -1))

// Products that underflow leave -0 in every partial sum, and a row's end of fewer elements
// than there are partial sums must not add +0 to the others.
func TestDotKeepsNegativeZero(t *testing.T) {
	for _, p := range Paths() {
		for n := range 3 * partials {
			x, y := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i], y[i] = -0x1p-100, 0x1p-100
			}
			want := negativeZero
			if n < partials {
				want = 0 // a partial sum without elements is +0
			}
			if got := p.Dot(x, y); !sameBits(got, want) {
				t.Errorf("%s: Dot of %d elements = %x, want %x", p, n, math.Float32bits(got), math.Float32bits(want))
			}
		}
	}
}

// Which of two zeros is the larger is a matter of their order: see larger.
func TestMaxOfZeros(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for _, n := range lengths() {
		for range 4 {
			x := make([]float32, n)
			for i := range x {
				x[i] = []float32{0, negativeZero, -1}[r.IntN(3)]
			}
			want := portableMax(x)
			for _, p := range Paths() {
				if got := p.Max(x); !sameBits(got, want) {
					t.Fatalf("%s: Max of %d zeros = %x, want %x", p, n, math.Float32bits(got), math.Float32bits(want))
				}
			}
		}
	}
}
