package arrowfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"andrea/dataset"
	"andrea/vfs"
)

// Writer writes a dataset document by document. Nothing exists at its place before Commit; what was
// written until then lies in a temporary sibling folder, which Abort and every failure of Commit
// remove (a killed process leaves it behind, named like the dataset with ".tmp-" and a number). A
// Writer is for one goroutine.
type Writer struct {
	fsys   vfs.FS
	dir    string
	temp   string
	lock   vfs.File // held until the end: temp is ours
	schema *arrow.Schema
	alloc  memory.Allocator
	info   Info

	batchTokens int // of a record batch, and so of a row, at most
	shardTokens int // of a shard at most

	tokens  tokenBuffer // of the record batch being filled
	offsets []int32     // its rows
	starts  uint64      // documents that begin in it
	shard   *shardFile  // nil before the first and between two
	broken  error       // of the file system: nothing can be written any more
	closed  bool
}

// shardFile is a shard being written.
type shardFile struct {
	file   vfs.File
	out    *hashingFile
	writer *ipc.FileWriter
	shard  Shard
}

// What is written beside a dataset's place: the folder that becomes the dataset, and an empty file that
// is locked meanwhile. It goes when the dataset is there, which refuses every other writer; until then
// it stays, also after Abort, since deleting a lock breaks it for those who are about to take it.
const (
	tempSuffix = ".tmp"
	lockSuffix = ".lock"
)

// Create prepares to write a dataset at dir, which must be Absent, else the error is fs.ErrExist;
// missing parents are made. It fails when another process writes there, with an error that wraps
// vfs.ErrLocked, and when Meta's vocabulary, identities or tokenizer file are out of bounds. Call Commit
// or Abort at the end.
func Create(fsys vfs.FS, dir string, meta Meta) (*Writer, error) {
	w, err := create(fsys, filepath.Clean(dir), meta)
	if err != nil {
		return nil, fmt.Errorf("write dataset %s: %w", dir, err)
	}
	return w, nil
}

func create(fsys vfs.FS, dir string, meta Meta) (*Writer, error) {
	if err := checkMeta(meta.Vocab, meta.Tokenizer, meta.Source); err != nil {
		return nil, err
	}
	if len(meta.TokenizerFile) > maxTokenizer {
		return nil, fmt.Errorf("tokenizer file: %d bytes are more than %d", len(meta.TokenizerFile), maxTokenizer)
	}
	w := &Writer{
		fsys:   fsys,
		dir:    dir,
		temp:   dir + tempSuffix,
		schema: schemaOf(column{wide: Wide(meta.Vocab)}, shardMetadata(meta.Vocab, meta.Tokenizer)),
		alloc:  memory.DefaultAllocator,
		info: Info{
			Format:        formatNumber,
			Vocab:         meta.Vocab,
			Tokenizer:     meta.Tokenizer,
			TokenizerFile: FileInfo{int64(len(meta.TokenizerFile)), fingerprint(meta.TokenizerFile)},
			Source:        meta.Source,
		},
		batchTokens: maxBatchTokens,
		shardTokens: maxShardTokens,
		tokens:      tokenBuffer{wide: Wide(meta.Vocab)},
		offsets:     []int32{0},
	}
	return w, w.begin(meta.TokenizerFile)
}

