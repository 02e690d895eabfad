package arrowfile

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// Keys of the schema metadata of a shard.
const (
	keyFormat    = "andrea.format"
	keyTokenizer = "andrea.tokenizer"
	keyVocab     = "andrea.vocab"
)

// shardMetadata is what every shard of a dataset says of it.
func shardMetadata(vocab int, tokenizer string) map[string]string {
	return map[string]string{
		keyFormat:    strconv.Itoa(formatNumber),
		keyTokenizer: tokenizer,
		keyVocab:     strconv.Itoa(vocab),
	}
}

// schemaOf returns the Arrow schema of a column.
func schemaOf(col column, metadata map[string]string) *arrow.Schema {
	var item arrow.DataType = arrow.PrimitiveTypes.Uint16
	if col.wide {
		item = arrow.PrimitiveTypes.Uint32
	}
	var list arrow.DataType = arrow.ListOfNonNullable(item)
	if col.fixed > 0 {
		list = arrow.FixedSizeListOfNonNullable(int32(col.fixed), item)
	}
	var pairs *arrow.Metadata
	if metadata != nil {
		m := arrow.MetadataFrom(metadata)
		pairs = &m
	}
	return arrow.NewSchema([]arrow.Field{{Name: columnName, Type: list}}, pairs)
}

// tokenBuffer collects the tokens of a record batch in the width that the column has.
type tokenBuffer struct {
	wide   bool
	narrow []uint16
	broad  []uint32
}

// add appends ids, which the caller has found to fit.
func (b *tokenBuffer) add(ids []uint32) {
	if b.wide {
		b.broad = append(b.broad, ids...)
		return
	}
	for _, id := range ids {
		b.narrow = append(b.narrow, uint16(id))
	}
}

func (b *tokenBuffer) len() int {
	if b.wide {
		return len(b.broad)
	}
	return len(b.narrow)
}

func (b *tokenBuffer) reset() { b.narrow, b.broad = b.narrow[:0], b.broad[:0] }

func (b *tokenBuffer) bytes() []byte {
	if b.wide {
		return arrow.Uint32Traits.CastToBytes(b.broad)
	}
	return arrow.Uint16Traits.CastToBytes(b.narrow)
}

// record returns a record batch over the tokens: rows lists, with offsets unless the column has a
// fixed size. It borrows both slices; the caller releases it before touching them.
func (b *tokenBuffer) record(schema *arrow.Schema, rows int, offsets []int32) arrow.Record {
	list := schema.Field(0).Type.(arrow.ListLikeType)
	values := array.NewData(list.Elem(), b.len(), []*memory.Buffer{nil, memory.NewBufferBytes(b.bytes())}, nil, 0, 0)
	defer values.Release()
	buffers := []*memory.Buffer{nil}
	if offsets != nil {
		buffers = append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)))
	}
	data := array.NewData(list, rows, buffers, []arrow.ArrayData{values}, 0, 0)
	defer data.Release()
	lists := array.MakeFromData(data)
	defer lists.Release()
	return array.NewRecord(schema, []arrow.Array{lists}, int64(rows))
}

// guard turns a panic of the Arrow library, which it uses for damaged input, into an error.
func guard(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the Arrow library gave up: %v", r)
		}
	}()
	return do()
}
