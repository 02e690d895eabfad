package numeric

import (
	"math/bits"
	"testing"
)

// SplitMix64 of seed 0 begins with these numbers; they stand in the tests of most implementations.
func TestMix64Golden(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		var state uint64
		for range i {
			state += golden
		}
		if got := Mix64(state); got != want {
			t.Errorf("number %d is %x, want %x", i, got, want)
		}
	}
	if Finalize64(0) != 0 {
		t.Error("0 is scattered")
	}
}

// Every bit of the argument changes about half of the result's bits.
func TestMix64Scatters(t *testing.T) {
	for bit := range 64 {
		changed := 0
		for x := range uint64(1000) {
			changed += bits.OnesCount64(Mix64(x) ^ Mix64(x^1<<bit))
		}
		if mean := float64(changed) / 1000; mean < 31 || mean > 33 {
			t.Errorf("bit %d changes %.2f bits on average", bit, mean)
		}
	}
}
