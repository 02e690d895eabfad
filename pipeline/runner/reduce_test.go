package runner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"andrea/model"
)

// However the tree is cut into leases, its sum has the bits of the whole tree's.
func TestSumTreeDoesNotDependOnTheCut(t *testing.T) {
	const lanes, elements = 16, 37
	rng := rand.New(rand.NewPCG(1, 2))
	leaves := make([]part, lanes)
	for i := range leaves {
		leaves[i] = part{lo: i, hi: i + 1, grad: make([]float32, elements)}
		for j := range leaves[i].grad {
			leaves[i].grad[j] = float32(rng.NormFloat64()) * float32(int(1)<<rng.IntN(20))
		}
	}
	want := sumTree(model.Plain{}, clone(leaves), 0, lanes)
	for range 200 {
		var cut func(lo, hi int) []part
		cut = func(lo, hi int) []part {
			if hi-lo == 1 || rng.IntN(2) == 0 {
				return []part{{lo: lo, hi: hi, grad: sumTree(model.Plain{}, clone(leaves), lo, hi)}}
			}
			middle := (lo + hi) / 2
			return append(cut(lo, middle), cut(middle, hi)...)
		}
		parts := cut(0, lanes)
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		if got := sumTree(model.Plain{}, parts, 0, lanes); !slices.Equal(got, want) {
			t.Fatalf("the sum of %d parts differs", len(parts))
		}
	}
	straight := slices.Clone(leaves[0].grad)
	for _, l := range leaves[1:] {
		for i := range straight {
			straight[i] += l.grad[i]
		}
	}
	if slices.Equal(straight, want) {
		t.Error("the drawn numbers do not tell a tree from a chain")
	}
}

func clone(parts []part) []part {
	c := slices.Clone(parts)
	for i := range c {
		c[i].grad = slices.Clone(c[i].grad)
	}
	return c
}
