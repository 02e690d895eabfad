package kernel

import "fmt"

// Matrix is a view of a matrix in memory of the caller: element (i,j) is Data[i*Stride+j],
// or Data[j*Stride+i] when Transposed.
type Matrix struct {
	Data       []float32
	Rows, Cols int
	Stride     int // elements from one stored row to the next; at least a stored row's length
	Transposed bool
}

// View returns the rows x cols matrix whose stored rows are stride elements apart in data.
func View(data []float32, rows, cols, stride int) Matrix {
	return Matrix{Data: data, Rows: rows, Cols: cols, Stride: stride}
}

// T returns the transposed view of the same memory.
func (m Matrix) T() Matrix {
	m.Rows, m.Cols, m.Transposed = m.Cols, m.Rows, !m.Transposed
	return m
}

// row returns row i of a matrix that is not transposed.
func (m Matrix) row(i int) []float32 { return m.Data[i*m.Stride:][:m.Cols] }

// block returns the rows x cols part whose first element is (i, j).
func (m Matrix) block(i, j, rows, cols int) Matrix {
	start := i*m.Stride + j
	if m.Transposed {
		start = j*m.Stride + i
	}
	m.Data, m.Rows, m.Cols = m.Data[start:], rows, cols
	return m
}

// check panics when the view's numbers do not describe memory inside Data.
func (m Matrix) check(name string) {
	rows, cols := m.Rows, m.Cols
	if m.Transposed {
		rows, cols = cols, rows
	}
	if rows < 0 || cols < 0 || m.Stride < cols || rows > 0 && cols > 0 && len(m.Data) < (rows-1)*m.Stride+cols {
		panic(fmt.Sprintf("kernel: matrix %s: %d stored rows of %d, stride %d, do not fit %d elements", name, rows, cols, m.Stride, len(m.Data)))
	}
}

// checkProduct panics unless C = A·B is a product of valid views. The assembly relies on it.
func checkProduct(c, a, b Matrix) {
	c.check("C")
	a.check("A")
	b.check("B")
	if c.Transposed || c.Rows != a.Rows || c.Cols != b.Cols || a.Cols != b.Rows {
		panic(fmt.Sprintf("kernel: product of A %dx%d and B %dx%d into C %dx%d (transposed %t)", a.Rows, a.Cols, b.Rows, b.Cols, c.Rows, c.Cols, c.Transposed))
	}
}
