package arrowfile

import (
	"slices"
	"testing"
)

// FuzzShard: whatever bytes a shard has, with a dataset.json that agrees with them, so that no checksum
// tells, they are an error or tokens of the vocabulary, the same by Read and by the Arrow library; never
// a panic.
func FuzzShard(f *testing.F) {
	fsys, _ := small(f)
	for i := range 2 {
		f.Add(readFile(f, fsys, shardName(i)))
	}
	info := must[Info](f)(parseInfo(readFile(f, fsys, infoFile)))
	f.Fuzz(func(t *testing.T, shard []byte) {
		fsys, _ := small(t)
		forge(t, fsys, shard)
		d, err := Open(fsys, dir)
		if err != nil {
			return
		}
		tokens := make([]uint32, info.Tokens)
		readErr := d.Read(tokens, 0)
		if readErr == nil && slices.Max(tokens) >= uint32(info.Vocab) {
			t.Errorf("Read gives %d with a vocabulary of %d", slices.Max(tokens), info.Vocab)
		}
		verifyErr := d.Verify(t.Context())
		if readErr != nil && verifyErr == nil {
			t.Errorf("Verify finds nothing where Read fails: %v", readErr)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
