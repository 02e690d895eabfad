package checksum

import (
	"math/bits"

	"golang.org/x/sys/cpu"
)

// wide reports that the processor, and the operating system, can do what fold needs.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// foldBytes is what one turn of fold takes in, in bytes.
const foldBytes = 256

// factors are those of fold, a pair for each distance in bits between what is folded and where it goes to: from
// one turn to the next, from one register to the next, from one quarter of a register to the next.
var factors = func() (f [6]uint64) {
	for i, distance := range []int{8 * foldBytes, 512, 128} {
		f[2*i] = power(distance + 64 - 1)
		f[2*i+1] = power(distance - 1)
	}
	return f
}()

// power is x^n modulo the polynomial of CRC-32C, as the upper half of 64 coefficients of which the lowest
// bit is the highest one.
func power(n int) uint64 {
	const polynomial = 0x1EDC6F41 // without x^32
	r := uint32(1)
	for range n {
		carry := r >> 31
		r = r<<1 ^ carry*polynomial
	}
	return uint64(bits.Reverse32(r)) << 32
}

// updateWide is Update for the whole turns at the beginning of p, of which there is one at least; rest is what follows.
func updateWide(sum uint32, p []byte) (after uint32, rest []byte) {
	n := len(p) / foldBytes * foldBytes
	return ^fold(^sum, p[:n], &factors), p[n:]
}

// fold returns the remainder that is left of p, whose length is a positive multiple of foldBytes, when sum is added
// to its first four bytes. A polynomial over two elements stays the same modulo another one when its highest
// coefficients are multiplied by x^d modulo that and added d places further down: so 4 registers of 512 bits go
// over p, until 128 bits are left.
//
// Gopal, Ozturk, Guilford, Wolrich, Feghali, Dixon, Karakoyunlu: Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction. Intel 2009.
//
//go:noescape
func fold(sum uint32, p []byte, factors *[6]uint64) uint32
