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

// open allocates the engine, loads the state and returns its digest.
func (w *worker) open(e pipeline.OpenEngine) (pipeline.WorkerEvent, error) {
	config, err := pipeline.ConfigOf(e.Job)
	if err != nil {
		return nil, err
	}
	w.job, w.config, w.layout = e.Job, config, model.NewLayout(config)
	w.engine, err = w.OpenEngine(config, e.Job.Batch.Microbatch, model.Slots(e.Job.Batch.Lanes))
	if err != nil {
		return nil, err
	}
	w.logEngine()
	err = w.snapshot.serve(w.Bulk, wire.WorkerState(w.Run, w.ID), w.layout)
	if err != nil {
		return nil, err
	}
	if err := w.serveGrads(); err != nil {
		return nil, err
	}
	if e.Stored {
		err = w.loadFromCoordinator(e.Step)
	} else {
		err = w.loadInitial(e.Job.Seed)
	}
	if err != nil {
		return nil, fmt.Errorf("loading state %d: %w", e.Step, err)
	}
	var digest model.Digest
	for i := range w.layout.Buckets() {
		d, err := w.engine.StateDigest(i)
		if err != nil {
			return nil, err
		}
		digest = digest.Add(d)
	}
	return pipeline.StateLoaded{Digest: digest}, nil
}

// logEngine says once what this worker computes on.
func (w *worker) logEngine() {
	info := w.engine.Info()
	w.Log.Info("engine opened", zap.String("class", info.Class), zap.String("device", info.Device), zap.Int64("bytes", info.Bytes))
	if w.config.SlowHeads() {
		w.Log.Warn("this head_dim has no fast kernel and runs on the generic one, slower", zap.Int("head_dim", w.config.HeadDim()))
	}
}

// loadInitial computes the state before training from the seed, some buckets at a
// time on all processors.
func (w *worker) loadInitial(seed uint64) error {
	zeros := make([]float32, model.BucketSize)
	buffers := make([][]float32, runtime.GOMAXPROCS(0))
	for i := range buffers {
		buffers[i] = make([]float32, model.BucketSize)
	}
	for first := 0; first < w.layout.Buckets(); first += len(buffers) {
		last := min(first+len(buffers), w.layout.Buckets())
		var group sync.WaitGroup
		for i := first; i < last; i++ {
			lo, hi := w.layout.Bucket(i)
			group.Go(func() { w.layout.InitBucket(seed, i, buffers[i-first][:hi-lo]) })
		}
		group.Wait()
		for i := first; i < last; i++ {
			lo, hi := w.layout.Bucket(i)
			if err := w.engine.Load(i, buffers[i-first][:hi-lo], zeros[:hi-lo], zeros[:hi-lo]); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadFromCoordinator pulls the state of a checkpoint.
func (w *worker) loadFromCoordinator(step int64) error {
	subject := wire.State(w.Run, w.generation.Load(), w.ID)
	bucket := newState()
	for i := range w.layout.Buckets() {
		lo, hi := w.layout.Bucket(i)
		bucket = bucket.cut(hi - lo)
		if err := pullBucket(w.pulls, w.Bulk, subject, step, i, bucket); err != nil {
			return err
		}
		if err := w.engine.Load(i, bucket[wire.PartWeights], bucket[wire.PartFirstMoment], bucket[wire.PartSecondMoment]); err != nil {
			return err
		}
	}
	return nil
}

// snapshot is a copy of a state that the coordinator reads while training goes on.
type snapshot struct {
	mu           sync.Mutex
	step         int64 // of the copy; -1 while there is none
	layout       model.Layout
	parts        state // flat vectors
	subscription transport.Subscription
}

// serve answers requests for the copy.
func (s *snapshot) serve(bus transport.Bus, subject string, layout model.Layout) (err error) {
	s.step, s.layout = -1, layout
	s.subscription, err = serveState(bus, subject, layout.Buckets(), s.bucket)
	return err
}

// take copies the engine's state. The room is allocated for the first copy and kept.
func (s *snapshot) take(step int64, layout model.Layout, engine model.Engine) error {
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
			return err
		}
	}
	s.step = step
	return nil
}

// view is the part of the copy that is bucket i.
func (s *snapshot) view(i int) (b state) {
	lo, hi := s.layout.Bucket(i)
	for part := range b {
		b[part] = s.parts[part][lo:hi]
	}
	return b
}

// bucket is a stateSource. The coordinator asks for the next copy only when it has
// read this one, so the slices stay as they are while they are sent.
func (s *snapshot) bucket(step int64, bucket int) (state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step != s.step {
		return state{}, fmt.Errorf("there is no copy of state %d here: the newest is of state %d", step, s.step)
	}
	return s.view(bucket), nil
}

func (s *snapshot) close() {
	if s.subscription != nil {
		_ = s.subscription.Unsubscribe() // the connection is closed next
	}
}
