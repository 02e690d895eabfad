package checkpoints

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"andrea/model"
)

// The safetensors format (https://github.com/huggingface/safetensors, "Format"): a length, a header
// in JSON of that length, then the tensors' bytes. This package writes and accepts one form of it:
// float32 tensors in the order of their bytes, no holes, "__metadata__" {"format":"pt"} (some readers
// insist on it), and spaces up to a multiple of 8, so that the data is aligned.

// LengthBytes is the size of the length that begins a tensor file: an unsigned 64-bit number, little end first.
const LengthBytes = 8

// MaxHeaderBytes is the largest header that is read; that of the largest legal model is smaller.
const MaxHeaderBytes = 4 << 20

const (
	floatBytes    = 4
	maxNameBytes  = 256
	maxDimensions = 8
	metadataKey   = "__metadata__"
	headerFormat  = "pt"
)

// HeaderTensor is one float32 tensor of a tensor file. It occupies the bytes [Begin, End) of the
// data, which starts after the header.
type HeaderTensor struct {
	Name       string
	Shape      []int // one number per dimension, outermost first; each above 0
	Begin, End int64
}

// ModelTensors lists the tensors of model.safetensors: the flat parameter vector, cut at the
// tensors' borders.
func ModelTensors(l model.Layout) []HeaderTensor { return appendTensors(nil, l, "") }

// OptimizerTensors lists the tensors of optimizer.safetensors: "m." before the name for the first
// moments of all tensors, then "v." for the second moments.
func OptimizerTensors(l model.Layout) []HeaderTensor {
	return appendTensors(appendTensors(nil, l, "m."), l, "v.")
}

func appendTensors(tensors []HeaderTensor, l model.Layout, prefix string) []HeaderTensor {
	var base int64
	if len(tensors) > 0 {
		base = tensors[len(tensors)-1].End
	}
	for _, t := range l.Tensors {
		tensors = append(tensors, HeaderTensor{
			Name:  prefix + t.Name,
			Shape: []int{t.Rows, t.Cols},
			Begin: base + int64(t.Offset)*floatBytes,
			End:   base + int64(t.End())*floatBytes,
		})
	}
	return tensors
}

// headerEntry is the JSON form of a tensor.
type headerEntry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// MarshalHeader returns the bytes before the data: the length and the padded header. The tensors must
// be in the order of their bytes and cover them from 0 without holes.
func MarshalHeader(tensors []HeaderTensor) ([]byte, error) {
	if err := checkTensors(tensors); err != nil {
		return nil, fmt.Errorf("writing a tensor file's header: %w", err)
	}
	b := make([]byte, LengthBytes, LengthBytes+64+128*len(tensors))
	b = append(b, `{"`+metadataKey+`":{"format":"`+headerFormat+`"}`...)
	for _, t := range tensors {
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, err
		}
		entry, err := json.Marshal(headerEntry{DType: "F32", Shape: t.Shape, Offsets: [2]int64{t.Begin, t.End}})
		if err != nil {
			return nil, err
		}
		b = append(append(append(append(b, ','), name...), ':'), entry...)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b)-LengthBytes > MaxHeaderBytes {
		return nil, fmt.Errorf("writing a tensor file's header: %d bytes for %d tensors: at most %d are read back", len(b)-LengthBytes, len(tensors), MaxHeaderBytes)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-LengthBytes))
	return b, nil
}

// HeaderLength checks the length that begins a tensor file of fileBytes bytes and returns it. first
// holds the file's first LengthBytes bytes.
func HeaderLength(first []byte, fileBytes int64) (int64, error) {
	if len(first) != LengthBytes || fileBytes < LengthBytes {
		return 0, fmt.Errorf("the file has %d bytes: a tensor file begins with a length of %d bytes: it is truncated or another kind of file", fileBytes, LengthBytes)
	}
	length := binary.LittleEndian.Uint64(first)
	switch {
	case length > MaxHeaderBytes:
		return 0, fmt.Errorf("the header's length is %d bytes: at most %d are read: the file is damaged or another kind of file", length, MaxHeaderBytes)
	case length < 2 || length%8 != 0:
		return 0, fmt.Errorf("the header's length is %d bytes: must be a multiple of 8 and hold at least {}", length)
	case int64(length) > fileBytes-LengthBytes:
		return 0, fmt.Errorf("the header's length is %d bytes, but only %d follow it: the file is truncated", length, fileBytes-LengthBytes)
	}
	return int64(length), nil
}

