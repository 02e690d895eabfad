package dataset

import (
	"math/bits"

	"andrea/numeric"
)

const (
	// With 8 bits the order of tiny domains is even from 4 rounds on; 8 rounds are the margin. With
	// fewer bits no number of rounds helps: there are too few distinct round functions.
	rounds  = 8
	minBits = 8

	golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, odd: steps through all 64-bit keys
)

// Permutation is a keyed bijection of the numbers 0..n-1 with random access in constant time and
// memory. It is a value; copies are equal and it is safe for concurrent use.
//
// It is a balanced Feistel network of 8 rounds over 2h bits, the smallest even number of bits, at
// least 8, that holds n-1. With x = L·2^h + R, one round is
//
//	(L, R) <- (R, L xor (Finalize64(R xor key) >> (64-h)))
//
// where Finalize64 is that of package numeric and the 8 keys come from (seed, epoch). A result
// that is not below n is put through the network again (cycle walking): on average 2^2h/n passes,
// which is below 4 from n = 65 on; no walk is longer than 2^2h - n + 1.
type Permutation struct {
	n    uint64
	half uint
	keys [rounds]uint64
}

// NewPermutation returns the permutation of 0..n-1 that belongs to seed and epoch.
func NewPermutation(n uint64, seed, epoch uint64) Permutation {
	width := minBits
	if n > 0 {
		width = max(width, bits.Len64(n-1))
	}
	p := Permutation{n: n, half: uint(width+1) / 2}
	state := numeric.Finalize64(numeric.Mix64(seed) + epoch)
	for i := range p.keys {
		state += golden
		p.keys[i] = numeric.Finalize64(state)
	}
	return p
}

// At returns the i-th number of the order. For i >= n, where there is no order, it returns i.
func (p *Permutation) At(i uint64) uint64 {
	if i >= p.n {
		return i
	}
	// A bijection of the domain leads from i back to i, so the walk meets a number below n.
	x := p.encipher(i)
	for x >= p.n {
		x = p.encipher(x)
	}
	return x
}

func (p *Permutation) encipher(x uint64) uint64 {
	left, right := x>>p.half, x&(1<<p.half-1)
	for _, key := range p.keys {
		left, right = right, left^numeric.Finalize64(right^key)>>(64-p.half)
	}
	return left<<p.half | right
}
