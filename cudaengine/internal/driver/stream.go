//go:build cuda && cgo && linux

package driver

import (
	"fmt"

	"gorgonia.org/cu"
)

// Stream is a queue of operations that the device works off in order. Streams wait for each other only by events.
// Its methods queue and return; errors of what is queued appear at a later call.
type Stream struct {
	handle cu.Stream
}

// NewStream makes a stream.
func (d *Device) NewStream() (*Stream, error) {
	handle, err := cu.MakeStream(cu.NonBlocking)
	if err != nil {
		return nil, check("cuStreamCreate", err)
	}
	s := &Stream{handle}
	d.own(func() error { return check("cuStreamDestroy", s.handle.Destroy()) })
	return s, nil
}

// CopyIn copies the first bytes of pinned memory to the device. The memory must stay as it is until the stream has
// come past it.
func (s *Stream) CopyIn(dst Pointer, src Pinned, bytes int64) error {
	if err := src.holds(bytes); err != nil || bytes == 0 {
		return err
	}
	return check("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src.start, bytes, s.handle))
}

// CopyOut copies from the device to the first bytes of pinned memory, which may be read once the stream has come
// past it.
func (s *Stream) CopyOut(dst Pinned, src Pointer, bytes int64) error {
	if err := dst.holds(bytes); err != nil || bytes == 0 {
		return err
	}
	return check("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(dst.start, cu.DevicePtr(src), bytes, s.handle))
}

// holds checks the length of a copy.
func (p Pinned) holds(bytes int64) error {
	if bytes < 0 || bytes > p.bytes {
		return fmt.Errorf("copying %d bytes: the pinned memory has %d", bytes, p.bytes)
	}
	return nil
}

// Zero sets words of 4 bytes to 0.
func (s *Stream) Zero(dst Pointer, words int64) error {
	if words == 0 {
		return nil
	}
	return check("cuMemsetD32Async", cu.MemsetD32Async(cu.DevicePtr(dst), 0, words, s.handle))
}

// Synchronize waits until everything queued is done.
func (s *Stream) Synchronize() error { return check("cuStreamSynchronize", s.handle.Synchronize()) }

// Event is a point in a stream that others can wait for.
type Event struct {
	handle cu.Event
}

// NewEvent makes an event.
func (d *Device) NewEvent() (*Event, error) {
	handle, err := cu.MakeEvent(cu.DisableTiming)
	if err != nil {
		return nil, check("cuEventCreate", err)
	}
	e := &Event{handle}
	d.own(func() error { return check("cuEventDestroy", cu.DestroyEvent(&e.handle)) })
	return e, nil
}

// Record sets the event to what is queued in the stream now.
func (s *Stream) Record(e *Event) error { return check("cuEventRecord", e.handle.Record(s.handle)) }

// Synchronize waits until the device has come past the event as it was recorded last.
func (e *Event) Synchronize() error { return check("cuEventSynchronize", e.handle.Synchronize()) }

// Wait makes what is queued from now on wait for the event as it was recorded last.
func (s *Stream) Wait(e *Event) error {
	return check("cuStreamWaitEvent", s.handle.Wait(e.handle, 0))
}