// ParseHeader reads a header (without the length before it) whose data has dataBytes bytes, and
// returns the tensors in the order of their bytes. It refuses every header that MarshalHeader would
// have written differently: unknown fields, other types, holes, overlaps, duplicates, other spacing.
func ParseHeader(header []byte, dataBytes int64) ([]HeaderTensor, error) {
	if len(header) > MaxHeaderBytes {
		return nil, fmt.Errorf("the header has %d bytes: at most %d are read", len(header), MaxHeaderBytes)
	}
	tensors, err := decodeHeader(header)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(tensors, func(a, b HeaderTensor) int { return cmp.Compare(a.Begin, b.Begin) })
	if err := checkTensors(tensors); err != nil {
		return nil, err
	}
	if end := tensors[len(tensors)-1].End; end != dataBytes {
		return nil, fmt.Errorf("the tensors end at byte %d of the data, which has %d bytes: the file is truncated or has a tail that belongs to no tensor", end, dataBytes)
	}
	canonical, err := MarshalHeader(tensors)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(canonical[LengthBytes:], header) {
		return nil, errors.New(`the header is not in the form of this project (tensors in the order of their bytes, "__metadata__" {"format":"pt"} first, no spaces but the padding at the end): write the file anew`)
	}
	return tensors, nil
}

// decodeHeader walks the top level by hand, because encoding/json keeps the last of two equal keys
// and says nothing.
func decodeHeader(header []byte) ([]HeaderTensor, error) {
	d := json.NewDecoder(bytes.NewReader(header))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the header is no JSON object: the file is damaged or another kind of file")
	}
	seen := map[string]bool{}
	var tensors []HeaderTensor
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("the header is no valid JSON: %w", err)
		}
		name := token.(string) // a key of an object is a string, else Token fails
		if seen[name] {
			return nil, fmt.Errorf("the header names %.64q twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			err = decodeMetadata(d)
		} else {
			tensors, err = decodeTensor(d, name, tensors)
		}
		if err != nil {
			return nil, fmt.Errorf("header entry %.64q: %w", name, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("the header is no valid JSON: %w", err)
	}
	return tensors, nil
}

func decodeMetadata(d *json.Decoder) error {
	var metadata map[string]string
	if err := d.Decode(&metadata); err != nil {
		return err
	}
	if len(metadata) != 1 || metadata["format"] != headerFormat {
		return fmt.Errorf(`must be {"format":%q} and nothing else`, headerFormat)
	}
	return nil
}

func decodeTensor(d *json.Decoder, name string, tensors []HeaderTensor) ([]HeaderTensor, error) {
	var e headerEntry
	if err := d.Decode(&e); err != nil {
		return nil, err
	}
	if e.DType != "F32" {
		return nil, fmt.Errorf("dtype is %.16q: must be F32", e.DType)
	}
	return append(tensors, HeaderTensor{Name: name, Shape: e.Shape, Begin: e.Offsets[0], End: e.Offsets[1]}), nil
}

// checkTensors holds what is true of every list of tensors, written or read.
func checkTensors(tensors []HeaderTensor) error {
	if len(tensors) == 0 {
		return errors.New("there are no tensors")
	}
	seen := make(map[string]bool, len(tensors))
	var end int64
	for _, t := range tensors {
		if t.Name == "" || t.Name == metadataKey || len(t.Name) > maxNameBytes || !utf8.ValidString(t.Name) || strings.ContainsRune(t.Name, utf8.RuneError) {
			return fmt.Errorf("tensor name %.64q: must be 1 to %d bytes of UTF-8 and not %s", t.Name, maxNameBytes, metadataKey)
		}
		if seen[t.Name] {
			return fmt.Errorf("tensor %q is there twice", t.Name)
		}
		seen[t.Name] = true
		if t.Begin != end {
			return fmt.Errorf("tensor %q begins at byte %d of the data: the one before ends at %d: holes and overlaps are not allowed", t.Name, t.Begin, end)
		}
		size, err := shapeBytes(t.Shape)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if t.End < t.Begin || t.End-t.Begin != size {
			return fmt.Errorf("tensor %q of shape %v occupies the bytes %d to %d of the data: must be %d bytes of float32", t.Name, t.Shape, t.Begin, t.End, size)
		}
		end = t.End
	}
	return nil
}

// shapeBytes is the size of a float32 tensor in bytes.
func shapeBytes(shape []int) (int64, error) {
	if len(shape) == 0 || len(shape) > maxDimensions {
		return 0, fmt.Errorf("has %d dimensions: must be 1 to %d", len(shape), maxDimensions)
	}
	size := int64(floatBytes)
	for _, n := range shape {
		if n < 1 || int64(n) > math.MaxInt64/4/size {
			return 0, fmt.Errorf("shape %v: every dimension must be above 0 and the size in bytes must fit 63 bits", shape)
		}
		size *= int64(n)
	}
	return size, nil
}
