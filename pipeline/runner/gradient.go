package runner

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/wire"
)

// gradPatience is how long a request for a contribution waits for it to be computed; then
// it is asked again. It is well below the time after which a request counts as lost.
const gradPatience = time.Second

// grads are the contributions in the engine's slots, and the one that becomes final bucket by
// bucket while the engine computes.
//
// Four locks are taken in this order, each left out where it is not needed:
//
//	engineMu (the worker's)  whoever computes, and whoever reads a contribution that is whole
//	reading                  shared: whoever reads a final bucket of partial, beside the one who computes and so
//	                         without engineMu; alone: end, which so waits for the readers
//	mu                       what lies where, for a moment: nothing is computed, read or locked under it
//	cache                    kept, while a bucket is looked up or read from the engine; never together with mu
//
// What was read is kept, and used without any of them: it is sent from there, which may take as long as the network
// wants, and whoever computes does not wait for that.
//
// A reader looks where its bucket lies (find), takes engineMu or reading accordingly, and looks again: between the
// two the slot may have got another contribution, or partial may have become whole, which needs the other lock.
// From then on it stays as it is: only who holds engineMu fills a slot, and partial goes by end alone.
//
// changed is made anew under mu together with every change, and find hands it out under the same mu that it
// looked under: so nothing that comes after a look is missed by who waits for it.
type grads struct {
	mu      sync.Mutex
	slots   []wire.GradRequest // the contribution in each, without a place in it; step 0: none
	changed chan struct{}      // closed when there is more to read

	reading sync.RWMutex     // held while a bucket of partial is read
	partial wire.GradRequest // step 0: none
	slot    int              // of partial
	final   int              // partial's buckets from this one on are final

	cache sync.Mutex
	kept  []*keptGrad // buckets that were read: keptGrads, and more while those are in use
	next  int         // counts those that were read
}

// keptGrads is how many buckets are kept: of two contributions, which are pulled side by side.
const keptGrads = 2

// keptGrad is one bucket of a contribution.
type keptGrad struct {
	request wire.GradRequest // without a place in the bucket; step 0: none
	bucket  []float32        // the part of room that it fills
	room    []float32        // of the largest bucket, used for one after the other
	using   sync.RWMutex     // shared: whoever uses it; taken with the cache only, so nobody waits for it
}

// newGrads has slots that hold nothing.
func newGrads(slots int) grads {
	return grads{slots: make([]wire.GradRequest, slots), changed: make(chan struct{})}
}

// set says what a slot holds from now on; step 0: nothing.
func (g *grads) set(slot int, held wire.GradRequest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slots[slot] = held
	g.announce()
}

// announce wakes who waits for more; with g.mu held.
func (g *grads) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// begin announces a contribution none of whose buckets is final yet.
func (g *grads) begin(partial wire.GradRequest, slot, buckets int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.partial, g.slot, g.final = partial, slot, buckets
}

// reveal says that the contribution's buckets from this one on are final.
func (g *grads) reveal(bucket int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.final = bucket
	g.announce()
}

// end returns when nobody reads the contribution any more.
func (g *grads) end() {
	g.reading.Lock()
	defer g.reading.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.partial = wire.GradRequest{}
}

// find is the slot in which a contribution lies; whole: all of it does, else the
// bucket is final. Without it there is a channel that is closed when there is more.
func (g *grads) find(r wire.GradRequest) (slot int, whole bool, later <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	bucket := r.Bucket
	r.Bucket, r.Offset = 0, 0
	for slot, held := range g.slots {
		if held == r {
			return slot, true, nil
		}
	}
	if g.partial == r && bucket >= g.final {
		return g.slot, false, nil
	}
	return 0, false, g.changed
}

// serveGrads lets the coordinator pull the contributions of this worker's leases. A
// request waits while the engine computes them.
func (w *worker) serveGrads() error {
	return w.keep(serveGrad(w.Bulk, wire.WorkerGrad(w.Run, w.ID), w.layout.Buckets(), w.awaitGrad))
}

var errNoGrad = errors.New("it is not computed yet, or not here any more")

