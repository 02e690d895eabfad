package dirstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"andrea/checkpoints"
	"andrea/model"
	"andrea/vfs"
)

// Damage says why a checkpoint was passed over.
type Damage struct {
	Step   int
	Reason error // names the file and what is wrong with it
}

// Newest opens the newest checkpoint that is intact and that accept (nil: every one) returns nil for,
// and tells which newer ones it passed over, newest first. accept judges what the checkpoint cannot
// know, such as whether its record is in the journal; its error becomes the reason. When none is left,
// the error wraps ErrNone and holds all the reasons.
func (s *Store) Newest(accept func(checkpoints.Manifest) error) (*Reader, []Damage, error) {
	steps, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	var damages []Damage
	for _, step := range slices.Backward(steps) {
		r, err := s.OpenStep(step)
		if err == nil && accept != nil {
			if err = accept(r.manifest); err != nil {
				err = errors.Join(err, r.Close())
				s.unusable[step] = true
			}
		}
		if err == nil {
			return r, damages, nil
		}
		damages = append(damages, Damage{Step: step, Reason: err})
	}
	err = fmt.Errorf("loading a checkpoint from %s: %w", s.dir, ErrNone)
	for _, d := range damages {
		err = fmt.Errorf("%w; step %d: %w", err, d.Step, d.Reason)
	}
	return nil, damages, err
}

// Verify reads the whole checkpoint of a step and compares it with its manifest: sizes, SHA-256, the
// tensors against the model's shape, the digest of the state. It returns the manifest.
func (s *Store) Verify(step int) (checkpoints.Manifest, error) {
	r, err := s.OpenStep(step)
	if err != nil {
		return checkpoints.Manifest{}, err
	}
	return r.manifest, r.Close()
}

// OpenStep verifies the checkpoint of a step, as Verify does, and leaves it open for reading.
func (s *Store) OpenStep(step int) (*Reader, error) {
	r := &Reader{}
	if err := s.open(r, step); err != nil {
		s.unusable[step] = true
		_ = r.Close() // the files were only read
		return nil, fmt.Errorf("verifying the checkpoint %s: %w", s.Path(step), err)
	}
	delete(s.unusable, step)
	return r, nil
}

func (s *Store) open(r *Reader, step int) (err error) {
	dir := s.Path(step)
	if r.manifest, err = s.readManifest(dir, step); err != nil {
		return err
	}
	config, err := s.readSmall(dir, r.manifest, checkpoints.ConfigFile)
	if err != nil {
		return err
	}
	if want, err := checkpoints.ConfigJSON(r.manifest.Model); err != nil || !bytes.Equal(config, want) {
		return errors.Join(err, fmt.Errorf("%s: describes another model than the manifest", checkpoints.ConfigFile))
	}
	if r.tokenizer, err = s.readSmall(dir, r.manifest, checkpoints.TokenizerFile); err != nil {
		return err
	}
	return s.openState(r, dir)
}

// openState verifies and opens the two large files.
func (s *Store) openState(r *Reader, dir string) (err error) {
	r.layout = model.NewLayout(r.manifest.Model)
	r.digests = make([]model.Digest, r.layout.Buckets())
	r.raw = make([]byte, floatBytes*min(r.layout.Size, model.BucketSize))
	r.model, err = s.openTensors(r, dir, checkpoints.ModelFile, checkpoints.ModelTensors(r.layout), model.Weight)
	if err != nil {
		return fmt.Errorf("%s: %w", checkpoints.ModelFile, err)
	}
	r.moments, err = s.openTensors(r, dir, checkpoints.OptimizerFile, checkpoints.OptimizerTensors(r.layout), model.FirstMoment, model.SecondMoment)
	if err != nil {
		return fmt.Errorf("%s: %w", checkpoints.OptimizerFile, err)
	}
	var state model.Digest
	for _, d := range r.digests {
		state = state.Add(d)
	}
	if state != r.manifest.StateDigest {
		return fmt.Errorf("%s and %s: their state has digest %v: the manifest says %v", checkpoints.ModelFile, checkpoints.OptimizerFile, state, r.manifest.StateDigest)
	}
	return nil
}

// openTensors opens one of them and compares it with the manifest and with the tensors it must hold;
// kinds are in the order of the file's data. The file is returned with an error too, so that
// Reader.Close finds it.
func (s *Store) openTensors(r *Reader, dir, name string, tensors []checkpoints.HeaderTensor, kinds ...model.Kind) (t openTensors, err error) {
	want, _ := r.manifest.File(name) // there is one, or the manifest would not be valid
	if err := s.checkSize(dir, want); err != nil {
		return t, err
	}
	if t.file, err = s.fsys.Open(filepath.Join(dir, name)); err != nil {
		return t, err
	}
	header, err := readHeader(t.file, want.Bytes, tensors)
	if err != nil {
		return t, err
	}
	t.base = int64(len(header))
	return t, r.verifyData(t, header, kinds, want.SHA256)
}

// readSmall reads a file of which the manifest's limits say that it fits into memory.
func (s *Store) readSmall(dir string, m checkpoints.Manifest, name string) ([]byte, error) {
	want, _ := m.File(name)
	err := s.checkSize(dir, want)
	var data []byte
	if err == nil {
		data, err = vfs.ReadFile(s.fsys, filepath.Join(dir, name), want.Bytes)
	}
	if err == nil && checkpoints.SHA256Hex(data) != want.SHA256 {
		err = errChanged(checkpoints.SHA256Hex(data), want.SHA256)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

func errChanged(got, want string) error {
	return fmt.Errorf("has SHA-256 %.16s...: the manifest says %.16s...: its bytes were changed", got, want)
}

// readHeader returns the bytes before the data, after comparing the tensors with those of the model.
func readHeader(f vfs.File, fileBytes int64, want []checkpoints.HeaderTensor) ([]byte, error) {
	first := make([]byte, checkpoints.LengthBytes)
	if err := vfs.ReadFullAt(f, first, 0); err != nil {
		return nil, err
	}
	length, err := checkpoints.HeaderLength(first, fileBytes)
	if err != nil {
		return nil, err
	}
	header := make([]byte, checkpoints.LengthBytes+length)
	if err := vfs.ReadFullAt(f, header, 0); err != nil {
		return nil, err
	}
	got, err := checkpoints.ParseHeader(header[checkpoints.LengthBytes:], fileBytes-int64(len(header)))
	if err != nil {
		return nil, err
	}
	for i, t := range want {
		if i >= len(got) || got[i].Name != t.Name || !slices.Equal(got[i].Shape, t.Shape) {
			return nil, fmt.Errorf("tensor %d must be %q of shape %v: the file belongs to another model", i, t.Name, t.Shape)
		}
	}
	if len(got) != len(want) {
		return nil, fmt.Errorf("has %d tensors: the model has %d", len(got), len(want))
	}
	return header, nil
}

// verifyData reads the whole file once, for its SHA-256 and for the digests of the buckets.
func (r *Reader) verifyData(t openTensors, header []byte, kinds []model.Kind, want string) error {
	sum := sha256.New()
	sum.Write(header) // never fails
	floats := make([]float32, len(r.raw)/floatBytes)
	for k, kind := range kinds {
		for i := range r.digests {
			lo, hi := r.layout.Bucket(i)
			x := floats[:hi-lo]
			if err := r.read(t, k*r.layout.Size+lo, x); err != nil {
				return err
			}
			sum.Write(r.raw[:floatBytes*len(x)])
			r.digests[i] = r.digests[i].Add(model.DigestOf(kind, lo, x))
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return errChanged(got, want)
	}
	return nil
}
