package dirstore

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"path/filepath"

	"andrea/checkpoints"
	"andrea/vfs"
)

// tensorFile is a safetensors file that is being written: bytes in order from the start, and others
// ahead of them that the order reaches later.
type tensorFile struct {
	file   vfs.File // nil when closed
	name   string
	sum    hash.Hash // of the bytes [0, end)
	end    int64     // bytes written in order
	length int64     // bytes of the file when all is written
}

// createTensors makes the file and writes its header.
func createTensors(fsys vfs.FS, path string, tensors []checkpoints.HeaderTensor) (*tensorFile, error) {
	header, err := checkpoints.MarshalHeader(tensors)
	if err != nil {
		return nil, err
	}
	file, err := fsys.Create(path, 0o644)
	if err != nil {
		return nil, err
	}
	t := &tensorFile{
		file: file, name: filepath.Base(path), sum: sha256.New(),
		length: int64(len(header)) + tensors[len(tensors)-1].End,
	}
	return t, t.append(header)
}

// append writes the next bytes in order.
func (t *tensorFile) append(b []byte) error {
	if _, err := t.file.WriteAt(b, t.end); err != nil {
		return err
	}
	t.sum.Write(b) // never fails
	t.end += int64(len(b))
	return nil
}

// writeAhead writes bytes that lie the given distance behind those appended last.
func (t *tensorFile) writeAhead(b []byte, distance int64) error {
	_, err := t.file.WriteAt(b, t.end-int64(len(b))+distance)
	return err
}

// finish hashes what was written ahead, makes the bytes durable and closes the file. buffer is free
// memory.
func (t *tensorFile) finish(buffer []byte) (checkpoints.File, error) {
	for t.end < t.length {
		part := buffer[:min(int64(len(buffer)), t.length-t.end)]
		if err := vfs.ReadFullAt(t.file, part, t.end); err != nil {
			return checkpoints.File{}, err
		}
		t.sum.Write(part)
		t.end += int64(len(part))
	}
	if err := t.file.Sync(); err != nil {
		return checkpoints.File{}, err
	}
	err := t.file.Close()
	t.file = nil
	return checkpoints.File{Name: t.name, Bytes: t.length, SHA256: hex.EncodeToString(t.sum.Sum(nil))}, err
}

// discard closes a file that is about to be deleted, so its errors say nothing.
func (t *tensorFile) discard() {
	if t != nil && t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}
