package dirstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"andrea/checkpoints"
	"andrea/model"
	"andrea/vfs"
)

// Writer receives one state, bucket by bucket, and makes it a checkpoint. It holds one bucket in
// memory. It ends with Commit or Abort; after an error of WriteBucket only Abort is left. At most
// one Writer of a store is in use at a time.
type Writer struct {
	store   *Store
	temp    string // folder in which the checkpoint grows
	step    int
	config  model.Config
	layout  model.Layout
	model   *tensorFile
	moments *tensorFile
	next    int // bucket that WriteBucket expects
	digest  model.Digest
	raw     []byte // one bucket of one tensor kind
	ended   bool
}

// Begin starts the checkpoint of the state after step, of a model with this shape. Nothing of it is
// seen by readers before Commit.
func (s *Store) Begin(step int, c model.Config) (*Writer, error) {
	if step < 0 {
		return nil, fmt.Errorf("writing the checkpoint of step %d: the step must not be negative", step)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("writing the checkpoint of step %d: its model is not valid: %w", step, err)
	}
	layout := model.NewLayout(c)
	w := &Writer{
		store: s, temp: s.temp("", step), step: step, config: c, layout: layout,
		raw: make([]byte, floatBytes*min(layout.Size, model.BucketSize)),
	}
	if err := w.open(); err != nil {
		return nil, w.fail(errors.Join(err, w.Abort()))
	}
	return w, nil
}

func (w *Writer) open() (err error) {
	fsys := w.store.fsys
	if err := vfs.RemoveAll(fsys, w.temp); err != nil {
		return err
	}
	if err := fsys.MkdirAll(w.temp); err != nil {
		return err
	}
	if w.model, err = createTensors(fsys, w.path(checkpoints.ModelFile), checkpoints.ModelTensors(w.layout)); err != nil {
		return err
	}
	w.moments, err = createTensors(fsys, w.path(checkpoints.OptimizerFile), checkpoints.OptimizerTensors(w.layout))
	return err
}

func (w *Writer) path(name string) string { return filepath.Join(w.temp, name) }

// fail says what was being done.
func (w *Writer) fail(err error) error {
	return fmt.Errorf("writing the checkpoint of step %d in %s: %w", w.step, w.store.dir, err)
}

// WriteBucket takes the next bucket's weights and moments; the buckets come in order from 0. The
// slices have the bucket's length and are free again when the call returns.
func (w *Writer) WriteBucket(params, m, v []float32) error {
	if w.ended || w.next >= w.layout.Buckets() {
		return w.fail(fmt.Errorf("a bucket too many: the model has %d", w.layout.Buckets()))
	}
	lo, hi := w.layout.Bucket(w.next)
	if len(params) != hi-lo || len(m) != hi-lo || len(v) != hi-lo {
		return w.fail(fmt.Errorf("bucket %d has %d weights, %d first and %d second moments: must be %d each", w.next, len(params), len(m), len(v), hi-lo))
	}
	if err := w.model.append(encode(w.raw, params)); err != nil {
		return w.fail(err)
	}
	if err := w.moments.append(encode(w.raw, m)); err != nil {
		return w.fail(err)
	}
	// The second moments lie behind all the first ones. They are hashed at the end, because a
	// hash takes a file's bytes in order.
	if err := w.moments.writeAhead(encode(w.raw, v), floatBytes*int64(w.layout.Size)); err != nil {
		return w.fail(err)
	}
	w.digest = w.digest.Add(model.StateDigestOf(lo, params, m, v))
	w.next++
	return nil
}

// Commit completes the checkpoint and publishes it: when it returns nil the checkpoint survives a power
// cut. The caller fills m except Format, Step, Model and Files; the full manifest is returned. A state
// whose digest is not m.StateDigest is refused. Where the step has an intact checkpoint of the same
// state already, that one stays and its manifest is returned; one that is damaged, or that Newest did not
// accept, is replaced; one of another state is an error. After an error nothing is left of the new checkpoint, unless only the last sync
// failed: then it lies in its place, not yet proven durable.
func (w *Writer) Commit(m checkpoints.Manifest, tokenizer []byte) (checkpoints.Manifest, error) {
	if w.ended {
		return checkpoints.Manifest{}, w.fail(errors.New("it was committed or aborted before"))
	}
	m, err := w.complete(m, tokenizer)
	if err == nil {
		m, err = w.publish(m)
	}
	if abortErr := w.Abort(); err != nil {
		return checkpoints.Manifest{}, w.fail(errors.Join(err, abortErr))
	}
	return m, nil
}

// complete writes what is missing in the temporary folder, the manifest last, and makes all of it durable.
func (w *Writer) complete(m checkpoints.Manifest, tokenizer []byte) (checkpoints.Manifest, error) {
	if w.next != w.layout.Buckets() {
		return m, fmt.Errorf("only %d of %d buckets arrived", w.next, w.layout.Buckets())
	}
	if w.digest != m.StateDigest {
		return m, fmt.Errorf("the state that arrived has digest %v: the state of this step has %v: it was changed on the way", w.digest, m.StateDigest)
	}
	config, err := checkpoints.ConfigJSON(w.config)
	if err != nil {
		return m, err
	}
	m.Format, m.Step, m.Model, m.Files = checkpoints.FormatNewest, w.step, w.config, nil
	for _, part := range []struct {
		name   string
		finish func() (checkpoints.File, error)
	}{
		{checkpoints.ConfigFile, func() (checkpoints.File, error) { return w.writeFile(config, checkpoints.ConfigFile) }},
		{checkpoints.ModelFile, func() (checkpoints.File, error) { return w.model.finish(w.raw) }},
		{checkpoints.OptimizerFile, func() (checkpoints.File, error) { return w.moments.finish(w.raw) }},
		{checkpoints.TokenizerFile, func() (checkpoints.File, error) { return w.writeFile(tokenizer, checkpoints.TokenizerFile) }},
	} {
		file, err := part.finish()
		if err != nil {
			return m, fmt.Errorf("%s: %w", part.name, err)
		}
		m.Files = append(m.Files, file)
	}
	manifest, err := checkpoints.Marshal(m)
	if err != nil {
		return m, err
	}
	if _, err := w.writeFile(manifest, checkpoints.ManifestFile); err != nil {
		return m, err
	}
	return m, w.store.fsys.SyncDir(w.temp)
}

func (w *Writer) writeFile(data []byte, name string) (checkpoints.File, error) {
	err := vfs.WriteFileSync(w.store.fsys, w.path(name), data, 0o644)
	return checkpoints.File{Name: name, Bytes: int64(len(data)), SHA256: checkpoints.SHA256Hex(data)}, err
}

// Abort deletes what was written. After Commit, or a second time, it does nothing.
func (w *Writer) Abort() error {
	if w.ended {
		return nil
	}
	w.ended = true
	w.model.discard()
	w.moments.discard()
	return vfs.RemoveAll(w.store.fsys, w.temp)
}
