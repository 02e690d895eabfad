package kernel

import "fmt"

// Transpose sets dst to the transposed of src, which must not be a transposed view: element
// (i, j) of src goes to dst[j*dstStride+i]. Between rows of dst nothing is written. Memory
// that does not hold the views is a programming error and panics.
func (p *Path) Transpose(dst []float32, dstStride int, src Matrix) {
	src.check("src")
	View(dst, src.Cols, src.Rows, dstStride).check("dst")
	if src.Transposed {
		panic(fmt.Sprintf("kernel: transposing a transposed view of %d x %d", src.Rows, src.Cols))
	}
	rows, cols := 0, 0 // moved in whole blocks
	if p.transpose != nil {
		rows, cols = src.Rows/p.floats*p.floats, src.Cols/p.floats*p.floats
	}
	if cols > 0 {
		for i := 0; i < rows; i += p.floats {
			p.transpose(dst[i:], dstStride, src.Data[i*src.Stride:], src.Stride, cols/p.floats)
		}
	}
	if rows == src.Rows && cols == src.Cols {
		return
	}
	for i := range src.Rows {
		from := cols
		if i >= rows {
			from = 0
		}
		for j, v := range src.Data[i*src.Stride:][from:src.Cols] {
			dst[(from+j)*dstStride+i] = v
		}
	}
}
