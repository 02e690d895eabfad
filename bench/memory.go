package bench

import "time"

// Bandwidth is how fast all threads together move memory, in bytes a second.
type Bandwidth struct {
	Copy, Read float64 // a copy moves every byte twice
	Bytes      int64   // size of the block that is read, and copied to another
}

// memoryElements is the size of a block: 256 MiB, several times a usual cache.
const memoryElements = 64 << 20

// bandwidth measures blocks that lie in memory, not in the caches.
func bandwidth(m *meter) (Bandwidth, error) {
	const bytes = 4 * memoryElements
	src, dst := make([]float32, memoryElements), make([]float32, memoryElements)
	for i := range src {
		src[i] = 1 // untouched pages would all be the same one
	}
	copied, err := m.time(2*time.Second, func() error {
		m.bench.Copy(dst, src)
		return nil
	})
	if err != nil {
		return Bandwidth{}, err
	}
	read, err := m.time(2*time.Second, func() error {
		m.bench.Read(src)
		return nil
	})
	return Bandwidth{Copy: copied.Rate(2 * bytes), Read: read.Rate(bytes), Bytes: bytes}, err
}
