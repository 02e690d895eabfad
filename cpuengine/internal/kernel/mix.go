package kernel

// mixGroup is how many elements the kernels of MixSums and AdamWMix take at a time.
const mixGroup = 16

// MixSums returns the two sums that model.DigestOf takes over the first done elements of x:
// all but a rest of fewer than 16, or none on a path that has no faster way than plain Go.
// Index is that of the first element as the digest mixes it, kind in its top bits, position
// in the rest of the upper half, and 0 in the lower.
func (p *Path) MixSums(index uint64, x []float32) (sums [2]uint64, done int) {
	if p.mix == nil {
		return sums, 0
	}
	sums[0], sums[1] = p.mix(index, x)
	return sums, len(x) / mixGroup * mixGroup
}

// AdamWMix is AdamW on the first done elements of w, m, v and g, and returns the two sums of the digest of its
// results: those of MixSums of w, m and v as kinds 0, 1 and 2 of the same position, added. Index is the position in
// the upper half, without a kind. Done is all but a rest of fewer than 16, or none on a path
// that gains nothing by doing both at once.
func (p *Path) AdamWMix(w, m, v, g []float32, h AdamW, index uint64) (sums [2]uint64, done int) {
	if p.adamWMix == nil {
		return sums, 0
	}
	done = len(w) / mixGroup * mixGroup
	sums[0], sums[1] = p.adamWMix(w[:done], m[:done], v[:done], g[:done], h, index)
	return sums, done
}

// SumSquares returns the bits of model.SumSquares, the sum of squares of x in float64; false on
// a path that has no faster way than plain Go.
func (p *Path) SumSquares(x []float32) (sum float64, ok bool) {
	if p.sumSquares == nil {
		return 0, false
	}
	return p.sumSquares(x), true
}
