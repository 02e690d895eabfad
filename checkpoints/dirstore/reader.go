package dirstore

import (
	"errors"
	"fmt"

	"andrea/checkpoints"
	"andrea/model"
	"andrea/vfs"
)

// Reader is a verified checkpoint whose state can be read. It holds the files open, so the checkpoint
// may be deleted meanwhile. It is not safe for concurrent use.
type Reader struct {
	manifest  checkpoints.Manifest
	layout    model.Layout
	tokenizer []byte
	model     openTensors
	moments   openTensors
	digests   []model.Digest // of each bucket's weights and moments, as verified
	raw       []byte
}

// openTensors is a safetensors file open for reading.
type openTensors struct {
	file vfs.File
	base int64 // where the data begins, in bytes
}

// Manifest returns the checkpoint's manifest. Its slices are read only.
func (r *Reader) Manifest() checkpoints.Manifest { return r.manifest }

// Tokenizer returns the content of tokenizer.json, read only.
func (r *Reader) Tokenizer() []byte { return r.tokenizer }

// Bucket reads a bucket's weights and moments into the caller's slices, which have the bucket's length.
// The bits are those that were verified, else it is an error.
func (r *Reader) Bucket(bucket int, params, m, v []float32) error {
	if bucket < 0 || bucket >= r.layout.Buckets() {
		return fmt.Errorf("reading bucket %d of a checkpoint: the model has %d", bucket, r.layout.Buckets())
	}
	lo, hi := r.layout.Bucket(bucket)
	if len(params) != hi-lo || len(m) != hi-lo || len(v) != hi-lo {
		return fmt.Errorf("reading bucket %d of a checkpoint into %d, %d and %d elements: must be %d each", bucket, len(params), len(m), len(v), hi-lo)
	}
	err := errors.Join(
		r.read(r.model, lo, params),
		r.read(r.moments, lo, m),
		r.read(r.moments, r.layout.Size+lo, v),
	)
	if err == nil && model.StateDigestOf(lo, params, m, v) != r.digests[bucket] {
		err = errors.New("its bits have changed since the checkpoint was verified: the file was overwritten or the disk is failing")
	}
	if err != nil {
		return fmt.Errorf("reading bucket %d of the checkpoint of step %d: %w", bucket, r.manifest.Step, err)
	}
	return nil
}

// read fills dst with the elements from first on, counted over the whole data of the file.
func (r *Reader) read(t openTensors, first int, dst []float32) error {
	raw := r.raw[:floatBytes*len(dst)]
	if err := vfs.ReadFullAt(t.file, raw, t.base+floatBytes*int64(first)); err != nil {
		return err
	}
	decode(dst, raw)
	return nil
}

// Close lets go of the files.
func (r *Reader) Close() error {
	var errs []error
	for _, t := range []openTensors{r.model, r.moments} {
		if t.file != nil {
			errs = append(errs, t.file.Close())
		}
	}
	return errors.Join(errs...)
}
