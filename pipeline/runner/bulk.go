package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"andrea/model"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// How a bulk request is repeated.
const (
	pullTimeout  = 10 * time.Second // of one try
	pullPatience = 15 * time.Second // no try begins later than this after the first
	pullStep     = 200 * time.Millisecond
	pullLongest  = time.Second // between two tries
)

// pull asks for bulk data and decodes it, until it arrives whole, it is known that asking
// again does not help, or the other side has had time enough to come back. decode may keep
// the payload.
func pull(ctx context.Context, bus transport.Bus, subject string, request []byte, decode func(payload []byte) error) (err error) {
	began := time.Now()
	for pause := pullStep; ; pause = min(pause+pullStep, pullLongest) {
		if err = pullOnce(ctx, bus, subject, request, decode); err == nil {
			return nil
		}
		if ctx.Err() != nil || final(err) || time.Since(began)+pause > pullPatience || wait(ctx, pause) != nil {
			return fmt.Errorf("asking %s for %s: %w", subject, request, err)
		}
	}
}

// final reports that asking again does not help.
func final(err error) bool {
	var refusal wire.Refusal
	return errors.As(err, &refusal) || errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrDenied) || errors.Is(err, transport.ErrTooLarge)
}

func pullOnce(ctx context.Context, bus transport.Bus, subject string, request []byte, decode func([]byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	reply, err := bus.Request(ctx, subject, request)
	if err != nil {
		return err
	}
	payload, err := wire.DecodeReply(reply)
	if err != nil {
		return err
	}
	return decode(payload)
}

// wait returns nil after d, or the context's error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state is one bucket's weights and moments, by wire part.
type state [wire.Parts][]float32

// newState allocates room for a whole bucket.
func newState() (s state) {
	for i := range s {
		s[i] = make([]float32, model.BucketSize)
	}
	return s
}

// cut returns the state's slices with n elements, up to the room they have.
func (s state) cut(n int) state {
	for i := range s {
		s[i] = s[i][:n]
	}
	return s
}

// pullBucket fills s with one bucket of a state, chunk by chunk.
func pullBucket(ctx context.Context, bus transport.Bus, subject string, step int64, bucket int, s state) error {
	for part, dst := range s {
		if err := pullPart(ctx, bus, subject, step, bucket, part, dst); err != nil {
			return err
		}
	}
	return nil
}

// pullPart fills dst with one part of a bucket.
func pullPart(ctx context.Context, bus transport.Bus, subject string, step int64, bucket, part int, dst []float32) error {
	for offset := 0; offset < len(dst); offset += wire.ChunkElements {
		chunk := dst[offset:min(offset+wire.ChunkElements, len(dst))]
		request := wire.EncodeRequest(wire.StateRequest{Step: step, Bucket: bucket, Part: part, Offset: offset})
		err := pull(ctx, bus, subject, request, func(payload []byte) error { return wire.Floats(chunk, payload) })
		if err != nil {
			return err
		}
	}
	return nil
}

// stateSource gives one bucket of a state, or of a gradient as its part 0; the slices
// are valid until the next call.
type stateSource func(step int64, bucket int) (state, error)

// serveState answers requests for a state from source.
func serveState(bus transport.Bus, subject string, buckets int, source stateSource) (transport.Subscription, error) {
	return bus.Subscribe(subject, func(m transport.Message) {
		payload, err := stateChunk(m.Data, buckets, source)
		respond(m, payload, err)
	})
}

func stateChunk(request []byte, buckets int, source stateSource) ([]byte, error) {
	r, err := wire.DecodeRequest[wire.StateRequest](request)
	if err != nil {
		return nil, err
	}
	if r.Bucket < 0 || r.Bucket >= buckets || r.Part < 0 || r.Part >= wire.Parts {
		return nil, fmt.Errorf("there is no part %d of bucket %d: the state has %d buckets of %d parts", r.Part, r.Bucket, buckets, wire.Parts)
	}
	s, err := source(r.Step, r.Bucket)
	if err != nil {
		return nil, err
	}
	elements := s[r.Part]
	if r.Offset < 0 || r.Offset >= len(elements) {
		return nil, fmt.Errorf("bucket %d has no element %d: it has %d", r.Bucket, r.Offset, len(elements))
	}
	chunk := elements[r.Offset:min(r.Offset+wire.ChunkElements, len(elements))]
	return wire.AppendFloats(make([]byte, 0, 4*len(chunk)), chunk), nil
}

// respond sends a frame. An answer that is lost is asked for again, so its error
// needs no handling.
func respond(m transport.Message, payload []byte, err error) {
	frame := wire.EncodeReply(payload)
	if err != nil {
		frame = wire.EncodeRefusal(err)
	}
	_ = m.Respond(frame)
}
