package arrowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// EncodeWindows returns an Arrow IPC stream with one record batch, a row for each window: what the
// coordinator sends to a worker. All windows have the same length. With wide the ids are uint32,
// else uint16; Wide tells which a vocabulary needs. It fails for no windows, empty ones or unequal
// lengths, and for an id that does not fit. The caller owns the result.
func EncodeWindows(windows [][]uint32, wide bool) ([]byte, error) {
	return encodeWindows(windows, wide, memory.DefaultAllocator)
}

func encodeWindows(windows [][]uint32, wide bool, alloc memory.Allocator) ([]byte, error) {
	if len(windows) == 0 || len(windows[0]) == 0 || len(windows[0]) > math.MaxInt32 {
		return nil, errors.New("encode windows: there are none, or they are empty")
	}
	size := len(windows[0])
	tokens := tokenBuffer{wide: wide}
	for i, window := range windows {
		if len(window) != size {
			return nil, fmt.Errorf("encode windows: window %d has %d tokens, window 0 has %d", i, len(window), size)
		}
		for _, id := range window {
			if !wide && id > math.MaxUint16 {
				return nil, fmt.Errorf("encode windows: window %d: id %d does not fit into 16 bits", i, id)
			}
		}
		tokens.add(window)
	}
	col := column{wide: wide, fixed: size}
	schema := schemaOf(col, nil)
	var out bytes.Buffer
	out.Grow(tokens.len()*col.width() + 1024)
	record := tokens.record(schema, len(windows), nil)
	defer record.Release()
	err := guard(func() error {
		writer := ipc.NewWriter(&out, ipc.WithSchema(schema), ipc.WithAllocator(alloc))
		return errors.Join(writer.Write(record), writer.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("encode windows: %w", err)
	}
	return out.Bytes(), nil
}

// DecodeWindows reads what EncodeWindows wrote and accepts nothing but what is expected: so many
// windows of so many tokens each, in the width that the vocabulary needs, every id below it, and the
// end of the stream right behind. The windows share one new slice, in order; data stays the
// caller's. It allocates no more than data's size times a small constant, and never panics.
func DecodeWindows(data []byte, wantWindows, wantTokens, vocab int) ([][]uint32, error) {
	windows, err := decodeWindows(data, wantWindows, wantTokens, vocab)
	if err != nil {
		return nil, fmt.Errorf("decode windows: %w", err)
	}
	return windows, nil
}

func decodeWindows(data []byte, wantWindows, wantTokens, vocab int) ([][]uint32, error) {
	want := column{wide: Wide(vocab), fixed: wantTokens}
	if wantWindows < 1 || wantTokens < 1 || vocab < 1 || vocab > MaxVocab {
		return nil, fmt.Errorf("%d windows of %d tokens with a vocabulary of %d were expected: that cannot be", wantWindows, wantTokens, vocab)
	}
	if room := len(data) / want.width(); wantWindows > room || wantTokens > room/wantWindows {
		return nil, fmt.Errorf("%d bytes cannot hold %d windows of %d tokens", len(data), wantWindows, wantTokens)
	}
	m, _, rest, err := nextMessage(data)
	if err != nil {
		return nil, err
	}
	if m.kind != headerSchema {
		return nil, fmt.Errorf("the first message is of kind %d, not a schema", m.kind)
	}
	if col, _, err := m.schema(m.header); err != nil {
		return nil, err
	} else if col != want {
		return nil, fmt.Errorf("the column is %s, not %s", col, want)
	}
	m, body, rest, err := nextMessage(rest)
	if err != nil {
		return nil, err
	}
	b, err := m.batch(want)
	if err != nil {
		return nil, err
	}
	count := wantWindows * wantTokens
	if b.rows != int64(wantWindows) || b.tokens != int64(count) {
		return nil, fmt.Errorf("%d windows with %d tokens in all, not %d with %d", b.rows, b.tokens, wantWindows, count)
	}
	if len(rest) != prefixBytes || binary.LittleEndian.Uint64(rest) != continuation {
		return nil, errors.New("the stream does not end after its record batch")
	}
	flat := make([]uint32, count)
	if err := decode(flat, body[b.values.start:], want.wide, vocab); err != nil {
		return nil, err
	}
	windows := make([][]uint32, wantWindows)
	for i := range windows {
		windows[i] = flat[i*wantTokens : (i+1)*wantTokens : (i+1)*wantTokens]
	}
	return windows, nil
}

// nextMessage splits the first message of a stream off: its metadata and its body.
func nextMessage(data []byte) (m message, body, rest []byte, err error) {
	if len(data) < prefixBytes {
		return message{}, nil, nil, errors.New("the stream ends early")
	}
	length, err := metadataLength(data)
	if err != nil {
		return message{}, nil, nil, err
	}
	data = data[prefixBytes:]
	if length > len(data) {
		return message{}, nil, nil, errors.New("the stream ends early")
	}
	if m, err = walkMessage(data[:length]); err != nil {
		return message{}, nil, nil, err
	}
	data = data[length:]
	if m.body > int64(len(data)) {
		return message{}, nil, nil, errors.New("the stream ends early")
	}
	return m, data[:m.body], data[m.body:], nil
}
