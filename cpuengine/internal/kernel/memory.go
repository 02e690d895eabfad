package kernel

import "unsafe"

// Alignments of Floats, in bytes. The lines of a matrix that a kernel reads in turn often
// lie a small page or more apart: with small pages each costs a walk through the page tables.
const (
	cacheLine = 64
	hugePage  = 2 << 20
)

// Floats allocates n zero elements that begin on a cache line. A block of a huge page or more
// begins on one, and the system is asked to back it with huge pages; it may decline.
func Floats(n int) []float32 {
	align := alignment(n)
	block := make([]float32, n+align/4)
	misaligned := int(uintptr(unsafe.Pointer(unsafe.SliceData(block))) % uintptr(align))
	from := (align - misaligned) % align / 4
	block = block[from : from+n : from+n]
	if align == hugePage {
		adviseHugePages(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(block))), 4*n))
	}
	return block
}

// FloatsBytes returns how many bytes Floats allocates for n elements, alignment included.
func FloatsBytes(n int) int64 { return int64(n)*4 + int64(alignment(n)) }

func alignment(n int) int {
	if 4*n < hugePage {
		return cacheLine
	}
	return hugePage
}
