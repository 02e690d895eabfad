package tokenizer

import (
	"cmp"
	"slices"

	"andrea/numeric"
)

// ChooseSample picks the documents to learn from, given their sizes in bytes: drawn one after the other by seed until
// they fill budget bytes. It returns their indices in the order drawn, which the caller owns. The last one may pass
// the budget, and a Learner of that budget takes the part of it that fits. Empty documents are never drawn. The result
// depends on the arguments only.
func ChooseSample(sizes []int64, budget int64, seed uint64) []int {
	type draw struct {
		rank  uint64
		index int
	}
	draws := make([]draw, 0, len(sizes))
	for i, size := range sizes {
		if size > 0 {
			draws = append(draws, draw{rank: numeric.Mix64(numeric.Mix64(seed) + uint64(i)), index: i})
		}
	}
	slices.SortFunc(draws, func(a, b draw) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.index, b.index))
	})
	var chosen []int
	for _, d := range draws {
		if budget <= 0 {
			break
		}
		chosen = append(chosen, d.index)
		budget -= sizes[d.index]
	}
	return chosen
}
