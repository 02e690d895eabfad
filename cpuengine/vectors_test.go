package cpuengine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"andrea/model"
)

// On every path the passes give the bits of plain Go, for any length and place.
func TestVectorsGiveTheBitsOfPlainGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, path := range Paths() {
		v, err := NewVectors(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			n, start := rng.IntN(300), rng.IntN(1<<20)
			x, y := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i], y[i] = float32(rng.NormFloat64()), float32(rng.ExpFloat64())*1e-3
			}
			if got, want := v.DigestOf(model.Gradient, start, x), model.DigestOf(model.Gradient, start, x); got != want {
				t.Fatalf("%s: digest of %d elements from %d is %s, want %s", path, n, start, got, want)
			}
			if got, want := v.SumSquares(x), model.SumSquares(x); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%s: sum of %d squares is %v, want %v", path, n, got, want)
			}
			sum, want := slices.Clone(x), slices.Clone(x)
			v.Add(sum, y)
			model.Plain{}.Add(want, y)
			if !slices.Equal(sum, want) {
				t.Fatalf("%s: the sum of %d elements differs", path, n)
			}
		}
	}
	if _, err := NewVectors("mmx"); err == nil {
		t.Error("an unknown path is taken")
	}
}