// awaitGrad is a gradSource that waits until the bucket is final.
func (w *worker) awaitGrad(r wire.GradRequest, use func(bucket []float32) error) error {
	timer := time.NewTimer(gradPatience)
	defer timer.Stop()
	for {
		slot, whole, later := w.grads.find(r)
		if later == nil {
			if err := w.readGrad(r, slot, whole, use); !errors.Is(err, errNoGrad) {
				return err
			}
			continue // it went meanwhile
		}
		select {
		case <-later:
		case <-timer.C:
			return fmt.Errorf("the contribution of lanes [%d, %d) to step %d: %w", r.Lo, r.Hi, r.Step, errNoGrad)
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

// readGrad reads a bucket of a slot: with the engine to itself, or beside what it computes
// when that leaves the bucket alone.
func (w *worker) readGrad(r wire.GradRequest, slot int, whole bool, use func(bucket []float32) error) error {
	k, err := w.keepGrad(r, slot, whole)
	if err != nil {
		return err
	}
	defer k.using.RUnlock()
	return use(k.bucket)
}

// keepGrad is a bucket of a slot, which its caller uses until it unlocks it.
func (w *worker) keepGrad(r wire.GradRequest, slot int, whole bool) (*keptGrad, error) {
	if whole {
		w.engineMu.Lock()
		defer w.engineMu.Unlock()
	} else {
		w.grads.reading.RLock()
		defer w.grads.reading.RUnlock()
	}
	if again, still, later := w.grads.find(r); later != nil || again != slot || still != whole {
		return nil, errNoGrad // it changed before the lock was ours: see grads
	}
	if w.engine == nil { // while there is a partial, its engine stays
		return nil, errors.New("reading a contribution: this worker has left")
	}
	g := &w.grads
	g.cache.Lock()
	defer g.cache.Unlock()
	r.Offset = 0
	for _, k := range g.kept {
		if k.request == r {
			k.using.RLock()
			return k, nil
		}
	}
	k := g.unused(largestBucket(w.layout))
	lo, hi := w.layout.Bucket(r.Bucket)
	k.request, k.bucket = wire.GradRequest{}, k.room[:hi-lo]
	if err := w.engine.ReadGrad(slot, r.Bucket, k.bucket); err != nil {
		return nil, err
	}
	k.request = r
	k.using.RLock()
	return k, nil
}

// unused is room for a bucket that nobody uses, in turns; with the cache to itself.
func (g *grads) unused(size int) *keptGrad {
	for i := range g.kept {
		k := g.kept[(g.next+i)%len(g.kept)]
		if len(g.kept) >= keptGrads && k.using.TryLock() {
			k.using.Unlock() // who uses it from now on has the cache first
			g.next += i + 1
			return k
		}
	}
	k := &keptGrad{room: make([]float32, size)}
	g.kept = append(g.kept, k)
	return k
}

// conclude computes the last microbatch of a lease and measures the contribution.
func (w *worker) conclude(e pipeline.Conclude) (pipeline.WorkerEvent, error) {
	began := time.Now()
	batch, err := w.fetchMicrobatch(e.Accumulate)
	if err != nil {
		return nil, err
	}
	w.engineMu.Lock()
	defer w.engineMu.Unlock()
	loss, err := w.accumulateLast(e, batch)
	done := pipeline.Concluded{Accumulated: accumulated(e.Accumulate, loss, batch, began)}
	if err == nil {
		err = w.measure(&done, e.Slot-e.Folds, e.SumSquares)
	}
	w.grads.end()
	if err != nil {
		return nil, err
	}
	w.grads.set(e.Slot-e.Folds, wire.GradRequest{Step: e.Step, Lo: e.Lo, Hi: e.Hi})
	return done, nil
}

// measure takes the digests of the state and of the contribution in a slot, which others may read meanwhile.
func (w *worker) measure(done *pipeline.Concluded, slot int, squares bool) (err error) {
	if done.StateDigest, err = w.stateDigest(); err != nil {
		return err
	}
	for i := range w.layout.Buckets() {
		digest, err := w.engine.GradDigest(slot, i)
		if err != nil {
			return err
		}
		done.GradDigest = done.GradDigest.Add(digest)
	}
	if squares {
		done.SumSquares, err = pipeline.SquaresOf(w.engine, slot, w.layout.Buckets())
	}
	return err
}

// accumulateLast computes the last microbatch and folds the lanes; an engine that can lets
// the contribution go while it does, and until grads.end.
func (w *worker) accumulateLast(e pipeline.Conclude, batch model.Batch) (loss model.Loss, err error) {
	if engine, can := w.engine.(model.Revealer); can {
		w.grads.begin(wire.GradRequest{Step: e.Step, Lo: e.Lo, Hi: e.Hi}, e.Slot-e.Folds, w.layout.Buckets())
		return engine.AccumulateLast(e.Slot, e.Folds, batch, func(bucket int) {
			w.grads.reveal(bucket)
			w.progress.Add(1)
		})
	}
	loss, err = w.engine.Accumulate(e.Slot, batch)
	for i := 0; i < e.Folds && err == nil; i++ {
		err = w.engine.Fold(e.Slot-i-1, e.Slot-i)
	}
	return loss, err
}
