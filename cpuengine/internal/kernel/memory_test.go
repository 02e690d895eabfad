package kernel

import (
	"testing"
	"unsafe"
)

// Blocks of any size are zero, whole and aligned, and take what FloatsBytes says.
func TestFloatsAreAligned(t *testing.T) {
	for _, n := range []int{0, 1, 100, hugePage/4 - 1, hugePage / 4, hugePage/4 + 1, hugePage} {
		x := Floats(n)
		if len(x) != n || cap(x) != n {
			t.Fatalf("Floats(%d) has length %d and capacity %d", n, len(x), cap(x))
		}
		for i, v := range x {
			if v != 0 {
				t.Fatalf("Floats(%d)[%d] = %v", n, i, v)
			}
			x[i] = 1
		}
		at := uintptr(unsafe.Pointer(unsafe.SliceData(x)))
		if align := alignment(n); n > 0 && at%uintptr(align) != 0 || FloatsBytes(n) != int64(4*n+align) {
			t.Errorf("Floats(%d) is at %#x, FloatsBytes says %d: alignment is %d", n, at, FloatsBytes(n), align)
		}
	}
}
