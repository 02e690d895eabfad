package runner

import (
	"fmt"
	"sync"

	"andrea/checkpoints/dirstore"
	"andrea/dataset/arrowfile"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// serveTokens answers a worker that asks for windows.
func (c *coordinator) serveTokens(m transport.Message) {
	payload, err := c.windows(m.Data)
	respond(m, wire.EncodeReply(payload), err)
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

// keptBuckets is how many buckets of a checkpoint are kept in memory: their chunks are
// asked for one after the other, by several workers at their own pace.
const keptBuckets = 4

// storedState gives the buckets of checkpoints: of the one that the run began from, and
// of later ones, which it opens when they are asked for.
type storedState struct {
	mu     sync.Mutex
	layout model.Layout
	store  *dirstore.Store
	reader *dirstore.Reader // nil: none
	opened *dirstore.Reader // the caller's, which is not closed here
	kept   [keptBuckets]keptBucket
	next   int // the one that is replaced
}

type keptBucket struct {
	step   int64
	bucket int
	state  state // the part of room that it fills; empty: not read yet
	room   state // of the largest bucket, used for one after the other
}

// bucket is a stateSource.
func (s *storedState) bucket(step int64, bucket int, use func(state) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.find(step, bucket)
	if err != nil {
		return err
	}
	return use(b)
}

// find reads a bucket, unless it is kept.
func (s *storedState) find(step int64, bucket int) (state, error) {
	for _, k := range s.kept {
		if k.step == step && k.bucket == bucket && k.state[0] != nil {
			return k.state, nil
		}
	}
	if err := s.open(step); err != nil {
		return state{}, err
	}
	lo, hi := s.layout.Bucket(bucket)
	k := &s.kept[s.next]
	if k.room[0] == nil {
		k.room = newState(s.layout)
	}
	b := k.room.cut(hi - lo)
	k.state = state{}
	if err := s.reader.Bucket(bucket, b[wire.PartWeights], b[wire.PartFirstMoment], b[wire.PartSecondMoment]); err != nil {
		return state{}, err
	}
	k.step, k.bucket, k.state = step, bucket, b
	s.next = (s.next + 1) % keptBuckets
	return b, nil
}

// open makes the checkpoint of a step the one that is read.
func (s *storedState) open(step int64) error {
	if s.reader != nil && int64(s.reader.Manifest().Step) == step {
		return nil
	}
	reader, err := s.store.OpenStep(int(step))
	if err != nil {
		return fmt.Errorf("state %d is not on disk here: %w", step, err)
	}
	s.letGo()
	s.reader = reader
	return nil
}

// close lets go of what was opened here; a handler may still run.
func (s *storedState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letGo()
}

func (s *storedState) letGo() {
	if s.reader != nil && s.reader != s.opened {
		_ = s.reader.Close() // it was only read
	}
	s.reader = nil
}

// askerRequests is how many requests of one worker for a gradient are answered at once. It pulls two buckets side by side,
// may have given up as many, and asks again over a slow link.
const askerRequests = 4 * 2 * pullWindow

// askers counts the requests that wait, by who has asked.
type askers struct {
	mu      sync.Mutex
	waiting map[pipeline.WorkerID]int // none is 0
}

// enter reports that a worker may have one more, and counts it.
func (a *askers) enter(worker pipeline.WorkerID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[worker] >= askerRequests {
		return false
	}
	a.waiting[worker]++
	return true
}

// leave takes one back.
func (a *askers) leave(worker pipeline.WorkerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[worker]--; a.waiting[worker] == 0 {
		delete(a.waiting, worker)
	}
}
