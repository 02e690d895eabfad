package cpuengine

import "unsafe"

// lineFloats is a cache line in float32 elements: what slices of an arena are
// aligned to, and the width of the widest vector.
const lineFloats = 16

// arena hands out pieces of one block of float32. Without a block it only counts,
// so that the memory an engine needs is known before it is allocated.
type arena struct {
	block []float32
	used  int // float32 elements handed out, padding included
}

// newArena allocates a block of n elements that starts on a cache line.
func newArena(n int) *arena {
	block := make([]float32, n+lineFloats)
	misaligned := int(uintptr(unsafe.Pointer(unsafe.SliceData(block))) / 4 % lineFloats)
	return &arena{block: block[(lineFloats-misaligned)%lineFloats:]}
}

// floats returns the next n elements, zero and aligned to a cache line; nil when
// the arena only counts.
func (a *arena) floats(n int) []float32 {
	from := a.used
	a.used += (n + lineFloats - 1) / lineFloats * lineFloats
	if a.block == nil {
		return nil
	}
	return a.block[from : from+n : from+n]
}
