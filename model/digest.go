package model

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"andrea/numeric"
)

// Digest identifies the bits of a set of float32 elements by two sums modulo 2^64: of a bijective
// mix of (kind, element index, bits), so that one element alone cannot change unseen, and of the product of
// the mix's halves, which takes what the first sum lets pass. The order of
// summation does not matter, so digests of disjoint ranges add up. It finds
// corruption, not malice.
type Digest [2]uint64

// Kind gives the tensors of a digest index ranges of their own.
type Kind uint64

// What an element is.
const (
	Weight       Kind = iota // a parameter
	FirstMoment              // m of AdamW
	SecondMoment             // v of AdamW
	Gradient                 // a gradient
)

// Keys of the two sums of token ids, the first also that of elements, and odd multipliers of the mix.
const (
	digestKey0 = 0x243f6a8885a308d3
	digestKey1 = 0x13198a2e03707344
	digestMul0 = 0x9fb21c651e98df25
	digestMul1 = 0xd6e8feb86659fd93
)

// DigestOf returns the digest of x, whose first element has the index start in the
// flat vector; start+len(x) <= MaxParameters.
func DigestOf(kind Kind, start int, x []float32) Digest {
	index := uint64(kind)<<62 + uint64(start)<<32 + digestKey0
	var s0, s1 uint64
	for _, f := range x {
		h := (index + uint64(math.Float32bits(f))) * digestMul0
		h = (h ^ h>>32) * digestMul1
		s0 += h ^ h>>32
		s1 += h >> 32 * (h & math.MaxUint32)
		index += 1 << 32
	}
	return Digest{s0, s1}
}

// TokenDigestOf returns the digest of token ids, the first of which has the index
// start in its lane. Like the others it adds up over disjoint ranges.
func TokenDigestOf(start int, ids []uint32) Digest {
	var d Digest
	for i, id := range ids {
		e := uint64(start+i)<<32 | uint64(id)
		d[0] += numeric.Mix64(e ^ digestKey0)
		d[1] += numeric.Mix64(e ^ digestKey1)
	}
	return d
}

// StateDigestOf is the digest of the part of a state that starts at element start:
// weights and both moments.
func StateDigestOf(start int, params, m, v []float32) Digest {
	return DigestOf(Weight, start, params).
		Add(DigestOf(FirstMoment, start, m)).
		Add(DigestOf(SecondMoment, start, v))
}

// Add returns the digest of the union of two disjoint sets.
func (d Digest) Add(e Digest) Digest { return Digest{d[0] + e[0], d[1] + e[1]} }

// String is the digest as 32 hexadecimal digits.
func (d Digest) String() string {
	b := d.bytes()
	return hex.EncodeToString(b[:])
}

func (d Digest) bytes() (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], d[0])
	binary.BigEndian.PutUint64(b[8:], d[1])
	return b
}

// ParseDigest reads what String wrote.
func ParseDigest(s string) (Digest, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return Digest{}, fmt.Errorf("reading a digest: %.40q is not 32 hexadecimal digits", s)
	}
	return Digest{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}, nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDigest(string(text))
	return err
}
