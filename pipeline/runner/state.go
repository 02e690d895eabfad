package runner

import (
	"fmt"
	"runtime"
	"sync"

	"go.uber.org/zap"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// open allocates the engine and lets others ask for what it holds. Where the connection is cut
// meanwhile, the next try goes on from there.
func (w *worker) open(e pipeline.OpenEngine) (pipeline.WorkerEvent, error) {
	if w.engine == nil {
		if err := w.allocate(e.Job); err != nil {
			return nil, err
		}
	}
	serve := []func() error{w.serveSnapshot, w.serveGrads, w.servePeers}
	for _, next := range serve[len(w.served):] {
		if err := next(); err != nil {
			return nil, err
		}
	}
	return pipeline.EngineOpened{Buckets: w.layout.Buckets()}, nil
}

// allocate makes the engine for a job.
func (w *worker) allocate(job pipeline.JobSpec) error {
	config, err := pipeline.ConfigOf(job)
	if err != nil {
		return err
	}
	slots := model.Slots(job.Batch.Lanes)
	engine, err := w.OpenEngine(config, job.Batch.Microbatch, slots)
	if err != nil {
		return err
	}
	w.job, w.config, w.layout, w.engine = job, config, model.NewLayout(config), engine
	w.grads = newGrads(slots)
	w.initial = initial{layout: w.layout}
	w.logEngine()
	return nil
}

// keep remembers a subscription to end with the worker.
func (w *worker) keep(served transport.Subscription, err error) error {
	if err == nil {
		w.served = append(w.served, served)
	}
	return err
}

// logEngine says once what this worker computes on.
func (w *worker) logEngine() {
	info := w.engine.Info()
	w.Log.Info("engine opened", zap.String("class", info.Class), zap.String("device", info.Device), zap.Int64("bytes", info.Bytes))
	if w.config.SlowHeads() {
		w.Log.Warn("this head_dim has no fast kernel and runs on the generic one, slower", zap.Int("head_dim", w.config.HeadDim()))
	}
}

// loadBucket fills one bucket of the engine and returns its digest. Nobody may read the
// state before it is whole.
func (w *worker) loadBucket(e pipeline.LoadBucket) (pipeline.WorkerEvent, error) {
	w.engineMu.Lock()
	w.held = -1
	w.engineMu.Unlock()
	lo, hi := w.layout.Bucket(e.Bucket)
	if w.room[0] == nil {
		w.room = newState(w.layout)
	}
	b := w.room.cut(hi - lo)
	if err := w.findBucket(e, b); err != nil {
		return nil, fmt.Errorf("loading state %d: %w", e.Step, err)
	}
	w.engineMu.Lock()
	defer w.engineMu.Unlock()
	if err := w.engine.Load(e.Bucket, b[wire.PartWeights], b[wire.PartFirstMoment], b[wire.PartSecondMoment]); err != nil {
		return nil, err
	}
	digest, err := w.engine.StateDigest(e.Bucket)
	if err == nil && e.Bucket == w.layout.Buckets()-1 {
		w.held, w.room = e.Step, state{}
	}
	return pipeline.BucketLoaded{Digest: digest}, err
}

// findBucket gets one bucket of a state from where it is.
func (w *worker) findBucket(e pipeline.LoadBucket, b state) error {
	p := w.pulls.Load()
	switch {
	case len(e.Holders) > 0:
		return w.pullFromPeers(p, e, b)
	case e.Stored:
		return w.puller.pullBucket(p.ctx, wire.State(w.Run, p.membership.Generation, w.ID), e.Step, e.Bucket, b)
	}
	copy(b[wire.PartWeights], w.initial.bucket(e.Seed, e.Bucket))
	return nil
}

// pullFromPeers asks one member after the other, beginning with another one for each
// bucket.
func (w *worker) pullFromPeers(p *pulls, e pipeline.LoadBucket, b state) (err error) {
	for i := range e.Holders {
		holder := e.Holders[(e.Bucket+i)%len(e.Holders)]
		err = w.puller.pullBucket(p.ctx, wire.PeerState(w.Run, w.ID, holder), e.Step, e.Bucket, b)
		if err == nil || p.ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return transferError{err}
	}
	return nil
}

// servePeers lets joiners pull the state while it is frozen.
func (w *worker) servePeers() error {
	kept := struct {
		step   int64
		bucket int
	}{-1, 0} // what is in buffer
	buffer := newState(w.layout)
	served, err := serveState(w.Bulk, wire.PeerState(w.Run, wire.AnyWorker, w.ID), w.layout.Buckets(), func(step int64, bucket int, use func(state) error) error {
		w.engineMu.Lock()
		defer w.engineMu.Unlock()
		if w.engine == nil || step != w.held {
			return fmt.Errorf("state %d is not held here: it is state %d", step, w.held)
		}
		lo, hi := w.layout.Bucket(bucket)
		buffer = buffer.cut(hi - lo)
		if kept.step != step || kept.bucket != bucket {
			kept.step = -1
			if err := w.engine.Save(bucket, buffer[wire.PartWeights], buffer[wire.PartFirstMoment], buffer[wire.PartSecondMoment]); err != nil {
				return err
			}
			kept.step, kept.bucket = step, bucket
		}
		return use(buffer)
	})
	return w.keep(served, err)
}

// initial computes the weights before training from the seed, some buckets at a time on
// all processors.
type initial struct {
	layout  model.Layout
	first   int         // bucket in buckets[0]
	buckets [][]float32 // computed and not asked for yet
}

// bucket returns the weights of bucket i, valid until the next call. The buckets are asked
// for in order.
func (s *initial) bucket(seed uint64, i int) []float32 {
	if i < s.first || i >= s.first+len(s.buckets) {
		s.compute(seed, i)
	}
	b := s.buckets[i-s.first]
	if i == s.layout.Buckets()-1 {
		s.buckets = nil
	}
	return b
}

// compute fills buckets from bucket i on.
func (s *initial) compute(seed uint64, i int) {
	s.first = i
	s.buckets = make([][]float32, min(runtime.GOMAXPROCS(0), s.layout.Buckets()-i))
	var group sync.WaitGroup
	for n := range s.buckets {
		lo, hi := s.layout.Bucket(i + n)
		s.buckets[n] = make([]float32, hi-lo)
		group.Go(func() { s.layout.InitBucket(seed, i+n, s.buckets[n]) })
	}
	group.Wait()
}

// snapshot is a copy of a state that the coordinator reads while training goes on.
type snapshot struct {
	mu     sync.Mutex
	step   int64 // of the copy; -1 while there is none
	layout model.Layout
	parts  state // flat vectors
}

// serveSnapshot answers requests for the copy.
func (w *worker) serveSnapshot() error {
	w.snapshot.step, w.snapshot.layout = -1, w.layout
	served, err := serveState(w.Bulk, wire.WorkerState(w.Run, w.ID), w.layout.Buckets(), w.snapshot.bucket)
	return w.keep(served, err)
}

// take copies the engine's state. The room is allocated for the first copy and kept.
// The digest is of the copy.
func (s *snapshot) take(step int64, layout model.Layout, engine model.Engine, v model.Vectors) (digest model.Digest, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts[0] == nil {
		for i := range s.parts {
			s.parts[i] = make([]float32, layout.Size)
		}
	}
	s.step = -1
	for i := range layout.Buckets() {
		b := s.view(i)
		if err := engine.Save(i, b[wire.PartWeights], b[wire.PartFirstMoment], b[wire.PartSecondMoment]); err != nil {
			return digest, err
		}
		lo, _ := layout.Bucket(i)
		for part, kind := range partKinds {
			digest = digest.Add(v.DigestOf(kind, lo, b[part]))
		}
	}
	s.step = step
	return digest, nil
}

// partKinds says what the parts of a state are to a digest.
var partKinds = [wire.Parts]model.Kind{wire.PartWeights: model.Weight, wire.PartFirstMoment: model.FirstMoment, wire.PartSecondMoment: model.SecondMoment}

// view is the part of the copy that is bucket i.
func (s *snapshot) view(i int) (b state) {
	lo, hi := s.layout.Bucket(i)
	for part := range b {
		b[part] = s.parts[part][lo:hi]
	}
	return b
}

// bucket is a stateSource. The next copy is not taken while somebody reads this one.
func (s *snapshot) bucket(step int64, bucket int, use func(state) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step != s.step {
		return fmt.Errorf("there is no copy of state %d here: the newest is of state %d", step, s.step)
	}
	return use(s.view(bucket))
}
