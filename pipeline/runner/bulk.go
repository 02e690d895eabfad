package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// How a bulk request is repeated.
const (
	pullTimeout  = 10 * time.Second        // of one try, at most
	pullFirst    = 2500 * time.Millisecond // of the first one, where answers are known to come sooner
	pullPatience = 15 * time.Second        // no try begins later than this after the first
	pullNobody   = 3 * time.Second         // nor than this while nobody is there to answer
	pullStep     = 200 * time.Millisecond
	pullLongest  = time.Second // between two tries
)

// pullWindow is how many chunks of one bucket are asked for at once: 8 MiB of a 2^20
// element bucket's parts are under way, which hides the round trips and stays far below
// what makes a NATS server cut a slow receiver off.
const pullWindow = 16

// puller asks for bulk data over a connection, and remembers how long answers take: a request
// that was lost where the other side was cut off is asked again soon, and over a slow link
// nothing is asked for twice.
type puller struct {
	bus     transport.Bus
	longest atomic.Int64 // nanoseconds that an answer took, an eighth less with each that is faster
}

// took takes in how long an answer took.
func (p *puller) took(d time.Duration) {
	longest := time.Duration(p.longest.Load())
	p.longest.Store(int64(max(d, longest-longest/8)))
}

// timeout is how long a try may take: twice as long as answers take, and as the try before.
func (p *puller) timeout(try int) time.Duration {
	return min(max(pullFirst, 2*time.Duration(p.longest.Load()))<<min(try, 8), pullTimeout)
}

// pull asks for bulk data and decodes it. decode may keep the payload.
func (p *puller) pull(ctx context.Context, subject string, request []byte, decode func(payload []byte) error) (err error) {
	return p.repeat(ctx, subject, request, func(ctx context.Context) error {
		reply, err := p.bus.Request(ctx, subject, request)
		if err != nil {
			return err
		}
		return decodeReply(reply, decode)
	})
}

// decodeReply decodes the payload of a frame.
func decodeReply(reply []byte, decode func(payload []byte) error) error {
	payload, err := wire.DecodeReply(reply)
	if err != nil {
		return err
	}
	return decode(payload)
}

// pullChunk asks for a chunk and puts it into its place, without a copy of it between where the
// connection can do that.
func (p *puller) pullChunk(ctx context.Context, subject string, c chunk) error {
	body := wire.Memory(c.dst)
	filler, can := p.bus.(transport.Filler)
	decode := func(payload []byte) error { return wire.Floats(c.dst, payload) }
	if !can || body == nil {
		return p.pull(ctx, subject, c.request, decode)
	}
	header := make([]byte, wire.HeaderBytes)
	return p.repeat(ctx, subject, c.request, func(ctx context.Context) error {
		reply, err := filler.RequestInto(ctx, subject, c.request, header, body)
		switch {
		case err != nil:
			return err
		case reply == nil:
			return wire.CheckReply(header, body)
		}
		return decodeReply(reply, decode)
	})
}

// repeat asks until what was asked for arrives whole, it is known that asking again does not help, or
// the other side has had time enough to come back.
func (p *puller) repeat(ctx context.Context, subject string, request []byte, once func(context.Context) error) (err error) {
	began, pause := time.Now(), pullStep
	for try := 0; ; try++ {
		if err = p.try(ctx, p.timeout(try), once); err == nil {
			return nil
		}
		patience := pullPatience
		if errors.Is(err, transport.ErrNoResponders) {
			patience = pullNobody
		}
		if ctx.Err() != nil || final(err) || time.Since(began)+pause > patience || wait(ctx, pause) != nil {
			return fmt.Errorf("asking %s for %s: %w", subject, request, err)
		}
		pause = min(pause+pullStep, pullLongest)
	}
}

// final reports that asking again does not help.
func final(err error) bool {
	var refusal wire.Refusal
	return errors.As(err, &refusal) || errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrDenied) || errors.Is(err, transport.ErrTooLarge)
}

// try asks once.
func (p *puller) try(ctx context.Context, timeout time.Duration, once func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	err := once(ctx)
	if err == nil || answered(err) {
		p.took(time.Since(began))
	}
	return err
}

