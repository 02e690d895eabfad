package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// Vectors are the passes over elements outside an engine, on one instruction set.
type Vectors struct{ path *kernel.Path }

var _ model.Vectors = Vectors{}

// NewVectors chooses the instruction set by name, the fastest one for "". The error names
// those that there are.
func NewVectors(path string) (Vectors, error) {
	p, err := choosePath(path)
	return Vectors{path: p}, err
}

// Add implements model.Vectors.
func (v Vectors) Add(dst, src []float32) { v.path.Add(dst, dst, src) }

// DigestOf implements model.Vectors.
func (v Vectors) DigestOf(kind model.Kind, start int, x []float32) model.Digest {
	return digestOf(v.path, kind, start, x)
}

// SumSquares implements model.Vectors.
func (v Vectors) SumSquares(x []float32) float64 {
	if sum, ok := v.path.SumSquares(x); ok {
		return sum
	}
	return model.SumSquares(x)
}
