package cli

import (
	"context"
	"sync/atomic"

	"andrea/vfs"
)

// reading is a file system for long reads: they end when ctx does, and progress is
// told how many bytes all of them have read so far.
type reading struct {
	vfs.FS
	ctx      context.Context
	progress func(done int64)
	done     atomic.Int64
}

// Open opens a file for reading.
func (r *reading) Open(path string) (vfs.File, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	file, err := r.FS.Open(path)
	if err != nil {
		return nil, err
	}
	return &readingFile{file, r}, nil
}

type readingFile struct {
	vfs.File
	in *reading
}

func (f *readingFile) Read(b []byte) (int, error) {
	if err := f.in.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.File.Read(b)
	f.in.progress(f.in.done.Add(int64(n)))
	return n, err
}

func (f *readingFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.in.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(b, at)
	f.in.progress(f.in.done.Add(int64(n)))
	return n, err
}
