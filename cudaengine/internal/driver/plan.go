//go:build cuda && cgo && linux

package driver

import (
	"fmt"
	"slices"
	"strings"
)

// Alignment is what the address of every region is a multiple of, and the least distance between two, in bytes. The gap
// belongs to nobody: on a device that fills memory with NaN, a kernel that reads beyond its region shows.
const Alignment = 512

// Slot is one parameter of a kernel, in 8 bytes whatever its type; see Int and Float.
type Slot uint64

// Pointer is an address in the device's memory, and the slot of a parameter that takes one.
type Pointer = Slot

// Region is a piece of an arena that has been planned.
type Region struct {
	Name   string
	Offset int64 // from the start of the arena, in bytes
	Bytes  int64
}

// Plan lists the regions of an arena before there is one, so that everything is known to fit before the first
// step. The zero value is empty.
type Plan struct {
	regions []Region
	bytes   int64
}

// Add plans a region of that many bytes, at least one.
func (p *Plan) Add(name string, bytes int64) Region {
	r := Region{Name: name, Offset: p.bytes, Bytes: max(bytes, 1)}
	p.bytes += (r.Bytes+Alignment-1)/Alignment*Alignment + Alignment
	p.regions = append(p.regions, r)
	return r
}

// Bytes is the size of the arena.
func (p *Plan) Bytes() int64 { return p.bytes }

// refusal says that a plan does not fit into the memory that is free, and what takes the most of it.
func (p *Plan) refusal(device string, free int64) error {
	largest := slices.Clone(p.regions)
	slices.SortStableFunc(largest, func(a, b Region) int { return int(min(max(b.Bytes-a.Bytes, -1), 1)) })
	var parts []string
	for _, r := range largest[:min(3, len(largest))] {
		parts = append(parts, fmt.Sprintf("%s %s", r.Name, mebibytes(r.Bytes)))
	}
	return fmt.Errorf("reserving memory on %s: %s needed, %s free: the largest parts are %s: end what else runs on the device, or take a smaller microbatch, fewer lanes or a smaller model",
		device, mebibytes(p.bytes), mebibytes(free), strings.Join(parts, ", "))
}

// mebibytes writes a number of bytes for people.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
