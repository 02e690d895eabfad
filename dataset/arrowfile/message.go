package arrowfile

import (
	"encoding/binary"
	"fmt"
)

// Numbers of the Arrow format (format/Message.fbs and format/Schema.fbs of Apache Arrow).
const (
	headerSchema      = 1
	headerRecordBatch = 3
	typeInt           = 2
	typeList          = 12
	typeFixedSizeList = 16

	continuation = 0xFFFFFFFF
	prefixBytes  = 8       // continuation, metadata length
	maxMetadata  = 1 << 20 // bytes; ours are a few hundred, plus the tokenizer's identity in a schema
	maxPairs     = 16      // of schema metadata; without a limit all of them could share one long string
)

// columnName is the name of the one column.
const columnName = "tokens"

// column is the type of the one column: lists of uint16 or uint32, of any length or of a fixed one.
type column struct {
	wide  bool // uint32
	fixed int  // tokens of every row; 0 when rows have lengths of their own
}

// width returns the bytes of a token.
func (c column) width() int {
	if c.wide {
		return 4
	}
	return 2
}

func (c column) String() string {
	name := "list<uint16>"
	if c.wide {
		name = "list<uint32>"
	}
	if c.fixed > 0 {
		return fmt.Sprintf("fixed_size_%s[%d]", name, c.fixed)
	}
	return name
}

// batch is where a record batch's tokens lie.
type batch struct {
	rows    int64
	tokens  int64
	offsets extent // of the row offsets, in the body; empty for a fixed-size list
	values  extent // of the tokens, in the body
}

// extent is a range of bytes of a message body, inside it.
type extent struct{ start, length int64 }

// message is a walked metadata block.
type message struct {
	flat
	kind   uint8
	header int // place of the header table
	body   int64
}

// metadataLength reads the prefix of an encapsulated message. A length of 0 is the end of a stream.
func metadataLength(prefix []byte) (int, error) {
	if binary.LittleEndian.Uint32(prefix) != continuation {
		return 0, fmt.Errorf("no Arrow message begins here")
	}
	length := binary.LittleEndian.Uint32(prefix[4:])
	if length > maxMetadata || length%8 != 0 {
		return 0, fmt.Errorf("metadata of %d bytes: must be a multiple of 8 up to %d", length, maxMetadata)
	}
	return int(length), nil
}

// walkMessage reads the Message table of a metadata block.
func walkMessage(metadata []byte) (message, error) {
	m := message{flat: flat{buf: metadata}}
	root := m.follow(0)
	if at := m.field(root, 1); at != 0 {
		m.kind = m.u8(at)
	}
	m.header = m.child(root, 2)
	if at := m.field(root, 3); at != 0 {
		m.body = m.i64(at)
	}
	if m.bad || m.body < 0 || m.body%8 != 0 {
		return message{}, fmt.Errorf("damaged message metadata")
	}
	return m, nil
}

// schema reads the Schema table at place table and its key-value metadata. Only one column of the
// types that column can express is accepted.
func (f *flat) schema(table int) (column, map[string]string, error) {
	bigEndian := false
	if at := f.field(table, 0); at != 0 {
		bigEndian = f.u16(at) != 0
	}
	fields, count := f.vector(table, 1, 4)
	if f.bad || bigEndian || count != 1 {
		return column{}, nil, fmt.Errorf("schema: want one little-endian column %q", columnName)
	}
	col, err := f.listField(f.follow(fields))
	if err != nil {
		return column{}, nil, err
	}
	pairs, count := f.vector(table, 2, 4)
	if count > maxPairs {
		return column{}, nil, fmt.Errorf("schema: %d pairs of metadata are more than %d", count, maxPairs)
	}
	metadata := make(map[string]string, count)
	for i := range count {
		pair := f.follow(pairs + 4*i)
		metadata[f.text(pair, 0)] = f.text(pair, 1)
		if f.bad {
			return column{}, nil, fmt.Errorf("schema: damaged metadata")
		}
	}
	return col, metadata, nil
}