// answered reports that an error is about an answer that came.
func answered(err error) bool {
	var refusal wire.Refusal
	return errors.As(err, &refusal) || errors.Is(err, wire.ErrDamaged)
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

// largestBucket is how many elements any bucket has at most.
func largestBucket(layout model.Layout) int { return min(layout.Size, model.BucketSize) }

// newState allocates room for any bucket.
func newState(layout model.Layout) (s state) {
	for i := range s {
		s[i] = make([]float32, largestBucket(layout))
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

// chunk is a piece of a bucket and the request for it.
type chunk struct {
	request []byte
	dst     []float32
}

// chunksOf cuts dst into chunks.
func chunksOf[R wire.Request](dst []float32, request func(offset int) R) (chunks []chunk) {
	for offset := 0; offset < len(dst); offset += wire.ChunkElements {
		end := min(offset+wire.ChunkElements, len(dst))
		chunks = append(chunks, chunk{wire.EncodeRequest(request(offset)), dst[offset:end]})
	}
	return chunks
}

// pullBucket fills s with one bucket of a state.
func (p *puller) pullBucket(ctx context.Context, subject string, step int64, bucket int, s state) error {
	var chunks []chunk
	for part, dst := range s {
		chunks = append(chunks, chunksOf(dst, func(offset int) wire.StateRequest {
			return wire.StateRequest{Step: step, Bucket: bucket, Part: part, Offset: offset}
		})...)
	}
	return p.pullChunks(ctx, subject, chunks)
}

// pullGrad fills dst with one bucket of the gradient of a step, summed over lanes.
func (p *puller) pullGrad(ctx context.Context, subject string, step int64, lo, hi, bucket int, dst []float32) error {
	return p.pullChunks(ctx, subject, chunksOf(dst, func(offset int) wire.GradRequest {
		return wire.GradRequest{Step: step, Lo: lo, Hi: hi, Bucket: bucket, Offset: offset}
	}))
}

// pullChunks pulls all chunks, some at once, and returns the first error.
func (p *puller) pullChunks(ctx context.Context, subject string, chunks []chunk) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	window := make(chan struct{}, pullWindow)
	var group sync.WaitGroup
	for _, c := range chunks {
		window <- struct{}{}
		group.Go(func() {
			defer func() { <-window }()
			if err := p.pullChunk(ctx, subject, c); err != nil {
				stop(err) // the first one counts
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// stateSource lets use read one bucket of a state, until it returns.
type stateSource func(step int64, bucket int, use func(state) error) error

// serveState answers requests for a state from source.
func serveState(bus transport.Bus, subject string, buckets int, source stateSource) (transport.Subscription, error) {
	return bus.Subscribe(subject, func(m transport.Message) {
		respondFrame(m, func(frame []byte) ([]byte, error) { return stateFrame(frame, m.Data, buckets, source) })
	})
}

// frames are those that were sent; their memory is used again.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// respondFrame sends the frame that fill makes, in the memory that it is given, or the reason why
// there is none.
func respondFrame(m transport.Message, fill func(frame []byte) ([]byte, error)) {
	room := frames.Get().(*[]byte)
	defer frames.Put(room)
	frame, err := fill(*room)
	if err == nil {
		*room = frame
	}
	respond(m, frame, err)
}

// stateFrame is the answer to a request for a state.
func stateFrame(room, request []byte, buckets int, source stateSource) (frame []byte, err error) {
	r, err := wire.DecodeRequest[wire.StateRequest](request)
	if err != nil {
		return nil, err
	}
	if r.Bucket < 0 || r.Bucket >= buckets || r.Part < 0 || r.Part >= wire.Parts {
		return nil, fmt.Errorf("there is no part %d of bucket %d: the state has %d buckets of %d parts", r.Part, r.Bucket, buckets, wire.Parts)
	}
	err = source(r.Step, r.Bucket, func(s state) error {
		part, err := chunkAt(s[r.Part], r.Bucket, r.Offset)
		if err == nil {
			frame = wire.EncodeFloats(room, part)
		}
		return err
	})
	return frame, err
}

// gradSource lets use read one bucket of the gradient of a step, summed over lanes, until it
// returns: the next step's takes its place.
type gradSource func(r wire.GradRequest, use func(bucket []float32) error) error

// gradRequests is how many requests for a gradient are answered at once: all that 64 workers make for two buckets
// each, and again as many times as a slow link makes them ask. Further ones lie in the subscription until one is answered.
const gradRequests = 4096

// serveGrad answers requests for a gradient from source, each on its own: source may wait. No worker can make others
// wait by asking for more than it may.
func serveGrad(bus transport.Bus, subject string, buckets int, source gradSource) (transport.Subscription, error) {
	room := make(chan struct{}, gradRequests)
	askers := askers{waiting: map[pipeline.WorkerID]int{}}
	return bus.Subscribe(subject, func(m transport.Message) {
		r, err := gradRequest(m.Data, buckets)
		if err != nil {
			respond(m, nil, err)
			return
		}
		asker, named := wire.Sender(m.Subject) // a worker's own gradient is asked for by the coordinator, whom no subject names
		if named && !askers.enter(asker) {
			return // as if it was lost: who means it asks again
		}
		room <- struct{}{}
		go func() {
			defer func() {
				<-room
				if named {
					askers.leave(asker)
				}
			}()
			err := source(r, func(bucket []float32) error { return respondChunk(m, bucket, r.Bucket, r.Offset) })
			if err != nil {
				respond(m, nil, err)
			}
		}()
	})
}

// respondChunk sends the chunk of a bucket that begins at offset, from where it lies.
func respondChunk(m transport.Message, elements []float32, bucket, offset int) error {
	part, err := chunkAt(elements, bucket, offset)
	if err != nil {
		return err
	}
	payload := wire.Memory(part)
	if payload == nil {
		respond(m, wire.EncodeFloats(nil, part), nil)
		return nil
	}
	_ = m.RespondInParts(wire.EncodeHeader(payload), payload) // one that is lost is asked for again
	return nil
}

// gradRequest reads a request for a gradient of so many buckets.
func gradRequest(request []byte, buckets int) (wire.GradRequest, error) {
	r, err := wire.DecodeRequest[wire.GradRequest](request)
	if err == nil && (r.Bucket < 0 || r.Bucket >= buckets || r.Step < 1) {
		err = fmt.Errorf("there is no bucket %d of step %d: a gradient has %d, and steps count from 1", r.Bucket, r.Step, buckets)
	}
	return r, err
}

// chunkAt is the chunk of a bucket that begins at offset.
func chunkAt(elements []float32, bucket, offset int) ([]float32, error) {
	if offset < 0 || offset >= len(elements) {
		return nil, fmt.Errorf("bucket %d has no element %d: it has %d", bucket, offset, len(elements))
	}
	return elements[offset:min(offset+wire.ChunkElements, len(elements))], nil
}

// respond sends a frame, or the reason why there is none. An answer that is lost is asked
// for again, so its error needs no handling.
func respond(m transport.Message, frame []byte, err error) {
	if err != nil {
		frame = wire.EncodeRefusal(err)
	}
	_ = m.Respond(frame)
}
