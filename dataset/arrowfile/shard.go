package arrowfile

import (
	"encoding/binary"
	"fmt"
	"maps"

	"andrea/vfs"
)

// Framing of an Arrow file: magic and padding, messages, footer, footer length, magic.
const (
	magic        = "ARROW1"
	headBytes    = 8
	tailBytes    = 4 + len(magic)
	blockBytes   = 24      // of the footer's entry for a record batch
	maxFooter    = 1 << 20 // bytes; ours have some 130 entries at most, since two neighbours together exceed a batch
	maxBatchBody = 16 << 20
)

// openShard opens the i-th shard and indexes its record batches.
func (d *Dataset) openShard(i int) error {
	shard := d.info.Shards[i]
	stat, err := d.fsys.Stat(d.shardPath(i))
	if err != nil {
		return err
	}
	if stat.Size() != shard.Bytes {
		return fmt.Errorf("it has %d bytes, but dataset.json says %d: the file is damaged or not the one that was written", stat.Size(), shard.Bytes)
	}
	file, err := d.fsys.Open(d.shardPath(i))
	if err != nil {
		return err
	}
	d.shards = append(d.shards, file) // from here on Close closes it
	footer, end, err := d.readFooter(i)
	if err != nil {
		return err
	}
	blocks, err := d.walkFooter(footer)
	if err != nil {
		return err
	}
	return d.indexBatches(i, blocks, end)
}

// readFooter returns the footer of a shard and where it begins.
func (d *Dataset) readFooter(i int) (footer []byte, start int64, err error) {
	file, size := d.shards[i], d.info.Shards[i].Bytes
	if size < int64(headBytes+tailBytes) {
		return nil, 0, fmt.Errorf("%d bytes are too few for an Arrow file", size)
	}
	var head [headBytes]byte
	tail := make([]byte, tailBytes)
	if err := vfs.ReadFullAt(file, head[:], 0); err != nil {
		return nil, 0, err
	}
	if err := vfs.ReadFullAt(file, tail, size-int64(tailBytes)); err != nil {
		return nil, 0, err
	}
	if string(head[:len(magic)]) != magic || string(tail[4:]) != magic {
		return nil, 0, fmt.Errorf("it is not an Arrow file: %q does not stand at both ends", magic)
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	start = size - int64(tailBytes) - length
	if length > maxFooter || start < headBytes {
		return nil, 0, fmt.Errorf("a footer of %d bytes in a file of %d: must be in the file and at most %d", length, size, maxFooter)
	}
	footer = make([]byte, length)
	return footer, start, vfs.ReadFullAt(file, footer, start)
}

// block is the place of a record batch in a file.
type block struct {
	at       int64
	metadata int
	body     int64
}

// walkFooter checks the schema in the footer and returns the places of the record batches.
func (d *Dataset) walkFooter(footer []byte) ([]block, error) {
	f := flat{buf: footer}
	root := f.follow(0)
	schema := f.child(root, 1)
	if f.bad {
		return nil, fmt.Errorf("damaged footer")
	}
	col, metadata, err := f.schema(schema)
	if err != nil {
		return nil, err
	}
	if want := (column{wide: Wide(d.info.Vocab)}); col != want {
		return nil, fmt.Errorf("its column is %s, but the vocabulary of %d needs %s", col, d.info.Vocab, want)
	}
	if want := shardMetadata(d.info.Vocab, d.info.Tokenizer); !maps.Equal(metadata, want) {
		return nil, fmt.Errorf("its schema says %q, but dataset.json %q", metadata, want)
	}
	if _, count := f.vector(root, 2, blockBytes); count != 0 {
		return nil, fmt.Errorf("it has dictionaries")
	}
	first, count := f.vector(root, 3, blockBytes)
	blocks := make([]block, count)
	for i := range blocks {
		at := first + i*blockBytes
		blocks[i] = block{at: f.i64(at), metadata: f.i32(at + 8), body: f.i64(at + 16)}
	}
	if f.bad {
		return nil, fmt.Errorf("damaged footer")
	}
	return blocks, nil
}

// indexBatches adds the record batches of a shard to the index. Each must begin at or after the end
// of the one before and end before the footer, and all must add up to the shard's tokens.
func (d *Dataset) indexBatches(shard int, blocks []block, end int64) error {
	var start uint64
	if n := len(d.batches); n > 0 {
		start = d.batches[n-1].start + uint64(d.batches[n-1].tokens)
	}
	free, tokens := int64(headBytes), uint64(0)
	for i, b := range blocks {
		if b.at < free || b.at%8 != 0 || b.metadata <= prefixBytes || b.metadata > maxMetadata ||
			b.body < 0 || b.body > maxBatchBody || b.at > end-int64(b.metadata)-b.body {
			return fmt.Errorf("record batch %d: its place (%d, %d, %d bytes) is not between its neighbours", i, b.at, b.metadata, b.body)
		}
		free = b.at + int64(b.metadata) + b.body
		placed, err := d.placeBatch(shard, b)
		if err != nil {
			return fmt.Errorf("record batch %d: %w", i, err)
		}
		placed.start = start + tokens
		tokens += uint64(placed.tokens)
		d.batches = append(d.batches, placed)
	}
	if want := d.info.Shards[shard].Tokens; tokens != want {
		return fmt.Errorf("its record batches hold %d tokens, but dataset.json says %d", tokens, want)
	}
	return nil
}

// placeBatch reads the metadata of a record batch, and the first and last of its row offsets: the
// rows must cover its tokens from the first to the last.
func (d *Dataset) placeBatch(shard int, at block) (placedBatch, error) {
	file := d.shards[shard]
	metadata := make([]byte, at.metadata)
	if err := vfs.ReadFullAt(file, metadata, at.at); err != nil {
		return placedBatch{}, err
	}
	length, err := metadataLength(metadata)
	if err != nil {
		return placedBatch{}, err
	}
	if length != at.metadata-prefixBytes {
		return placedBatch{}, fmt.Errorf("metadata of %d bytes, but the footer says %d", length, at.metadata-prefixBytes)
	}
	m, err := walkMessage(metadata[prefixBytes:])
	if err != nil {
		return placedBatch{}, err
	}
	if m.body != at.body {
		return placedBatch{}, fmt.Errorf("body of %d bytes, but the footer says %d", m.body, at.body)
	}
	b, err := m.batch(column{wide: Wide(d.info.Vocab)})
	if err != nil {
		return placedBatch{}, err
	}
	if b.tokens < 1 || b.tokens > maxBatchTokens || b.rows < 1 || b.rows > b.tokens {
		return placedBatch{}, fmt.Errorf("%d rows of %d tokens: tokens must be 1..%d and no row empty", b.rows, b.tokens, maxBatchTokens)
	}
	body := at.at + int64(at.metadata)
	placed := placedBatch{
		tokens: int(b.tokens), rows: int(b.rows), shard: shard, values: body + b.values.start,
	}
	rowsAt := body + b.offsets.start
	var first, last [4]byte
	if err := vfs.ReadFullAt(file, first[:], rowsAt); err != nil {
		return placedBatch{}, err
	}
	if err := vfs.ReadFullAt(file, last[:], rowsAt+4*b.rows); err != nil {
		return placedBatch{}, err
	}
	if low, high := binary.LittleEndian.Uint32(first[:]), binary.LittleEndian.Uint32(last[:]); low != 0 || int64(high) != b.tokens {
		return placedBatch{}, fmt.Errorf("its rows cover tokens %d to %d of %d", low, high, b.tokens)
	}
	return placed, nil
}
