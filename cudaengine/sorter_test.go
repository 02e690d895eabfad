//go:build cuda && cgo && linux

package cudaengine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"andrea/model"
)

// Every row is there once, among the rows of its token, in order.
func TestSorterOrdersRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vocab := rapid.IntRange(1, 9).Draw(t, "vocab")
		s := newSorter(vocab)
		for range 2 { // the second time finds what the first left
			b := model.Batch{Windows: rapid.IntRange(1, 3).Draw(t, "windows"), T: rapid.IntRange(1, 20).Draw(t, "T")}
			b.Tokens = rapid.SliceOfN(rapid.Uint32Range(0, uint32(vocab-1)), b.Windows*(b.T+1), b.Windows*(b.T+1)).Draw(t, "tokens")
			rows := b.Windows * b.T
			order, starts, ids := make([]uint32, rows), make([]uint32, rows+1), make([]uint32, rows)
			n := s.sort(b, order, starts, ids)
			var all []uint32
			for i, id := range ids[:n] {
				mine := order[starts[i]:starts[i+1]]
				if len(mine) == 0 || !slices.IsSorted(mine) || slices.Contains(ids[:i], id) {
					t.Fatalf("token %d has rows %v", id, mine)
				}
				for _, r := range mine {
					if got := b.Window(int(r) / b.T)[int(r)%b.T]; got != id {
						t.Fatalf("row %d has token %d, not %d", r, got, id)
					}
				}
				all = append(all, mine...)
			}
			slices.Sort(all)
			if len(slices.Compact(all)) != rows || int(starts[n]) != rows {
				t.Fatalf("%d of %d rows", len(all), rows)
			}
		}
	})
}
