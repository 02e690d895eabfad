package cpuengine

import "andrea/cpuengine/internal/kernel"

// lineFloats is a cache line in float32 elements: what slices of an arena are
// aligned to, and the width of the widest vector.
const lineFloats = 16

// arena hands out pieces of one block of float32. Without a block it only counts,
// so that the memory an engine needs is known before it is allocated.
type arena struct {
	block []float32
	used  int // float32 elements handed out, padding included
}

// newArena allocates a block of n elements.
func newArena(n int) *arena { return &arena{block: kernel.Floats(n)} }

// floats returns the next n elements, zero and aligned to a cache line; nil when
// the arena only counts.
func (a *arena) floats(n int) []float32 {
	from := a.used
	a.used += wholeLines(n)
	if a.block == nil {
		return nil
	}
	return a.block[from : from+n : from+n]
}
