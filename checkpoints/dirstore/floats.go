package dirstore

import (
	"encoding/binary"
	"math"
)

const floatBytes = 4

// encode writes x into dst, little end first; dst has room for 4·len(x) bytes.
func encode(dst []byte, x []float32) []byte {
	dst = dst[:floatBytes*len(x)]
	rest := dst
	for _, f := range x {
		binary.LittleEndian.PutUint32(rest[:floatBytes], math.Float32bits(f))
		rest = rest[floatBytes:]
	}
	return dst
}

// decode is the inverse of encode; src has 4·len(dst) bytes.
func decode(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[:floatBytes]))
		src = src[floatBytes:]
	}
}