// begin claims the place and puts the first file into a fresh temporary folder.
func (w *Writer) begin(tokenizer []byte) (err error) {
	if err := vacant(w.fsys, w.dir); err != nil {
		return err
	}
	if err := vfs.MkdirAllDurable(w.fsys, filepath.Dir(w.dir)); err != nil {
		return err
	}
	if w.lock, err = w.fsys.Lock(w.dir + lockSuffix); err != nil {
		return fmt.Errorf("claim it: %w: when another process prepares it, wait until that is done", err)
	}
	err = vacant(w.fsys, w.dir) // who held the lock may have put it there
	if err == nil {
		err = vfs.RemoveAll(w.fsys, w.temp)
	}
	if err == nil {
		err = w.fsys.MkdirAll(w.temp)
	}
	if err == nil {
		err = vfs.WriteFileSync(w.fsys, filepath.Join(w.temp, tokenizerFile), tokenizer, 0o644)
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return nil
}

// Document adds one document: dataset.BOS followed by ids that are below the vocabulary and not BOS.
// A document that breaks this is refused and changes nothing. After a failed write the Writer
// accepts nothing more. The slice stays the caller's.
func (w *Writer) Document(ids []uint32) error {
	if w.closed {
		return fmt.Errorf("write dataset %s: it is closed", w.dir)
	}
	if w.broken != nil {
		return w.broken
	}
	if err := checkDocument(ids, w.info.Vocab); err != nil {
		return fmt.Errorf("write dataset %s: document %d: %w", w.dir, w.info.Documents, err)
	}
	for row := range rows(ids, w.batchTokens) {
		if err := w.row(row); err != nil {
			w.broken = fmt.Errorf("write dataset %s: %w", w.dir, err)
			return w.broken
		}
	}
	w.info.Documents++
	return nil
}

func checkDocument(ids []uint32, vocab int) error {
	if len(ids) == 0 || ids[0] != dataset.BOS {
		return fmt.Errorf("it does not begin with the BOS id %d", dataset.BOS)
	}
	for i, id := range ids[1:] {
		if id >= uint32(vocab) {
			return fmt.Errorf("id %d at position %d is not below the vocabulary of %d", id, i+1, vocab)
		}
		if id == dataset.BOS {
			return fmt.Errorf("the BOS id %d stands at position %d, but only the first may be it", id, i+1)
		}
	}
	return nil
}

// rows cuts a document into pieces of at most so many tokens: all but the first do not begin with
// BOS, which marks them as continuations.
func rows(ids []uint32, limit int) func(yield func([]uint32) bool) {
	return func(yield func([]uint32) bool) {
		for len(ids) > 0 {
			n := min(len(ids), limit)
			if !yield(ids[:n]) {
				return
			}
			ids = ids[n:]
		}
	}
}

// row adds one row to the record batch, which is written first when the row no longer fits.
func (w *Writer) row(ids []uint32) error {
	if w.tokens.len()+len(ids) > w.batchTokens {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.tokens.add(ids)
	w.offsets = append(w.offsets, int32(w.tokens.len()))
	if ids[0] == dataset.BOS {
		w.starts++
	}
	return nil
}

// flush writes the record batch, into a new shard when it no longer fits into the old one.
func (w *Writer) flush() error {
	count := w.tokens.len()
	if count == 0 {
		return nil
	}
	if w.shard != nil && w.shard.shard.Tokens+uint64(count) > uint64(w.shardTokens) {
		if err := w.finishShard(); err != nil {
			return err
		}
	}
	if w.shard == nil {
		if err := w.startShard(); err != nil {
			return err
		}
	}
	record := w.tokens.record(w.schema, len(w.offsets)-1, w.offsets)
	err := guard(func() error { return w.shard.writer.Write(record) })
	record.Release()
	if err != nil {
		return fmt.Errorf("%s: %w", w.shard.shard.File, err)
	}
	w.shard.shard.Tokens += uint64(count)
	w.shard.shard.Documents += w.starts
	w.tokens.reset()
	w.offsets, w.starts = w.offsets[:1], 0
	return nil
}

func (w *Writer) startShard() error {
	if len(w.info.Shards) == maxShards {
		return fmt.Errorf("more than %d shards", maxShards)
	}
	name := shardName(len(w.info.Shards))
	file, err := w.fsys.CreateExclusive(filepath.Join(w.temp, name), 0o644)
	if err != nil {
		return err
	}
	w.shard = &shardFile{file: file, out: &hashingFile{file: file, sum: sha256.New()}, shard: Shard{File: name}}
	w.shard.writer, err = ipc.NewFileWriter(w.shard.out, ipc.WithSchema(w.schema), ipc.WithAllocator(w.alloc))
	return err
}

// finishShard makes the shard durable and records it.
func (w *Writer) finishShard() error {
	s := w.shard
	w.shard = nil
	err := guard(s.writer.Close)
	if err == nil {
		err = s.file.Sync()
	}
	if err = errors.Join(err, s.file.Close()); err != nil {
		return fmt.Errorf("%s: %w", s.shard.File, err)
	}
	s.shard.FileInfo = FileInfo{s.out.bytes, hex.EncodeToString(s.out.sum.Sum(nil))}
	w.info.Shards = append(w.info.Shards, s.shard)
	w.info.Tokens += s.shard.Tokens
	return nil
}

// Commit writes the rest and makes the dataset exist, durably and at once. It fails when there is
// no document, when something else has appeared at the place (fs.ErrExist), or when a write fails or has failed;
// then nothing is left behind, except where only the last step fails, making the new name durable.
func (w *Writer) Commit() (Info, error) {
	if w.closed {
		return Info{}, fmt.Errorf("write dataset %s: it is closed", w.dir)
	}
	if err := w.commit(); err != nil {
		return Info{}, errors.Join(fmt.Errorf("write dataset %s: %w", w.dir, err), w.Abort())
	}
	w.closed = true
	if err := errors.Join(w.fsys.SyncDir(filepath.Dir(w.dir)), w.lock.Close()); err != nil {
		return Info{}, fmt.Errorf("write dataset %s: it is there, but may not survive a power cut: %w", w.dir, err)
	}
	_ = w.fsys.Remove(w.dir + lockSuffix) // an empty file that stays does no harm
	return w.info, nil
}

func (w *Writer) commit() error {
	if w.broken != nil {
		return w.broken
	}
	if w.info.Documents == 0 {
		return errors.New("it has no documents")
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.finishShard(); err != nil {
		return err
	}
	data, err := w.info.marshal()
	if err != nil {
		return err
	}
	if err := vfs.WriteFileSync(w.fsys, filepath.Join(w.temp, infoFile), data, 0o644); err != nil {
		return err
	}
	if err := w.fsys.SyncDir(w.temp); err != nil {
		return err
	}
	if err := vacant(w.fsys, w.dir); err != nil {
		return err
	}
	// Not every system renames onto a folder, even an empty one.
	if err := w.fsys.Remove(w.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.fsys.Rename(w.temp, w.dir)
}

// Absent reports whether a dataset may be put at dir: there is nothing, or an empty folder.
func Absent(fsys vfs.FS, dir string) (bool, error) {
	info, err := fsys.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || !info.IsDir() {
		return false, err
	}
	entries, err := fsys.ReadDir(dir)
	return err == nil && len(entries) == 0, err
}

func vacant(fsys vfs.FS, dir string) error {
	absent, err := Absent(fsys, dir)
	if err == nil && !absent {
		err = occupied{}
	}
	return err
}

// occupied is the error that there is something at a dataset's place. It is fs.ErrExist and does not
// say so.
type occupied struct{}

func (occupied) Error() string {
	return "something of this name exists already and is no empty folder: choose another place or remove it"
}

// Is implements what errors.Is asks.
func (occupied) Is(target error) bool { return target == fs.ErrExist }

// Abort gives up and removes what was written. After Commit or Abort it does nothing.
func (w *Writer) Abort() error {
	if w.closed {
		return nil
	}
	w.closed = true
	var err error
	if w.shard != nil {
		err = w.shard.file.Close()
		w.shard = nil
	}
	return errors.Join(err, vfs.RemoveAll(w.fsys, w.temp), w.lock.Close())
}

// hashingFile is what the Arrow library writes to: it adds up size and SHA-256 on the way.
type hashingFile struct {
	file  io.Writer
	sum   hash.Hash
	bytes int64
}

// Write implements io.Writer.
func (h *hashingFile) Write(p []byte) (int, error) {
	n, err := h.file.Write(p)
	h.sum.Write(p[:n])
	h.bytes += int64(n)
	return n, err
}

// Seek implements io.Seeker as far as the library needs it, which only asks for the position.
func (h *hashingFile) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.New("seek in a file that only grows")
	}
	return h.bytes, nil
}
