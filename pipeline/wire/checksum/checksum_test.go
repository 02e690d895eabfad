package checksum

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// The values are those of RFC 3720, B.4, and of the string by which CRCs are known.
func TestKnown(t *testing.T) {
	counting := make([]byte, 32)
	for i := range counting {
		counting[i] = byte(i)
	}
	for _, c := range []struct {
		data []byte
		want uint32
	}{
		{nil, 0},
		{[]byte("123456789"), 0xe3069283},
		{make([]byte, 32), 0x8a9136aa},
		{counting, 0x46dd794e},
	} {
		if got := Update(0, c.data); got != c.want {
			t.Errorf("%x: %08x, want %08x", c.data, got, c.want)
		}
	}
}

// Every length, wherever a block begins and whatever is before it.
func TestLikeGo(t *testing.T) {
	if !wide {
		t.Log("this processor has Go's own way only")
	}
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 6*longBlock)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for n := range len(data) - 64 {
		at, before := random.IntN(64), random.Uint32()
		p := data[at:][:n]
		if got, want := Update(before, p), crc32.Update(before, castagnoli, p); got != want {
			t.Fatalf("%d bytes from %d after %08x: %08x, want %08x", n, at, before, got, want)
		}
	}
}

// A single bit counts, wherever it is: each gives another checksum, as it must, and that of Go.
func TestEveryBitCounts(t *testing.T) {
	data := make([]byte, 2*longBlock+17)
	seen := map[uint32]int{Update(0, data): -1}
	for i := range 8 * len(data) {
		data[i/8] ^= 1 << (i % 8)
		sum := Update(0, data)
		if before, twice := seen[sum]; twice || sum != crc32.Checksum(data, castagnoli) {
			t.Fatalf("bit %d: %08x, Go's is %08x, bit %d had it", i, sum, crc32.Checksum(data, castagnoli), before)
		}
		seen[sum] = i
		data[i/8] ^= 1 << (i % 8)
	}
}

func FuzzUpdate(f *testing.F) {
	f.Add(uint32(0), []byte(nil), 1)
	f.Add(uint32(1<<31), make([]byte, longBlock), 3)
	f.Fuzz(func(t *testing.T, before uint32, pattern []byte, times int) {
		var data []byte
		for i := range max(0, min(times, 64)) {
			data = append(binary.LittleEndian.AppendUint32(data, uint32(i)), pattern...)
		}
		if got, want := Update(before, data), crc32.Update(before, castagnoli, data); got != want {
			t.Errorf("%d bytes after %08x: %08x, want %08x", len(data), before, got, want)
		}
	})
}

// BenchmarkUpdate sums blocks as they are exchanged, of all that lie in as many bytes, beside Go's own.
func BenchmarkUpdate(b *testing.B) {
	const block = 512 << 10
	all := make([]byte, 54<<20)
	for i := range all {
		all[i] = byte(i)
	}
	for name, update := range map[string]func(uint32, []byte) uint32{
		"here": Update,
		"go":   func(sum uint32, p []byte) uint32 { return crc32.Update(sum, castagnoli, p) },
	} {
		for _, size := range []int{block, len(all)} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(block)
				sum, at := uint32(0), 0
				for b.Loop() {
					sum = update(sum, all[at:at+block])
					if at += block; at+block > size {
						at = 0
					}
				}
			})
		}
	}
}
