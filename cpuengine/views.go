package cpuengine

import "andrea/cpuengine/internal/kernel"

// columns is a range of columns of a row-major matrix.
type columns struct {
	data   []float32 // from the first element on; the engine's
	stride int       // from row to row, in elements
	width  int       // columns
}

// matrix returns n rows from row first on.
func (c columns) matrix(first, n int) kernel.Matrix {
	return kernel.View(c.data[first*c.stride:], n, c.width, c.stride)
}

// packed is a matrix of the given width without gaps between the rows.
func packed(data []float32, width int) columns {
	return columns{data: data, stride: width, width: width}
}

// dense is n rows of a matrix without gaps between them.
func dense(data []float32, n, width int) kernel.Matrix {
	return kernel.View(data, n, width, width)
}

// lined returns the n x width matrix in data whose rows each begin at a cache line. A row that begins
// within one costs every load and store of a vector a second line.
func lined(data []float32, n, width int) kernel.Matrix {
	return kernel.View(data, n, width, wholeLines(width))
}

// wholeLines rounds n elements up to whole cache lines.
func wholeLines(n int) int { return blocks(n, lineFloats) * lineFloats }

// blocks is how many blocks of the given size n elements need.
func blocks(n, size int) int { return (n + size - 1) / size }

// block returns the range of block i of n elements.
func block(i, size, n int) (lo, hi int) { return i * size, min((i+1)*size, n) }
