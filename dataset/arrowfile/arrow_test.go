package arrowfile

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"andrea/dataset"
	"andrea/vfs"
)

func must[T any](t testing.TB) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// checked returns an allocator that fails the test when something stays allocated.
func checked(t testing.TB) *memory.CheckedAllocator {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { alloc.AssertSize(t, 0) })
	return alloc
}

// counting returns documents of the given lengths: BOS and then the ids that count on through the
// whole dataset, skipping BOS, modulo vocab.
func counting(vocab int, lengths ...int) [][]uint32 {
	next := uint32(0)
	var documents [][]uint32
	for _, length := range lengths {
		document := []uint32{dataset.BOS}
		for len(document) < length {
			if next == dataset.BOS {
				next++
			}
			document = append(document, next)
			next = (next + 1) % uint32(vocab)
		}
		documents = append(documents, document)
	}
	return documents
}

func meta(vocab int) Meta {
	return Meta{Vocab: vocab, Tokenizer: "bytes", TokenizerFile: []byte(`{"kind":"bytes"}`), Source: "a test"}
}

// write writes a dataset with small batches and shards and returns its Info.
func write(t testing.TB, fsys vfs.FS, dir string, vocab, batchTokens, shardTokens int, documents [][]uint32) Info {
	t.Helper()
	w := must[*Writer](t)(Create(fsys, dir, meta(vocab)))
	w.alloc, w.batchTokens, w.shardTokens = checked(t), batchTokens, shardTokens
	for _, document := range documents {
		if err := w.Document(document); err != nil {
			t.Fatal(err)
		}
	}
	return must[Info](t)(w.Commit())
}

func open(t testing.TB, fsys vfs.FS, dir string) *Dataset {
	t.Helper()
	d := must[*Dataset](t)(Open(fsys, dir))
	d.alloc = checked(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDatasetReadsWhatWasWritten(t *testing.T) {
	for _, test := range []struct {
		name                            string
		vocab, batchTokens, shardTokens int
		lengths                         []int
	}{
		{"one token", 257, 100, 100, []int{1}},
		{"one batch", 300, 100, 100, []int{10, 1, 20}},
		{"rows fill batches exactly", 300, 10, 100, []int{10, 5, 5, 10}},
		{"documents longer than a batch", 70_000, 16, 64, []int{100, 3, 40, 16, 17, 200}},
		{"documents longer than a shard", 65_536, 16, 32, []int{100, 1, 1, 1, 90}},
		{"widest narrow", 65_536, 1 << 17, 1 << 18, []int{70_000, 65_537}},
		{"narrowest wide", 65_537, 1 << 17, 1 << 18, []int{70_000, 65_538}},
		{"real limits", 2305, maxBatchTokens, maxShardTokens, []int{maxBatchTokens + 5, 7, 500_000, 600_000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "sub", "tokens")
			documents := counting(test.vocab, test.lengths...)
			info := write(t, vfs.OS, dir, test.vocab, test.batchTokens, test.shardTokens, documents)
			d := open(t, vfs.OS, dir)
			if got := d.Info(); got.Fingerprint != info.Fingerprint || got.Tokens != info.Tokens {
				t.Errorf("read %+v, wrote %+v", got, info)
			}
			if err := d.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := must[[]byte](t)(d.Tokenizer()); string(got) != `{"kind":"bytes"}` {
				t.Errorf("tokenizer %q", got)
			}
			compareRanges(t, d, slices.Concat(documents...))
			for _, shard := range info.Shards {
				if shard.Tokens > uint64(test.shardTokens) {
					t.Errorf("%s has %d tokens", shard.File, shard.Tokens)
				}
			}
			for _, b := range d.batches {
				if b.tokens > test.batchTokens {
					t.Errorf("a record batch has %d tokens", b.tokens)
				}
			}
		})
	}
}

// compareRanges reads ranges of many lengths at many places and compares with the concatenation.
func compareRanges(t *testing.T, d *Dataset, stream []uint32) {
	t.Helper()
	if d.Info().Tokens != uint64(len(stream)) {
		t.Fatalf("%d tokens, want %d", d.Info().Tokens, len(stream))
	}
	lengths := []int{0, 1, 2, 15, 16, 17, 33, 1025, len(stream) / 2, len(stream)}
	for _, length := range lengths {
		stride := max(1, len(stream)/97)
		if length > 100_000 { // a few are enough, and dear
			stride = max(1, (len(stream)-length)/2)
		}
		for start := 0; start+length <= len(stream); start += stride {
			got := make([]uint32, length)
			if err := d.Read(got, uint64(start)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, stream[start:start+length]) {
				t.Fatalf("tokens %d to %d differ", start, start+length)
			}
		}
	}
}

// BenchmarkRead reads windows at scattered places of 64 Mi tokens in the operating system's cache.
func BenchmarkRead(b *testing.B) {
	folder := filepath.Join(b.TempDir(), "tokens")
	w := must[*Writer](b)(Create(vfs.OS, folder, meta(2305)))
	document := counting(2305, 1<<20)[0]
	for range 64 {
		if err := w.Document(document); err != nil {
			b.Fatal(err)
		}
	}
	must[Info](b)(w.Commit())
	d := open(b, vfs.OS, folder)
	window := make([]uint32, 1025)
	start := uint64(0)
	b.SetBytes(2050)
	for b.Loop() {
		if err := d.Read(window, start); err != nil {
			b.Fatal(err)
		}
		start = (start + 40_503*1024) % (64<<20 - 1025)
	}
}
