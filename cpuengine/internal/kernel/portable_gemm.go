package kernel

import (
	"math"

	"andrea/numeric"
)

// The portable micro-kernels' tile: small, since the registers do not hold it anyway.
const (
	portableRows  = 4
	portableLanes = 8
)

// portablePanel returns the micro-kernel for panels of that width.
func portablePanel(width int) panelFunc {
	return func(blocks, k int, a []float32, rowStride, colStride, blockStride int, b []float32, bStride int, c []float32, cStride int, add bool) {
		for t := range blocks {
			for r := range portableRows {
				row := c[(t*portableRows+r)*cStride:][:width]
				if !add {
					clear(row)
				}
				ar := a[t*blockStride+r*rowStride:]
				for kk := range k {
					fmaRow(row, ar[kk*colStride], b[kk*bStride:][:width])
				}
			}
		}
	}
}

// fmaRow adds a·x to dst, element by element: numeric.FMA32 with its common case in line,
// as the compiler does not inline it (twice as fast).
func fmaRow(dst []float32, a float32, x []float32) {
	const smallest = uint64(1023-126) << 53 // 2^-126 in float64, without the sign
	for j, v := range x[:len(dst)] {
		s := float64(a)*float64(v) + float64(dst[j])
		if b := math.Float64bits(s); b&(1<<29-1) != 1<<28 && b<<1 >= smallest {
			dst[j] = float32(s)
		} else {
			dst[j] = numeric.FMA32(a, v, dst[j])
		}
	}
}

// portablePackColumns is the packFunc of matrices stored row by row.
func portablePackColumns(dst, src []float32, stride, k, width int) {
	for kk := range k {
		copy(dst[kk*width:][:width], src[kk*stride:])
	}
}

// portablePackRows is the packFunc of transposed matrices.
func portablePackRows(dst, src []float32, stride, k, width int) {
	for j := range width {
		for kk, v := range src[j*stride:][:k] {
			dst[kk*width+j] = v
		}
	}
}

// portablePackStrip is the packStripFunc for portableRows.
func portablePackStrip(dst []float32, blockStride int, src []float32, stride, k, blocks int) {
	for t := range blocks {
		portablePackColumns(dst[t*blockStride:], src[t*portableRows:], stride, k, portableRows)
	}
}

// portablePeak is the portable path's register-only probe.
func portablePeak(iterations int) {
	var acc [portableLanes]float32
	for range iterations {
		for i := range acc {
			acc[i] = numeric.FMA32(acc[i], 0.5, 1)
		}
	}
	peakSink = acc[0]
}

// peakSink keeps the probe's result alive.
var peakSink float32
