package kernel

// mixGroup is how many elements the kernel of MixSums takes at a time.
const mixGroup = 8

// MixSums returns the two sums that model.DigestOf takes over the first done elements of x:
// all but a rest of fewer than eight, or none on a path that has no faster way than plain Go.
// Index is that of the first element as the digest mixes it, kind in its top bits, position
// in the rest of the upper half, and 0 in the lower.
func (p *Path) MixSums(index uint64, x []float32) (sums [2]uint64, done int) {
	if p.mix == nil {
		return sums, 0
	}
	sums[0], sums[1] = p.mix(index, x)
	return sums, len(x) / mixGroup * mixGroup
}

// SumSquares returns the bits of model.SumSquares, the sum of squares of x in float64; false on
// a path that has no faster way than plain Go.
func (p *Path) SumSquares(x []float32) (sum float64, ok bool) {
	if p.sumSquares == nil {
		return 0, false
	}
	return p.sumSquares(x), true
}
