package kernel

// packRowsBy returns the packFunc of transposed matrices that moves whole blocks by transpose
// and the rest of k one by one.
func packRowsBy(floats int, transpose transposeFunc) packFunc {
	return func(dst, src []float32, stride, k, width int) {
		blocks := k / floats
		if blocks > 0 {
			for j := 0; j < width; j += floats {
				transpose(dst[j:], width, src[j*stride:], stride, blocks)
			}
		}
		if whole := blocks * floats; whole < k {
			portablePackRows(dst[whole*width:], src[whole:], stride, k-whole, width)
		}
	}
}
