package dirstore_test

import (
	"testing"

	"andrea/model"
	"andrea/vfs"
)

// The bytes per second count weights and moments of the 12M variant, 153 MB, fsync included for Write.
func BenchmarkStore(b *testing.B) {
	config, err := model.Variant("12m")
	must(b, err)
	s := newState(config, 1)
	store := owned(b, vfs.OS, b.TempDir())
	step := 0
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(12 * s.layout.Size))
		for b.Loop() {
			step++
			must(b, s.save(store, step))
			if step > 1 {
				must(b, vfs.RemoveAll(vfs.OS, store.Path(step-1)))
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(int64(12 * s.layout.Size))
		for b.Loop() {
			_, err := store.Verify(step)
			must(b, err)
		}
	})
}
