package model

import (
	"math"

	"andrea/numeric"
)

// InitBucket writes the initial weights of bucket i of the layout into dst, whose
// length is the bucket's. Element e of tensor t is a pure function of (seed, t, e),
// so buckets can be filled in any order and by anybody.
func (l Layout) InitBucket(seed uint64, i int, dst []float32) {
	lo, hi := l.Bucket(i)
	l.Pieces(lo, hi, func(t, from, to int) {
		tensor := l.Tensors[t]
		part := dst[from-lo : to-lo]
		if tensor.InitStd == 0 {
			clear(part)
			return
		}
		key := numeric.Mix64(numeric.Mix64(seed) + uint64(t))
		for j := range part {
			part[j] = float32(tensor.InitStd * normal(key, uint64(from-tensor.Offset+j)))
		}
	})
}

// normal returns element e of the sequence of standard normal values of key, by
// Box and Muller (1958) from two uniform values.
func normal(key, e uint64) float64 {
	u := uniform(numeric.Mix64(key ^ numeric.Mix64(2*e)))
	v := uniform(numeric.Mix64(key ^ numeric.Mix64(2*e+1)))
	return math.Sqrt(-2*numeric.Log(u)) * numeric.Cos(2*math.Pi*v)
}

// uniform maps 53 bits to the middle of one of 2^53 equal parts of (0, 1]; above 1/2
// the middle is rounded to a border, so 1 can occur, for which normal gives 0.
func uniform(x uint64) float64 { return (float64(x>>11) + 0.5) * 0x1p-53 }
