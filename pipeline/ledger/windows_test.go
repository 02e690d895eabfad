package ledger

import (
	"testing"

	"pgregory.net/rapid"

	"andrea/dataset"
)

// Any order of all windows is an epoch; a window that comes twice, or is none, is refused and counts nothing.
func TestAnEpochIsEveryWindowOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 200).Draw(t, "training")
		w := newWindows(dataset.Index{Training: n})
		for epoch := range uint64(3) {
			order := dataset.NewPermutation(n, 5, epoch)
			repeat := rapid.Uint64Range(0, n-1).Draw(t, "repeat")
			for p := range n {
				if w.epochs != epoch || w.marked != p || !w.mark(order.At(p)) {
					t.Fatalf("window %d of epoch %d: %+v", p, epoch, w)
				}
				if p < n-1 && p >= repeat && w.mark(order.At(repeat)) {
					t.Fatalf("the window at %d was taken twice in epoch %d", repeat, epoch)
				}
			}
			if w.mark(n) || w.mark(^uint64(0)) {
				t.Fatal("a window was taken that is not for training")
			}
		}
		if w.epochs != 3 || w.marked != 0 {
			t.Fatalf("%d epochs and %d windows", w.epochs, w.marked)
		}
	})
}
