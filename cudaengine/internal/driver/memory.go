//go:build cuda && cgo && linux

package driver

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// Arena is the one piece of device memory in which all regions of a plan lie.
type Arena struct {
	start Pointer
}

// Free returns how much of the device's memory is free, in bytes.
func (d *Device) Free() (int64, error) {
	free, _, err := cu.MemInfo()
	return free, check("cuMemGetInfo", err)
}

// Allocate makes the arena of a plan. Where it does not fit into what is free, the error lists its largest parts.
func (d *Device) Allocate(p *Plan) (Arena, error) {
	free, err := d.Free()
	if err != nil {
		return Arena{}, err
	}
	if p.Bytes() > free {
		return Arena{}, p.refusal(d.properties.Name, free)
	}
	start, err := cu.MemAlloc(max(p.Bytes(), 1))
	if err != nil {
		return Arena{}, fmt.Errorf("reserving %s on %s, which has %s free: %w", mebibytes(p.Bytes()), d.properties.Name, mebibytes(free), check("cuMemAlloc", err))
	}
	d.own(func() error { return check("cuMemFree", cu.MemFree(start)) })
	return Arena{Pointer(start)}, nil
}

// At returns the address of a planned region.
func (a Arena) At(r Region) Pointer { return a.start + Pointer(r.Offset) }

// Pinned is host memory that the device reads and writes directly, while the program goes on. It is the device's,
// and gone after its Close.
type Pinned struct {
	start unsafe.Pointer
	bytes int64
}

// Pin allocates pinned host memory, at least one byte.
func (d *Device) Pin(bytes int64) (Pinned, error) {
	p, err := allocPinned(max(bytes, 1))
	if err != nil {
		return Pinned{}, fmt.Errorf("pinning %s of host memory: %w", mebibytes(bytes), err)
	}
	d.own(func() error { return check("cuMemFreeHost", cu.MemFreeHost(p)) })
	return Pinned{p, bytes}, nil
}

// Floats is the memory as float32; a copy that is under way may change it or still read it.
func (p Pinned) Floats() []float32 { return view[float32](p) }

// Doubles is the memory as float64.
func (p Pinned) Doubles() []float64 { return view[float64](p) }

// Words is the memory as 32-bit words.
func (p Pinned) Words() []uint32 { return view[uint32](p) }

// Longs is the memory as 64-bit words.
func (p Pinned) Longs() []uint64 { return view[uint64](p) }

func view[T any](p Pinned) []T {
	var t T
	return unsafe.Slice((*T)(p.start), p.bytes/int64(unsafe.Sizeof(t)))
}