// listField reads the Field table of the column and of its items.
func (f *flat) listField(field int) (column, error) {
	var col column
	name, kind := f.plainField(field)
	list := f.child(field, 3)
	switch kind {
	case typeFixedSizeList:
		if at := f.field(list, 0); at != 0 {
			col.fixed = f.i32(at)
		}
	case typeList:
	default:
		f.bad = true
	}
	children, count := f.vector(field, 5, 4)
	if f.bad || name != columnName || count != 1 || kind == typeFixedSizeList && col.fixed < 1 {
		return column{}, fmt.Errorf("schema: want a non-null list column %q without dictionary", columnName)
	}
	item := f.follow(children)
	_, kind = f.plainField(item)
	integer := f.child(item, 3)
	bits, signed := 0, false
	if at := f.field(integer, 0); at != 0 {
		bits = f.i32(at)
	}
	if at := f.field(integer, 1); at != 0 {
		signed = f.u8(at) != 0
	}
	if _, count := f.vector(item, 5, 4); count != 0 {
		f.bad = true
	}
	if f.bad || kind != typeInt || signed || bits != 16 && bits != 32 {
		return column{}, fmt.Errorf("schema: column %q: want items of non-null uint16 or uint32", columnName)
	}
	col.wide = bits == 32
	return col, nil
}

// plainField returns name and type of a field; one that is nullable, or has a dictionary or metadata
// of its own, is bad.
func (f *flat) plainField(field int) (name string, kind uint8) {
	if at := f.field(field, 1); at != 0 && f.u8(at) != 0 {
		f.bad = true
	}
	if f.field(field, 4) != 0 || f.field(field, 6) != 0 {
		f.bad = true
	}
	if at := f.field(field, 2); at != 0 {
		kind = f.u8(at)
	}
	return f.text(field, 0), kind
}

// batch reads the RecordBatch table of a message. Every extent it returns lies in the body and is
// as long as the rows and tokens need.
func (m *message) batch(col column) (batch, error) {
	if m.kind != headerRecordBatch {
		return batch{}, fmt.Errorf("message of kind %d: want a record batch", m.kind)
	}
	var b batch
	if at := m.field(m.header, 0); at != 0 {
		b.rows = m.i64(at)
	}
	nodes, nodeCount := m.vector(m.header, 1, 16)
	buffers, bufferCount := m.vector(m.header, 2, 16)
	compressed := m.field(m.header, 3) != 0
	want := 4 // validity and offsets of the list, validity and values of the items
	if col.fixed > 0 {
		want = 3
	}
	if m.bad || nodeCount != 2 || bufferCount != want || compressed {
		return batch{}, fmt.Errorf("record batch: want one uncompressed column %s", col)
	}
	b.tokens = m.i64(nodes + 16)
	if b.rows < 0 || m.i64(nodes) != b.rows || b.tokens < 0 || m.i64(nodes+8) != 0 || m.i64(nodes+24) != 0 {
		return batch{}, fmt.Errorf("record batch: counts that disagree, or nulls")
	}
	if col.fixed == 0 {
		b.offsets = m.extent(buffers + 16)
	}
	b.values = m.extent(buffers + 16*(want-1))
	if m.bad || b.values.length/int64(col.width()) < b.tokens || col.fixed == 0 && b.offsets.length/4 <= b.rows {
		return batch{}, fmt.Errorf("record batch: buffers that do not lie in its body or are too short")
	}
	return b, nil
}

// extent reads a Buffer struct.
func (m *message) extent(at int) extent {
	e := extent{m.i64(at), m.i64(at + 8)}
	if e.start < 0 || e.length < 0 || e.start%8 != 0 || e.start > m.body || e.length > m.body-e.start {
		m.bad = true
		return extent{}
	}
	return e
}
