package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	fileFormat  = "harris-segments"
	fileVersion = 1

	// maxFileBytes caps a file before it is parsed; MaxSegments segments of every kind fit with room to spare.
	maxFileBytes = 32 << 20

	// The file ends with its own digest, SHA-256 over all bytes before sealOpen, so that no change goes unseen.
	sealOpen  = ",\n  \"file_sha256\": \""
	sealClose = "\"\n}\n"
	sealBytes = len(sealOpen) + 2*sha256.Size + len(sealClose)
)

// file is the content of a tokenizer file but for its seal. docs/formats/tokenizer.md describes it.
type file struct {
	Format   string      `json:"format"`
	Version  int         `json:"version"`
	Name     string      `json:"name"`
	Count    int         `json:"count"`
	BOS      int         `json:"bos"`
	Vocab    int         `json:"vocab"`
	SHA256   string      `json:"sha256"`
	Learner  *learner    `json:"learner,omitempty"`
	Sample   *sample     `json:"sample,omitempty"`
	Segments segmentList `json:"segments"`
}

// origin tells how segments were learnt. It changes nothing in what a tokenizer does.
type origin struct {
	learner learner
	sample  sample
}

// learner holds the settings that the segments were learnt with.
type learner struct {
	Algorithm  string `json:"algorithm"`
	Scope      string `json:"scope"`
	MaxBytes   int    `json:"max_bytes"`
	MinVariety int    `json:"min_variety"`
	MinFreq    int64  `json:"min_freq"`
	Top        int    `json:"top"`
	Unicode    string `json:"unicode,omitempty"` // version of the tables that say what a letter is; a file may lack it
}

// sample identifies the text that the segments were learnt from.
type sample struct {
	Documents int64  `json:"documents"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	Tokens    int64  `json:"tokens"`
}

// Marshal returns the tokenizer as a JSON file that Parse reads. Equal tokenizers learnt from equal text give equal
// bytes.
func (t *Tokenizer) Marshal() []byte {
	f := file{
		Format: fileFormat, Version: fileVersion, Name: t.Spec().String(),
		Count: t.Segments(), BOS: BOS, Vocab: t.Vocab(),
		SHA256:   hex.EncodeToString(t.digest[:]),
		Segments: make(segmentList, t.Segments()),
	}
	for i := range f.Segments {
		f.Segments[i] = t.segment(i)
	}
	if t.origin != nil {
		f.Learner, f.Sample = &t.origin.learner, &t.origin.sample
	}
	body := bytes.TrimSuffix(encodeJSON(f, "  "), []byte("\n}\n"))
	sum := sha256.Sum256(body)
	return append(body, sealOpen+hex.EncodeToString(sum[:])+sealClose...)
}

// encodeJSON encodes a value of ours, which cannot fail, without the escapes that only web pages need.
func encodeJSON(v any, indent string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		panic("tokenizer: encode JSON: " + err.Error()) // a type in this package that JSON cannot hold
	}
	return buf.Bytes()
}

// Parse reads a tokenizer file: one that Marshal wrote, of which not a byte may differ, or a bare JSON array of
// segments in id order, as other programs keep them. It keeps no part of data.
func Parse(data []byte) (*Tokenizer, error) {
	t, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer file: %w", err)
	}
	return t, nil
}

// ParseMaker is Parse for the file beside tokens that were made by the tokenizer of this Identity and Vocab; another
// tokenizer is refused.
func ParseMaker(data []byte, identity string, vocab int) (*Tokenizer, error) {
	t, err := Parse(data)
	if err == nil && (t.Identity() != identity || t.Vocab() != vocab) {
		return nil, fmt.Errorf("tokenizer file: it is %s with %d ids: the tokens were made by %.200s with %d: the files belong to different datasets",
			t.Identity(), t.Vocab(), identity, vocab)
	}
	return t, err
}

func parse(data []byte) (*Tokenizer, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("it has %d bytes: at most %d are read: is it a tokenizer file?", len(data), maxFileBytes)
	}
	if bare := bytes.TrimLeft(data, " \t\r\n"); len(bare) > 0 && bare[0] == '[' {
		var segments segmentList
		if err := json.Unmarshal(data, &segments); err != nil {
			return nil, fmt.Errorf("array of segments: %w", err)
		}
		return build(segments, nil)
	}
	body, err := unseal(data)
	if err != nil {
		return nil, err
	}
	var f file
	d := json.NewDecoder(io.MultiReader(bytes.NewReader(body), bytes.NewReader([]byte("}"))))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("its JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("its JSON: something follows the object")
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.tokenizer()
}

// unseal returns the bytes before the seal if its digest is theirs.
func unseal(data []byte) ([]byte, error) {
	cut := len(data) - sealBytes
	if cut < 0 || !bytes.HasPrefix(data[cut:], []byte(sealOpen)) || !bytes.HasSuffix(data, []byte(sealClose)) {
		return nil, errors.New("it does not end with its file_sha256: it was cut off or rewritten: restore the original")
	}
	body := data[:cut]
	want := string(data[cut+len(sealOpen) : len(data)-len(sealClose)])
	sum := sha256.Sum256(body)
	if got := hex.EncodeToString(sum[:]); got != want {
		return nil, fmt.Errorf("file_sha256 is %.16s..., its content gives %.16s...: it was changed: restore the original",
			want, got)
	}
	return body, nil
}

// check refuses fields that disagree with each other or with this version of the format.
func (f *file) check() error {
	if f.Format != fileFormat || f.Version != fileVersion {
		return fmt.Errorf("format %q version %d: only %q version %d can be read: was it written by a newer program?",
			f.Format, f.Version, fileFormat, fileVersion)
	}
	n := len(f.Segments)
	for _, field := range []struct {
		name      string
		got, want int
	}{{"count", f.Count, n}, {"bos", f.BOS, BOS}, {"vocab", f.Vocab, n + firstSegment}} {
		if field.got != field.want {
			return fmt.Errorf("%s is %d, but must be %d for %d segments", field.name, field.got, field.want, n)
		}
	}
	if want := (Spec{Segments: n}).String(); f.Name != want {
		return fmt.Errorf("name is %q, but must be %q for %d segments", f.Name, want, n)
	}
	if (f.Learner == nil) != (f.Sample == nil) {
		return errors.New("learner and sample must both be there, or neither")
	}
	return nil
}

// tokenizer builds what a checked file describes and compares its digest.
func (f *file) tokenizer() (*Tokenizer, error) {
	var from *origin
	if f.Learner != nil {
		from = &origin{learner: *f.Learner, sample: *f.Sample}
	}
	t, err := build(f.Segments, from)
	if err != nil {
		return nil, err
	}
	if got := hex.EncodeToString(t.digest[:]); got != f.SHA256 {
		return nil, fmt.Errorf("sha256 is %.80q, its segments give %s", f.SHA256, got)
	}
	return t, nil
}
