package ledger

import "andrea/dataset"

// Tokens is a token stream, such as a dataset.
type Tokens interface {
	// Read fills dst with the tokens from start on.
	Read(dst []uint32, start uint64) error
}

// windows counts which windows of an epoch were trained. It takes a bit for each training window, for which a
// dataset holds two bytes or more of every token.
type windows struct {
	training uint64
	seen     []uint64 // a bit each
	marked   uint64   // bits set
	epochs   uint64   // finished: every training window was marked once
}

func newWindows(ix dataset.Index) *windows {
	return &windows{training: ix.Training, seen: make([]uint64, (ix.Training+63)/64)}
}

// mark counts a window of the running epoch. false: there is no such training window, or it was marked in this epoch
// before. An epoch is finished when all are marked; until then a repeated one is refused, so none is left out.
func (w *windows) mark(window uint64) bool {
	if window >= w.training || w.seen[window/64]>>(window%64)&1 != 0 {
		return false
	}
	w.seen[window/64] |= 1 << (window % 64)
	if w.marked++; w.marked == w.training {
		clear(w.seen)
		w.epochs, w.marked = w.epochs+1, 0
	}
	return true
}
