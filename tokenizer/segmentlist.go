package tokenizer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// segmentList is a JSON array of segments: a string each, or {"hex": "e4bd"} where the bytes are no valid UTF-8.
type segmentList [][]byte

// hexSegment is a segment that a JSON string cannot hold.
type hexSegment struct {
	Hex string `json:"hex"`
}

// MarshalJSON writes the list.
func (l segmentList) MarshalJSON() ([]byte, error) {
	all := make([]any, len(l))
	for i, s := range l {
		if utf8.Valid(s) {
			all[i] = string(s)
		} else {
			all[i] = hexSegment{Hex: hex.EncodeToString(s)}
		}
	}
	return encodeJSON(all, ""), nil
}

// UnmarshalJSON reads the list, and stops at the first segment too many: before it is kept.
func (l *segmentList) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	open, err := d.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('[') {
		return fmt.Errorf("segments: found %v: use an array", open)
	}
	*l = nil
	for d.More() {
		if len(*l) == MaxSegments {
			return fmt.Errorf("segments: more than %d: ids must fit 16 bits", MaxSegments)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("segment %d: %w", len(*l), err)
		}
		s, err := parseSegment(raw)
		if err != nil {
			return fmt.Errorf("segment %d: %w", len(*l), err)
		}
		*l = append(*l, s)
	}
	return nil
}

// parseSegment reads one element of a list.
func parseSegment(raw []byte) ([]byte, error) {
	if raw[0] == '"' {
		return parseText(raw)
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("found %.40q: use a string or {\"hex\": ...}", raw)
	}
	var h hexSegment
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return nil, err
	}
	return hex.DecodeString(h.Hex)
}

// parseText reads a JSON string, but refuses what the JSON package would replace in silence: broken UTF-8, and half of
// a surrogate pair.
func parseText(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("the string is not valid UTF-8: use {\"hex\": ...}")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	replaced := strings.Count(s, "\uFFFD") - bytes.Count(raw, []byte("\uFFFD"))
	escapes := strings.ReplaceAll(strings.ToLower(string(raw)), `\\`, "")
	if replaced > strings.Count(escapes, `\ufffd`) {
		return nil, errors.New("the string holds half of a surrogate pair: use {\"hex\": ...}")
	}
	return []byte(s), nil
}
