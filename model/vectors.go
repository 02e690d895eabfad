package model

// Vectors are the passes over float32 elements that gradients and states make on their way
// between processes. All give the bits of Plain; an engine's processor may be faster. They may be called from several
// goroutines at once.
type Vectors interface {
	// Add adds src to dst, element by element; the slices have one length.
	Add(dst, src []float32)
	// DigestOf is the function of that name.
	DigestOf(kind Kind, start int, x []float32) Digest
	// SumSquares is the function of that name.
	SumSquares(x []float32) float64
}

// Plain are Vectors in plain Go.
type Plain struct{}

// Add implements Vectors.
func (Plain) Add(dst, src []float32) {
	for i, f := range src {
		dst[i] += f
	}
}

// DigestOf implements Vectors.
func (Plain) DigestOf(kind Kind, start int, x []float32) Digest { return DigestOf(kind, start, x) }

// SumSquares implements Vectors.
func (Plain) SumSquares(x []float32) float64 { return SumSquares(x) }
