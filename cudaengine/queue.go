//go:build cuda && cgo && linux

package cudaengine

import (
	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
)

// queue issues work to one stream. After the first error it issues nothing until finish has returned it.
type queue struct {
	stream *driver.Stream
	err    error
	dry    bool // nothing is issued: only what is planned on the way counts
}

// issue queues one operation.
func (q *queue) issue(operation func() error) {
	if q.err == nil && !q.dry {
		q.err = operation()
	}
}

// launch queues a kernel, on the grid that its sizes give.
func (q *queue) launch(k kernel, s kernels.Sizes, slots ...driver.Slot) {
	if q.err != nil || q.dry {
		return
	}
	grid := k.Grid(s)
	g := driver.Geometry{X: grid[0], Y: grid[1], Z: grid[2], Threads: k.Threads, Shared: k.Shared}
	q.err = k.handle.Launch(q.stream, g, slots...)
}

// zero sets words of 4 bytes to 0.
func (q *queue) zero(dst driver.Pointer, words int64) {
	q.issue(func() error { return q.stream.Zero(dst, words) })
}

// in copies the first bytes of pinned memory to the device.
func (q *queue) in(dst driver.Pointer, src driver.Pinned, bytes int64) {
	q.issue(func() error { return q.stream.CopyIn(dst, src, bytes) })
}

// out copies from the device to the first bytes of pinned memory.
func (q *queue) out(dst driver.Pinned, src driver.Pointer, bytes int64) {
	q.issue(func() error { return q.stream.CopyOut(dst, src, bytes) })
}

// fail keeps an error, if it is the first.
func (q *queue) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// finish waits for everything queued, also after an error, and returns the first one.
func (q *queue) finish() error {
	err := q.err
	q.err = nil
	if waited := q.stream.Synchronize(); err == nil {
		err = waited
	}
	return err
}
