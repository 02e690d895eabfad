package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"andrea/pipeline/wire/checksum"
)

// maxRequestBytes is the size up to which a bulk request is read.
const maxRequestBytes = 4 << 10

// ChunkElements is how many float32 elements one message carries: 512 KiB, the
// middle of the range in which NATS is fastest.
const ChunkElements = 1 << 17

// TokensRequest asks for the windows of one microbatch of a step, or, with
// Validation, for the validation window number Microbatch.
type TokensRequest struct {
	Validation bool  `json:"validation"`
	Step       int64 `json:"step"`
	Lane       int   `json:"lane"`
	Microbatch int   `json:"microbatch"`
}

// The parts of a state.
const (
	PartWeights      = iota // the parameters
	PartFirstMoment         // m of AdamW
	PartSecondMoment        // v of AdamW
	Parts                   // their number
)

// StateRequest asks for up to ChunkElements elements of one part of one bucket of
// state Step, from element Offset of the bucket on.
type StateRequest struct {
	Step   int64 `json:"step"`
	Bucket int   `json:"bucket"`
	Part   int   `json:"part"`
	Offset int   `json:"offset"`
}

// GradRequest asks for up to ChunkElements elements of one bucket of a gradient of Step,
// summed over the lanes [Lo, Hi), from element Offset of the bucket on.
type GradRequest struct {
	Step   int64 `json:"step"`
	Lo     int   `json:"lo"`
	Hi     int   `json:"hi"`
	Bucket int   `json:"bucket"`
	Offset int   `json:"offset"`
}

// Request is what bulk data is asked for with.
type Request interface {
	TokensRequest | StateRequest | GradRequest
}

// EncodeRequest writes a bulk request.
func EncodeRequest[R Request](r R) []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic("wire: a struct of integers is always JSON: " + err.Error())
	}
	return data
}

// DecodeRequest reads a bulk request.
func DecodeRequest[R Request](data []byte) (R, error) {
	var r R
	if len(data) > maxRequestBytes {
		return r, fmt.Errorf("decoding a request: it has %d bytes: at most %d are read", len(data), maxRequestBytes)
	}
	if err := strict(data, &r); err != nil {
		return r, fmt.Errorf("decoding a request: %w", err)
	}
	return r, nil
}

// HeaderBytes is the length of what precedes the payload in a frame.
const HeaderBytes = 16

const (
	frameMagic  = "AND1"
	frameHeader = HeaderBytes
	frameData   = 0
	frameReason = 1
)

// EncodeReply frames a payload.
func EncodeReply(payload []byte) []byte { return frame(frameData, payload) }

// EncodeRefusal frames the reason why a request is not answered.
func EncodeRefusal(reason error) []byte { return frame(frameReason, []byte(reason.Error())) }

func frame(kind uint32, payload []byte) []byte {
	data := make([]byte, frameHeader+len(payload))
	copy(data, frameMagic)
	binary.LittleEndian.PutUint32(data[4:], kind)
	binary.LittleEndian.PutUint32(data[8:], uint32(len(payload)))
	copy(data[frameHeader:], payload)
	binary.LittleEndian.PutUint32(data[12:], frameSum(data, data[frameHeader:]))
	return data
}

// frameSum is the checksum of all of a frame that can differ from one to another: kind,
// length and payload.
func frameSum(header, payload []byte) uint32 {
	return checksum.Update(checksum.Update(0, header[4:12]), payload)
}

// Refusal is the other side's reason for not answering. Asking again does not help.
type Refusal struct{ Reason string }

// Error implements error.
func (r Refusal) Error() string { return "the other side refused: " + r.Reason }

// ErrDamaged reports a frame that did not arrive as it was sent. Asking again helps.
var ErrDamaged = errors.New("the frame is damaged")

// DecodeReply returns the payload of a frame, a part of data; or a Refusal, or
// ErrDamaged.
func DecodeReply(data []byte) ([]byte, error) {
	n := min(len(data), frameHeader)
	if err := CheckReply(data[:n], data[n:]); err != nil {
		return nil, err
	}
	return data[n:], nil
}

// CheckReply is DecodeReply for a frame whose payload lies elsewhere than its header.
func CheckReply(header, payload []byte) error {
	if len(header) < frameHeader || string(header[:4]) != frameMagic {
		return fmt.Errorf("decoding a reply of %d bytes: no header: %w", len(header)+len(payload), ErrDamaged)
	}
	if length := binary.LittleEndian.Uint32(header[8:]); int64(length) != int64(len(payload)) {
		return fmt.Errorf("decoding a reply: it announces %d bytes and has %d: %w", length, len(payload), ErrDamaged)
	}
	if sum := frameSum(header, payload); sum != binary.LittleEndian.Uint32(header[12:]) {
		return fmt.Errorf("decoding a reply of %d bytes: its checksum differs: %w", len(header)+len(payload), ErrDamaged)
	}
	switch binary.LittleEndian.Uint32(header[4:]) {
	case frameData:
		return nil
	case frameReason:
		return Refusal{string(payload)}
	}
	return fmt.Errorf("decoding a reply: its kind is unknown: %w", ErrDamaged)
}

// EncodeFloats frames the little-endian bits of x, in the memory of room where that is enough: to
// clear new memory for every chunk costs as much as to copy it.
func EncodeFloats(room []byte, x []float32) []byte {
	data := room[:cap(room)]
	if size := frameHeader + 4*len(x); len(data) < size {
		data = make([]byte, size)
	} else {
		data = data[:size]
	}
	putFloats(data[frameHeader:], x)
	putHeader(data, data[frameHeader:])
	return data
}

// EncodeHeader is the header of a frame with a payload that lies elsewhere.
func EncodeHeader(payload []byte) []byte {
	header := make([]byte, frameHeader)
	putHeader(header, payload)
	return header
}

// putHeader writes the header of a frame with data.
func putHeader(header, payload []byte) {
	copy(header, frameMagic)
	binary.LittleEndian.PutUint32(header[4:], frameData)
	binary.LittleEndian.PutUint32(header[8:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(header[12:], frameSum(header, payload))
}

// littleEndian reports that this machine keeps floats in memory as they travel: then one
// copy moves them, at six times the speed of a loop.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Memory is the memory of x, which is the payload of a frame with x; nil where this machine keeps floats otherwise than
// they travel.
func Memory(x []float32) []byte {
	if !littleEndian {
		return nil
	}
	return bytesOf(x)
}

// bytesOf is the memory of x.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// putFloats writes the little-endian bits of x to dst, which has room for them.
func putFloats(dst []byte, x []float32) {
	if littleEndian {
		copy(dst, bytesOf(x))
		return
	}
	for i, f := range x {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

// Floats reads exactly len(dst) elements into dst.
func Floats(dst []float32, data []byte) error {
	if len(data) != 4*len(dst) {
		return fmt.Errorf("decoding floats: %d bytes for %d elements: %w", len(data), len(dst), ErrDamaged)
	}
	if littleEndian {
		copy(bytesOf(dst), data)
		return nil
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return nil
}
