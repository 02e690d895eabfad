package runner

import (
	"fmt"

	"andrea/dataset/arrowfile"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// serveTokens answers a worker that asks for windows.
func (c *coordinator) serveTokens(m transport.Message) {
	payload, err := c.windows(m.Data)
	respond(m, payload, err)
}

// windows reads the windows of a request and encodes them as an Arrow record batch.
func (c *coordinator) windows(request []byte) ([]byte, error) {
	r, err := wire.DecodeRequest[wire.TokensRequest](request)
	if err != nil {
		return nil, err
	}
	numbers, err := c.windowNumbers(r)
	if err != nil {
		return nil, err
	}
	windows := make([][]uint32, len(numbers))
	for i, w := range numbers {
		start, tokens := c.Plan.Index.Span(w)
		windows[i] = make([]uint32, tokens)
		if err := c.Tokens.Read(windows[i], start); err != nil {
			return nil, err
		}
	}
	return arrowfile.EncodeWindows(windows, arrowfile.Wide(c.Plan.Model.Vocab))
}

func (c *coordinator) windowNumbers(r wire.TokensRequest) ([]uint64, error) {
	if !r.Validation {
		if r.Step < 1 {
			return nil, fmt.Errorf("there is no step %d: steps count from 1", r.Step)
		}
		return c.Plan.Sampler.Append(nil, uint64(r.Step), r.Lane, r.Microbatch)
	}
	if all := c.Plan.ValidationWindows; r.Microbatch < 0 || r.Microbatch >= len(all) {
		return nil, fmt.Errorf("there is no validation window %d: there are %d", r.Microbatch, len(all))
	}
	return c.Plan.ValidationWindows[r.Microbatch : r.Microbatch+1], nil
}

// restoredState gives the buckets of the checkpoint that the run starts from. It
// keeps the bucket read last: its chunks are asked for one after the other.
func (c *coordinator) restoredState() stateSource {
	var kept state
	keptBucket := -1
	return func(step int64, bucket int) (state, error) {
		if c.Restored == nil || step != c.Start.Step {
			return state{}, fmt.Errorf("state %d is not on disk here", step)
		}
		if bucket == keptBucket {
			return kept, nil
		}
		if kept[0] == nil {
			kept = newState()
		}
		lo, hi := c.Plan.Layout.Bucket(bucket)
		keptBucket = -1
		kept = kept.cut(hi - lo)
		if err := c.Restored.Bucket(bucket, kept[wire.PartWeights], kept[wire.PartFirstMoment], kept[wire.PartSecondMoment]); err != nil {
			return state{}, err
		}
		keptBucket = bucket
		return kept, nil
	}
}
