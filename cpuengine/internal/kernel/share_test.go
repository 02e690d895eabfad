package kernel

import (
	"slices"
	"sync"
	"testing"
)

// TestSharesKeepAWorkerAtItsBlock follows workers that take turns.
func TestSharesKeepAWorkerAtItsBlock(t *testing.T) {
	for _, c := range []struct {
		name                    string
		workers, blocks, groups int
		want                    [][2]int // (block, group), in order of taking
	}{
		{"one worker", 1, 2, 3, [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}},
		{"blocks that are not cut", 2, 3, 1, [][2]int{{0, 0}, {1, 0}, {2, 0}}},
		{"a block each", 2, 2, 2, [][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}}},
		{"an odd block is shared at the end", 2, 3, 2, [][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {2, 1}}},
		{"more workers than blocks", 3, 2, 3, [][2]int{{0, 0}, {1, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}}},
	} {
		s, at := newShares(8), []int{-1, -1, -1}
		for range 2 { // the second product finds nothing of the first
			s.begin(c.blocks, c.groups)
			at[0], at[1], at[2] = -1, -1, -1
			var got [][2]int
			for i := range s.pieces() {
				block, group := s.take(at[i%c.workers])
				at[i%c.workers] = block
				got = append(got, [2]int{block, group})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}

func TestSharesGiveEveryPieceOnce(t *testing.T) {
	s := newShares(16)
	for blocks := 1; blocks <= 16; blocks++ {
		for _, groups := range []int{1, 2, 5} {
			s.begin(blocks, groups)
			const workers = 4
			counts := make([][]int, workers)
			var group sync.WaitGroup
			for w := range workers {
				counts[w] = make([]int, blocks*groups)
				group.Go(func() {
					block := -1
					for i := w; i < s.pieces(); i += workers {
						b, g := s.take(block)
						block = b
						counts[w][b*groups+g]++
					}
				})
			}
			group.Wait()
			for i := range blocks * groups {
				if n := counts[0][i] + counts[1][i] + counts[2][i] + counts[3][i]; n != 1 {
					t.Fatalf("%d blocks of %d groups: piece %d was given %d times", blocks, groups, i, n)
				}
			}
		}
	}
}
