package arrowfile

import "encoding/binary"

// flat reads a FlatBuffer (the encoding of Arrow's metadata) that nobody vouches for. Every access is
// checked against the buffer; the first that leaves it sets bad, and from then on all results are
// zero. So a walk reads what it needs and looks at bad once, before it believes anything.
//
// The encoding, little-endian throughout: offset 0 holds the place of the root table. A table begins
// with the distance back to its vtable of 16-bit numbers (vtable bytes, table bytes, then for each
// field its place in the table, 0 for an absent one). Strings, vectors and tables lie behind a 32-bit
// forward offset; strings and vectors begin with their count.
type flat struct {
	buf []byte
	bad bool
}

// has reports whether n bytes at place at exist.
func (f *flat) has(at, n int) bool {
	if f.bad || at < 0 || n < 0 || at > len(f.buf) || n > len(f.buf)-at {
		f.bad = true
		return false
	}
	return true
}

func (f *flat) u8(at int) uint8 {
	if !f.has(at, 1) {
		return 0
	}
	return f.buf[at]
}

func (f *flat) u16(at int) int {
	if !f.has(at, 2) {
		return 0
	}
	return int(binary.LittleEndian.Uint16(f.buf[at:]))
}

func (f *flat) i32(at int) int {
	if !f.has(at, 4) {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(f.buf[at:])))
}

func (f *flat) i64(at int) int64 {
	if !f.has(at, 8) {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(f.buf[at:]))
}

// follow returns the place that the forward offset at place at leads to. An offset of 0 or beyond
// 2^31 is not a forward offset.
func (f *flat) follow(at int) int {
	distance := f.i32(at)
	if distance <= 0 {
		f.bad = true
		return 0
	}
	return at + distance
}

// field returns the place of a field's value in a table, 0 when the field is absent (its value is
// then the type's default).
func (f *flat) field(table, id int) int {
	vtable := table - f.i32(table)
	entry := 4 + 2*id
	if entry+2 > f.u16(vtable) {
		return 0
	}
	offset := f.u16(vtable + entry)
	if f.bad || offset == 0 {
		return 0
	}
	return table + offset
}

// child returns the place of the table in a field; a missing one is bad.
func (f *flat) child(table, id int) int {
	at := f.field(table, id)
	if at == 0 {
		f.bad = true
		return 0
	}
	return f.follow(at)
}

// vector returns where the elements of the vector in a field begin and how many there are; all of
// them, size bytes each, lie in the buffer. An absent vector has none.
func (f *flat) vector(table, id, size int) (first, count int) {
	at := f.field(table, id)
	if at == 0 {
		return 0, 0
	}
	at = f.follow(at)
	count = f.i32(at)
	if count < 0 || count > len(f.buf)/size || !f.has(at+4, count*size) {
		f.bad = true
		return 0, 0
	}
	return at + 4, count
}

// text returns the string in a field; an absent one is empty.
func (f *flat) text(table, id int) string {
	first, count := f.vector(table, id, 1)
	return string(f.buf[first : first+count])
}
