package ledger

import (
	"fmt"

	"andrea/model"
	"andrea/pipeline"
)

// subtree leaves the sum of lanes in a slot, and uses the slots above it.
func (r *recomputer) subtree(l laneRange, slot int, step int64, f *faults) error {
	sum := r.fold
	if l.hi-l.lo == 1 {
		sum = r.lane
	}
	if err := sum(l, slot, step, f); err != nil {
		return err
	}
	lease, leased := r.leases[l]
	if !leased {
		return nil
	}
	digest, err := gradDigest(r.Engine, slot, r.Plan.Layout.Buckets())
	if err == nil {
		f.want(lease.GradDigest == digest, "the gradient digest of "+name(lease), lease.GradDigest, digest)
	}
	return err
}

// fold adds both halves of lanes.
func (r *recomputer) fold(l laneRange, slot int, step int64, f *faults) error {
	middle := (l.lo + l.hi) / 2
	if err := r.subtree(laneRange{l.lo, middle}, slot, step, f); err != nil {
		return err
	}
	if err := r.subtree(laneRange{middle, l.hi}, slot+1, step, f); err != nil {
		return err
	}
	return r.Engine.Fold(slot, slot+1)
}

// lane computes the gradient of a single lane.
func (r *recomputer) lane(only laneRange, slot int, step int64, f *faults) error {
	l := only.lo
	if err := r.Engine.Zero(slot); err != nil {
		return err
	}
	var loss model.Loss
	var tokens model.Digest
	for microbatch := range r.Plan.Sampler.MicrobatchesPerLane() {
		numbers, err := r.Plan.Sampler.Append(nil, uint64(step), l, microbatch)
		if err != nil {
			return err
		}
		batch, err := r.batch(numbers)
		if err != nil {
			return err
		}
		more, err := r.Engine.Accumulate(slot, batch)
		if err != nil {
			return err
		}
		loss = loss.Add(more)
		tokens = tokens.Add(model.TokenDigestOf(microbatch*len(batch.Tokens), batch.Tokens))
	}
	r.losses = append(r.losses, loss)
	f.want(r.claims[l].tokens == tokens, fmt.Sprintf("the token digest of lane %d", l), r.claims[l].tokens, tokens)
	f.want(same(r.claims[l].lossSum, pipeline.Float(loss.Sum)), fmt.Sprintf("the loss sum of lane %d", l), r.claims[l].lossSum, loss.Sum)
	return nil
}

// batch reads windows.
func (r *recomputer) batch(numbers []uint64) (model.Batch, error) {
	context := r.Plan.Model.Context
	b := model.Batch{Windows: len(numbers), T: context, Tokens: make([]uint32, len(numbers)*(context+1))}
	for i, w := range numbers {
		start, _ := r.Plan.Index.Span(w)
		if err := r.Tokens.Read(b.Window(i), start); err != nil {
			return b, err
		}
	}
	return b, nil
}
