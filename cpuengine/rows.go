package cpuengine

import "andrea/cpuengine/internal/kernel"

// rows is a range of columns of a row-major matrix.
type rows struct {
	data   []float32 // from the first element on; the engine's
	stride int       // from row to row, in elements
	width  int       // columns
}

// row returns row i.
func (r rows) row(i int) []float32 { return r.data[i*r.stride:][:r.width:r.width] }

// matrix returns n rows from row first on.
func (r rows) matrix(first, n int) kernel.Matrix {
	return kernel.View(r.data[first*r.stride:], n, r.width, r.stride)
}

// dense is a matrix without gaps between the rows.
func dense(data []float32, n, width int) kernel.Matrix {
	return kernel.View(data, n, width, width)
}

// blocks is how many blocks of the given size n elements need.
func blocks(n, size int) int { return (n + size - 1) / size }

// block returns the range of block i of n elements.
func block(i, size, n int) (lo, hi int) { return i * size, min((i+1)*size, n) }
