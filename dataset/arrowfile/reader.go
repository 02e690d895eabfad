package arrowfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sort"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"andrea/vfs"
)

// readChunk is the most that one read of tokens takes into memory, in bytes.
const readChunk = 1 << 16

// Dataset is an open dataset: the concatenation of its documents, in any part of which can be read.
// It keeps the place of every record batch in memory (40 bytes for 1 Mi tokens) and no tokens. It is
// safe for concurrent use, Close excepted.
type Dataset struct {
	fsys    vfs.FS
	dir     string
	info    Info
	shards  []vfs.File
	batches []placedBatch // of all shards, in the order of the stream
	alloc   memory.Allocator
}

// placedBatch is a record batch with the place of its tokens in the stream and in its shard.
type placedBatch struct {
	start  uint64 // tokens of the stream before it
	tokens int
	rows   int
	values int64 // place of its tokens in the file
	shard  int
}

// Open opens the dataset at dir. It reads dataset.json and of each shard the framing, but not the
// tokens: sizes, schema, the place and length of every record batch must fit together. Whether the
// tokens are the ones that were written is told by Verify alone. The error names the file. Call
// Close at the end.
func Open(fsys vfs.FS, dir string) (*Dataset, error) {
	dir = filepath.Clean(dir)
	path := filepath.Join(dir, infoFile)
	data, err := vfs.ReadFile(fsys, path, maxInfoBytes)
	if err != nil {
		return nil, fmt.Errorf("open dataset %s: %w", dir, err)
	}
	info, err := parseInfo(data)
	if err != nil {
		return nil, fmt.Errorf("open dataset %s: %w", path, err)
	}
	d := &Dataset{fsys: fsys, dir: dir, info: info, alloc: memory.DefaultAllocator}
	for i := range info.Shards {
		if err := d.openShard(i); err != nil {
			return nil, errors.Join(fmt.Errorf("open dataset %s: %w", d.shardPath(i), err), d.Close())
		}
	}
	return d, nil
}

// Info returns what dataset.json says. The caller must not change the slice of shards.
func (d *Dataset) Info() Info { return d.info }

// Tokenizer returns the content of tokenizer.json after comparing it with dataset.json.
func (d *Dataset) Tokenizer() ([]byte, error) {
	path := filepath.Join(d.dir, tokenizerFile)
	data, err := vfs.ReadFile(d.fsys, path, maxTokenizer)
	if err != nil {
		return nil, err
	}
	if want := d.info.TokenizerFile; int64(len(data)) != want.Bytes || fingerprint(data) != want.SHA256 {
		return nil, fmt.Errorf("read %s: it is not the file that dataset.json describes: prepare the dataset again", path)
	}
	return data, nil
}

// Read fills dst with the tokens of the stream from start on. It fails when they do not all lie in
// the stream, when a file cannot be read, and when an id is not below the vocabulary; dst is then
// partly overwritten. It takes one small read per touched record batch.
func (d *Dataset) Read(dst []uint32, start uint64) error {
	if start > d.info.Tokens || uint64(len(dst)) > d.info.Tokens-start {
		return fmt.Errorf("read dataset %s: tokens %d to %d: it has %d", d.dir, start, start+uint64(len(dst)), d.info.Tokens)
	}
	next := sort.Search(len(d.batches), func(i int) bool { return d.batches[i].start > start })
	for i := next - 1; len(dst) > 0; i++ {
		b := d.batches[i]
		skip := int(start - b.start)
		n := min(len(dst), b.tokens-skip)
		if err := d.readValues(dst[:n], b, skip); err != nil {
			return fmt.Errorf("read dataset %s: tokens from %d on: %w", d.shardPath(b.shard), start, err)
		}
		dst, start = dst[n:], start+uint64(n)
	}
	return nil
}

// readValues fills dst with the tokens of one record batch from its token skip on.
func (d *Dataset) readValues(dst []uint32, b placedBatch, skip int) error {
	wide := Wide(d.info.Vocab)
	width := column{wide: wide}.width()
	buf := make([]byte, min(len(dst)*width, readChunk))
	at := b.values + int64(skip)*int64(width)
	for len(dst) > 0 {
		n := min(len(dst), len(buf)/width)
		if err := vfs.ReadFullAt(d.shards[b.shard], buf[:n*width], at); err != nil {
			return err
		}
		if err := decode(dst[:n], buf, wide, d.info.Vocab); err != nil {
			return err
		}
		dst, at = dst[n:], at+int64(n*width)
	}
	return nil
}

// decode converts little-endian tokens and checks that each is below the vocabulary.
func decode(dst []uint32, src []byte, wide bool, vocab int) error {
	for i := range dst {
		if wide {
			dst[i] = binary.LittleEndian.Uint32(src[4*i:])
		} else {
			dst[i] = uint32(binary.LittleEndian.Uint16(src[2*i:]))
		}
		if dst[i] >= uint32(vocab) {
			return fmt.Errorf("id %d is not below the vocabulary of %d", dst[i], vocab)
		}
	}
	return nil
}

// Close closes all files. The Dataset is useless then.
func (d *Dataset) Close() error {
	var errs []error
	for _, f := range d.shards {
		errs = append(errs, f.Close())
	}
	d.shards = nil
	return errors.Join(errs...)
}

func (d *Dataset) shardPath(i int) string { return filepath.Join(d.dir, d.info.Shards[i].File) }
