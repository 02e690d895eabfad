package checkpoints

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"andrea/model"
)

// Format numbers the layouts of a checkpoint. A new one is added when a reader of the former cannot
// read it. From the first release on, every older one stays readable.
type Format int

// The formats that are read, oldest first.
const (
	// FormatSafetensors is manifest, config.json, tokenizer.json, model.safetensors and
	// optimizer.safetensors, all in one folder. Format 1, of builds before the first release, had digests of two keys.
	FormatSafetensors Format = 2

	// FormatNewest is the one that is written.
	FormatNewest = FormatSafetensors
)

// MaxManifestBytes is the largest manifest that is written and read.
const MaxManifestBytes = 4 << 20

// Manifest describes a checkpoint completely. A folder is a checkpoint if and only if it holds a
// valid manifest and every file is as the manifest says.
type Manifest struct {
	Format    Format
	Step      int    // the state is the one after this step; 0: the initial one
	Run       string // name of the run
	CreatedBy string // program and version

	EngineClass string // what decides the bits of further steps
	Model       model.Config
	Tokenizer   string // identity of the tokenizer
	Data        DataPosition

	StateDigest  model.Digest // of weights and both moments
	RecordDigest string       // SHA-256 of the step's commit record, the journal's line, in hex; "" only for step 0

	Files []File // the other files of the checkpoint, in the order of FileNames
	Job   string // the resolved job spec, YAML
}

// DataPosition is where the data of the next step begins.
type DataPosition struct {
	Position    int64  `json:"position"`    // windows trained on since step 1 began
	Epoch       int64  `json:"epoch"`       // epoch of the next window, from 0
	Fingerprint string `json:"fingerprint"` // identity of the dataset
}

// File is a file of a checkpoint.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // 64 hexadecimal digits
}

// FileNames lists the files that a manifest describes, in its order.
func FileNames() []string { return []string{ConfigFile, ModelFile, OptimizerFile, TokenizerFile} }

// File returns the entry of a file; false when the manifest has none of that name.
func (m Manifest) File(name string) (File, bool) {
	for _, f := range m.Files {
		if f.Name == name {
			return f, true
		}
	}
	return File{}, false
}

// manifestJSON is format 1 on disk. The large text comes last but for the digest, so that a person
// sees the rest at once.
type manifestJSON struct {
	Format       Format       `json:"format"`
	Step         int          `json:"step"`
	Run          string       `json:"run"`
	CreatedBy    string       `json:"created_by"`
	EngineClass  string       `json:"engine_class"`
	Model        shape        `json:"model"`
	Tokenizer    string       `json:"tokenizer"`
	Data         DataPosition `json:"data"`
	StateDigest  model.Digest `json:"state_digest"`
	RecordDigest string       `json:"record_digest"`
	Files        []File       `json:"files"`
	Job          string       `json:"job"`
	Digest       string       `json:"digest"` // SHA-256 of these bytes with "" in its own place
}

// Marshal returns the content of manifest.json, the same bytes for the same manifest, with its own
// digest inside. A manifest that Parse would refuse is an error.
func Marshal(m Manifest) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("writing a manifest: %w", err)
	}
	j := manifestJSON{
		Format: m.Format, Step: m.Step, Run: m.Run, CreatedBy: m.CreatedBy,
		EngineClass: m.EngineClass, Model: shape(m.Model), Tokenizer: m.Tokenizer, Data: m.Data,
		StateDigest: m.StateDigest, RecordDigest: m.RecordDigest, Files: m.Files, Job: m.Job,
	}
	undigested, err := encodeJSON(j)
	if err != nil {
		return nil, fmt.Errorf("writing a manifest: %w", err)
	}
	j.Digest = SHA256Hex(undigested)
	data, err := encodeJSON(j)
	if err == nil && len(data) > MaxManifestBytes {
		err = fmt.Errorf("%d bytes: at most %d are read back", len(data), MaxManifestBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a manifest: %w", err)
	}
	return data, nil
}

// SHA256Hex is the SHA-256 of data as 64 hexadecimal digits, the form of every digest of bytes in a manifest.
func SHA256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Parse reads what Marshal wrote and refuses everything else: unknown formats and fields, values out
// of range, and any byte that differs from what Marshal would write, which includes the digest.
func Parse(data []byte) (Manifest, error) {
	if len(data) > MaxManifestBytes {
		return Manifest{}, fmt.Errorf("the manifest has %d bytes: at most %d are read", len(data), MaxManifestBytes)
	}
	var head struct {
		Format Format `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Manifest{}, fmt.Errorf("the manifest is no valid JSON: %w", err)
	}
	if head.Format < FormatSafetensors {
		return Manifest{}, fmt.Errorf("the manifest has format %d, of an earlier build: this program reads %d to %d: go on with the build that wrote it", head.Format, FormatSafetensors, FormatNewest)
	}
	if head.Format > FormatNewest {
		return Manifest{}, fmt.Errorf("the manifest has format %d: this program reads %d to %d: use a newer version of it", head.Format, FormatSafetensors, FormatNewest)
	}
	var j manifestJSON
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return Manifest{}, fmt.Errorf("the manifest has wrong fields: %w", err)
	}
	m := Manifest{
		Format: j.Format, Step: j.Step, Run: j.Run, CreatedBy: j.CreatedBy,
		EngineClass: j.EngineClass, Model: model.Config(j.Model), Tokenizer: j.Tokenizer, Data: j.Data,
		StateDigest: j.StateDigest, RecordDigest: j.RecordDigest, Files: j.Files, Job: j.Job,
	}
	canonical, err := Marshal(m)
	if err != nil {
		return Manifest{}, err
	}
	if !bytes.Equal(canonical, data) {
		return Manifest{}, fmt.Errorf("the manifest's bytes do not give its own digest %.16q: it was damaged or edited", j.Digest)
	}
	return m, nil
}
