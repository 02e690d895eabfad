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

// keptBuckets is how many buckets of the restored checkpoint are kept in memory:
// their chunks are asked for one after the other, by several workers at their own
// pace.
const keptBuckets = 4

// restoredState gives the buckets of the checkpoint that the run starts from.
func (c *coordinator) restoredState() stateSource {
	var kept [keptBuckets]struct {
		bucket int
		state  state // empty: not read yet
	}
	next := 0 // the one that is replaced
	return func(step int64, bucket int) (state, error) {
		if c.Restored == nil || step != c.Start.Step {
			return state{}, fmt.Errorf("state %d is not on disk here", step)
		}
		for _, k := range kept {
			if k.bucket == bucket && k.state[0] != nil {
				return k.state, nil
			}
		}
		lo, hi := c.Plan.Layout.Bucket(bucket)
		s := newState().cut(hi - lo)
		if err := c.Restored.Bucket(bucket, s[wire.PartWeights], s[wire.PartFirstMoment], s[wire.PartSecondMoment]); err != nil {
			return state{}, err
		}
		kept[next].bucket, kept[next].state = bucket, s
		next = (next + 1) % keptBuckets
		return s, nil
	}
}
