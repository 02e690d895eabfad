package checkpoints

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"andrea/model"
)

// Limits of a manifest's texts, in bytes.
const (
	maxIdentityBytes = 256
	maxJobBytes      = 256 << 10

	// MaxTokenizerBytes is the largest tokenizer.json.
	MaxTokenizerBytes = 64 << 20
)

// check lists every fault of a manifest.
func (m Manifest) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if m.Format != FormatSafetensors {
		fault("format is %d: must be %d", m.Format, FormatSafetensors)
	}
	if m.Step < 0 {
		fault("step is %d: must not be negative", m.Step)
	}
	m.checkTexts(fault)
	if m.Data.Position < 0 || m.Data.Epoch < 0 {
		fault("data position is window %d, epoch %d: must not be negative", m.Data.Position, m.Data.Epoch)
	}
	if !isSHA256(m.RecordDigest) && (m.RecordDigest != "" || m.Step != 0) {
		fault("record_digest is %.70q: must be 64 hexadecimal digits (may be empty for step 0)", m.RecordDigest)
	}
	if err := m.Model.Validate(); err != nil {
		fault("model: %w", err)
	} else {
		m.checkFiles(fault)
	}
	return errors.Join(faults...)
}

func (m Manifest) checkTexts(fault func(string, ...any)) {
	for _, text := range []struct {
		name, value string
		max         int
	}{
		{"run", m.Run, maxIdentityBytes},
		{"created_by", m.CreatedBy, maxIdentityBytes},
		{"engine_class", m.EngineClass, maxIdentityBytes},
		{"variant", m.Model.Variant, maxIdentityBytes},
		{"tokenizer", m.Tokenizer, maxIdentityBytes},
		{"fingerprint", m.Data.Fingerprint, maxIdentityBytes},
		{"job", m.Job, maxJobBytes},
	} {
		if text.value == "" || len(text.value) > text.max || !utf8.ValidString(text.value) {
			fault("%s is %.40q (%d bytes): must be 1 to %d bytes of UTF-8", text.name, text.value, len(text.value), text.max)
		}
	}
}

// checkFiles compares the list of files with what the shape of the model demands.
func (m Manifest) checkFiles(fault func(string, ...any)) {
	names := make([]string, len(m.Files))
	for i, f := range m.Files {
		names[i] = f.Name
	}
	if !slices.Equal(names, FileNames()) {
		fault("files are %.200q: must be %q", names, FileNames())
		return
	}
	bytes, err := fileBytes(m.Model)
	if err != nil {
		fault("files: %w", err)
	}
	for _, f := range m.Files {
		if !isSHA256(f.SHA256) {
			fault("sha256 of %s is %.70q: must be 64 hexadecimal digits", f.Name, f.SHA256)
		}
		if want, ok := bytes[f.Name]; ok && f.Bytes != want {
			fault("%s has %d bytes: the model's shape demands %d", f.Name, f.Bytes, want)
		} else if !ok && (f.Bytes < 1 || f.Bytes > MaxTokenizerBytes) {
			fault("%s has %d bytes: must be 1 to %d", f.Name, f.Bytes, int64(MaxTokenizerBytes))
		}
	}
}

// fileBytes gives the sizes of the files that the shape of a valid model decides.
func fileBytes(c model.Config) (map[string]int64, error) {
	config, err := ConfigJSON(c)
	if err != nil {
		return nil, err
	}
	layout := model.NewLayout(c)
	weights, err := MarshalHeader(ModelTensors(layout))
	if err != nil {
		return nil, err
	}
	moments, err := MarshalHeader(OptimizerTensors(layout))
	if err != nil {
		return nil, err
	}
	data := int64(layout.Size) * floatBytes
	return map[string]int64{
		ConfigFile:    int64(len(config)),
		ModelFile:     int64(len(weights)) + data,
		OptimizerFile: int64(len(moments)) + 2*data,
	}, nil
}

func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && s == strings.ToLower(s)
}
