package crashfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
)

// handle is an open file. Its position moves with Read and Write.
type handle struct {
	fs       *FS
	node     *node
	path     string
	position int
	writable bool
	appends  bool
	locks    bool // closing it unlocks the node
	closed   bool
}

var (
	errReadOnly = errors.New("file is open for reading only")
	errAppends  = errors.New("file is open for appending only")
)

// begin checks the handle, then counts the operation. Callers hold the lock.
func (h *handle) begin(kind string, bytes int) error {
	if h.closed {
		return h.wrap(kind, fs.ErrClosed)
	}
	return h.fs.begin(kind, h.path, bytes)
}

func (h *handle) wrap(kind string, err error) error {
	return &fs.PathError{Op: kind, Path: h.path, Err: err}
}

// Read implements io.Reader.
func (h *handle) Read(p []byte) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	n, err := h.readAt("read", p, h.position)
	h.position += n
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (h *handle) ReadAt(p []byte, offset int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.readAt("readat", p, int(offset))
}

func (h *handle) readAt(kind string, p []byte, offset int) (int, error) {
	if err := h.begin(kind, len(p)); err != nil {
		return 0, err
	}
	switch {
	case h.appends:
		return 0, h.wrap(kind, errAppends)
	case offset < 0:
		return 0, h.wrap(kind, fs.ErrInvalid)
	case len(p) == 0:
		return 0, nil
	case offset >= len(h.node.data):
		return 0, io.EOF
	}
	n := copy(p, h.node.data[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements io.Writer.
func (h *handle) Write(p []byte) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.appends {
		h.position = len(h.node.data)
	}
	n, err := h.writeAt("write", p, h.position)
	h.position += n
	return n, err
}

// WriteAt implements io.WriterAt.
func (h *handle) WriteAt(p []byte, offset int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.appends {
		return 0, h.wrap("writeat", errAppends)
	}
	return h.writeAt("writeat", p, int(offset))
}

// writeAt leaves the first half of p when a fault makes the write fail, as a full disk may.
func (h *handle) writeAt(kind string, p []byte, offset int) (int, error) {
	if h.closed {
		return 0, h.wrap(kind, fs.ErrClosed)
	}
	if !h.writable {
		return 0, h.wrap(kind, errReadOnly)
	}
	if offset < 0 {
		return 0, h.wrap(kind, fs.ErrInvalid)
	}
	alive := !h.fs.dead
	err := h.begin(kind, len(p))
	if err != nil && alive {
		p = p[:len(p)/2]
	} else if err != nil {
		return 0, err
	}
	h.node.write(write{offset: offset, data: bytes.Clone(p)})
	if err != nil {
		return len(p), err
	}
	if kind == "write" {
		h.fs.logf("write %s %d", h.path, len(p))
	} else {
		h.fs.logf("writeat %s %d at %d", h.path, len(p), offset)
	}
	return len(p), nil
}

// Sync implements vfs.File.
func (h *handle) Sync() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.begin("sync", 0); err != nil {
		return err
	}
	h.node.sync()
	h.fs.logf("sync %s", h.path)
	return nil
}

// Close implements io.Closer. The handle counts as closed even when a fault makes it fail.
func (h *handle) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.begin("close", 0)
	if h.closed {
		return err
	}
	h.closed = true
	if h.locks {
		h.node.locked = false
	}
	if err == nil && h.writable {
		h.fs.logf("close %s", h.path)
	}
	return err
}
