package runner

import (
	"errors"
	"fmt"

	"andrea/checkpoints"
	"andrea/pipeline"
	"andrea/pipeline/wire"
)

// supersededError is why a checkpoint was not put among those of a later coordinator.
type supersededError struct{ error }

// errCopyLost is a worker's copy that could not be read.
var errCopyLost = errors.New("reading the worker's copy")

// startCheckpoint writes a checkpoint beside the loop. The state machine has at most
// one written at a time.
func (c *coordinator) startCheckpoint(e pipeline.WriteCheckpoint) {
	if err := c.Journal.Sync(); err != nil {
		c.results = append(c.results, pipeline.DiskFailed{Err: err})
		return
	}
	manifest := c.manifest(e) // reads the journal, which belongs to the loop
	c.background.Go(func() {
		deleted, err := c.writeCheckpoint(e, manifest)
		if later := (supersededError{}); errors.As(err, &later) {
			c.deliver(pipeline.Superseded{Err: later.error})
			return
		}
		c.deliver(pipeline.CheckpointWritten{Step: e.Step, Path: c.Store.Path(int(e.Step)), Deleted: deleted, Worker: e.Worker, Err: err, CopyLost: errors.Is(err, errCopyLost)})
	})
}

// manifest is what the checkpoint says of itself, except its files.
func (c *coordinator) manifest(e pipeline.WriteCheckpoint) checkpoints.Manifest {
	return checkpoints.Manifest{
		Run:         c.Plan.Spec.Name,
		CreatedBy:   c.CreatedBy,
		EngineClass: c.machine.Status().Class,
		Tokenizer:   c.Plan.Dataset.Tokenizer,
		Data: checkpoints.DataPosition{
			Position:    e.Step * int64(c.Plan.Sampler.WindowsPerStep()),
			Epoch:       int64(c.Plan.Sampler.Epoch(uint64(e.Step) + 1)),
			Fingerprint: c.Plan.Dataset.Fingerprint,
		},
		StateDigest:  e.Digest,
		RecordDigest: c.Journal.CommitDigest(e.Step),
		Job:          string(c.Plan.Spec.Marshal()),
	}
}

// writeCheckpoint pulls the worker's snapshot bucket by bucket into a checkpoint.
func (c *coordinator) writeCheckpoint(e pipeline.WriteCheckpoint, m checkpoints.Manifest) (deleted []int, err error) {
	w, err := c.Store.Begin(int(e.Step), c.Plan.Model)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Abort()) }() // nothing after a commit
	subject := wire.WorkerState(c.Plan.Spec.Name, e.Worker)
	bucket := newState(c.Plan.Layout)
	for i := range c.Plan.Layout.Buckets() {
		lo, hi := c.Plan.Layout.Bucket(i)
		bucket = bucket.cut(hi - lo)
		if err := c.pulls.pullBucket(c.background.ctx, subject, e.Step, i, bucket); err != nil {
			return nil, fmt.Errorf("%w: %w", errCopyLost, err)
		}
		if err := w.WriteBucket(bucket[wire.PartWeights], bucket[wire.PartFirstMoment], bucket[wire.PartSecondMoment]); err != nil {
			return nil, err
		}
	}
	if c.Superseded != nil {
		if err := c.Superseded(); err != nil {
			return nil, supersededError{err}
		}
	}
	if _, err := w.Commit(m, c.Tokenizer); err != nil {
		return nil, err
	}
	return c.Store.Retain(int(e.Step), c.Plan.Spec.Checkpoint.KeepLast)
}
