package enginetest

import (
	"fmt"
	"math"
)

// floor is the part of the tolerance that does not depend on the plain version.
const floor = 0x1p-20

// measured is one tensor three times: from the engine, from the float64 reference
// and from the plain version. scale is what the floor is relative to; nil means the
// reference itself. floor is 0 for the constant.
type measured struct {
	name             string
	got, want, plain []float64
	scale            []float64
	floor            float64
}

// check applies the tolerance rule of the package comment.
func (m measured) check() error {
	scale := m.scale
	if scale == nil {
		scale = m.want
	}
	least := m.floor
	if least == 0 {
		least = floor
	}
	if len(m.got) != len(m.want) {
		return fmt.Errorf("%s: %d values, want %d", m.name, len(m.got), len(m.want))
	}
	for _, n := range []struct {
		name string
		of   func(x, y []float64) float64
	}{{"largest", largest}, {"root of squares", rootOfSquares}} {
		got, plain := n.of(m.got, m.want), n.of(m.plain, m.want)
		limit := 2*plain + least*n.of(scale, nil)
		if !(got <= limit) { // also when got is NaN
			return fmt.Errorf("%s: error %.3g (%s), limit %.3g: the plain version has %.3g, the reference is %.3g", m.name, got, n.name, limit, plain, n.of(m.want, nil))
		}
	}
	return nil
}

// difference is x[i] - y[i], with y nil for zero.
func difference(x, y []float64, i int) float64 {
	if y == nil {
		return x[i]
	}
	return x[i] - y[i]
}

// largest is max |x - y|; NaN if any is.
func largest(x, y []float64) (norm float64) {
	for i := range x {
		norm = max(norm, math.Abs(difference(x, y, i)))
	}
	return norm
}

// rootOfSquares is sqrt(Σ(x - y)²).
func rootOfSquares(x, y []float64) float64 {
	var sum float64
	for i := range x {
		d := difference(x, y, i)
		sum += float64(d * d)
	}
	return math.Sqrt(sum)
}
