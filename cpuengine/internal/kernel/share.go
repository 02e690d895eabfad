package kernel

import "sync/atomic"

// shares hands out the pieces of a product: blocks of rows, each cut into groups of panels, or by panels the other way round.
// A worker stays with its block, which it has packed, as long as that has groups left,
// and begins with others' when no block is untouched. Who computes what does not show.
type shares struct {
	blocks, groups int
	next           atomic.Int64   // the first untouched block
	taken          []atomic.Int64 // groups of each block that were handed out, or more
}

// newShares returns shares for up to that many blocks that are cut.
func newShares(blocks int) *shares { return &shares{taken: make([]atomic.Int64, blocks)} }

// begin starts a product. Blocks beyond those of newShares must not be cut.
func (s *shares) begin(blocks, groups int) {
	s.blocks, s.groups = blocks, groups
	s.next.Store(0)
	if groups > 1 {
		for i := range blocks {
			s.taken[i].Store(0)
		}
	}
}

// pieces is how often take must be called.
func (s *shares) pieces() int { return s.blocks * s.groups }

// take returns a piece for a worker that took one of the given block before, or of none (-1).
func (s *shares) take(block int) (same, group int) {
	if s.groups == 1 {
		return int(s.next.Add(1)) - 1, 0
	}
	if block >= 0 {
		if group = s.of(block); group >= 0 {
			return block, group
		}
	}
	for {
		if block = int(s.next.Add(1)) - 1; block >= s.blocks {
			break
		}
		if group = s.of(block); group >= 0 {
			return block, group
		}
	}
	for { // every call has a piece, so one is left for this one
		for block = range s.blocks {
			if group = s.of(block); group >= 0 {
				return block, group
			}
		}
	}
}

// of takes a group of a block; -1 when none is left.
func (s *shares) of(block int) int {
	if s.taken[block].Load() >= int64(s.groups) {
		return -1
	}
	if group := int(s.taken[block].Add(1)) - 1; group < s.groups {
		return group
	}
	return -1
}
