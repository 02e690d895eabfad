package kernel

import (
	"math"
	"runtime"
)

// The portable micro-kernels' tile: small, since the registers do not hold it anyway.
const (
	portableRows   = 4
	portableFloats = 8
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

// fmaRow adds a·x to dst, element by element: numeric.FMA32 with its common case in line and
// four at a time. A loop over single elements waits for the registers of the one before
// (conversions keep the upper half of theirs), three times as long.
func fmaRow(dst []float32, a float32, x []float32) {
	const (
		rounded  = 1<<29 - 1              // the bits that the conversion to fp32 rounds away
		tie      = 1 << 28                // their pattern between two fp32 numbers
		smallest = uint64(1023-126) << 53 // 2^-126, the smallest normal fp32 number, without the sign
	)
	wide := float64(a)
	x = x[:len(dst)]
	for len(dst) >= 4 && len(x) >= 4 {
		s0 := wide*float64(x[0]) + float64(dst[0]) //fuse:ok the product of two fp32 numbers is exact in float64
		s1 := wide*float64(x[1]) + float64(dst[1]) //fuse:ok the same
		s2 := wide*float64(x[2]) + float64(dst[2]) //fuse:ok the same
		s3 := wide*float64(x[3]) + float64(dst[3]) //fuse:ok the same
		b0, b1, b2, b3 := math.Float64bits(s0), math.Float64bits(s1), math.Float64bits(s2), math.Float64bits(s3)
		if b0&rounded != tie && b1&rounded != tie && b2&rounded != tie && b3&rounded != tie &&
			min(b0<<1, b1<<1, b2<<1, b3<<1) >= smallest {
			dst[0], dst[1], dst[2], dst[3] = float32(s0), float32(s1), float32(s2), float32(s3)
		} else {
			portableAxpy(dst[:4], x[:4], a)
		}
		dst, x = dst[4:], x[4:]
	}
	portableAxpy(dst, x, a)
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

// portablePeak is the portable path's probe, on memory that stays in the L1 cache.
func portablePeak(iterations int) {
	var acc, x [portableFloats]float32
	for i := range x {
		x[i] = 1
	}
	for range iterations {
		fmaRow(acc[:], 0.5, x[:])
	}
	runtime.KeepAlive(&acc)
}
