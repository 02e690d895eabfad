package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// spanSize is the most elements of the flat vector one task takes.
const spanSize = 1 << 14

// span is a range of the flat vector inside one tensor.
type span struct {
	lo, hi int
	decay  bool
}

// spansOf cuts the flat vector at the ends of tensors and every spanSize elements.
func spansOf(l model.Layout) []span {
	var spans []span
	for _, t := range l.Tensors {
		for lo := t.Offset; lo < t.End(); lo += spanSize {
			spans = append(spans, span{lo: lo, hi: min(lo+spanSize, t.End()), decay: t.Decay})
		}
	}
	return spans
}

// optimizer does what goes over whole flat vectors.
type optimizer struct {
	*device
	spans      []span
	tables     int // leading spans, those of wte and wpe
	layout     model.Layout
	params     []float32
	m, v       []float32
	digests    []workerDigest // one per worker; their sum does not depend on who did what
	updateTask func(worker, i int)
	foldTask   func(worker, i int)
	pieceTask  func(worker, i int) // of foldRange
	zeroTask   func(worker, i int)
	gradTask   func(worker, i int) // of GradDigest
	stateTask  func(worker, i int) // of StateDigest
	squareTask func(worker, i int) // of SumSquares

	// The call in progress.
	dst, src []float32
	adam     kernel.AdamW
	decay    float32
	lo, hi   int       // of a bucket
	sums     []float64 // of squares
}

// workerDigest keeps the digests of two workers on different cache lines.
type workerDigest struct {
	sum model.Digest
	_   [48]byte
}

func newOptimizer(e *Engine) *optimizer {
	o := &optimizer{
		device: e.device, spans: spansOf(e.layout), layout: e.layout,
		params: e.params.flat, m: e.m, v: e.v,
		digests: make([]workerDigest, e.options.Threads),
	}
	o.tables = blocks(len(e.params.token), spanSize) + blocks(len(e.params.position), spanSize)
	o.updateTask, o.foldTask, o.zeroTask = o.updateSpan, o.foldSpan, o.zeroSpan
	o.pieceTask = o.foldPiece
	o.gradTask, o.stateTask, o.squareTask = o.gradPiece, o.statePiece, o.squareBucket
	return o
}

// Update applies AdamW to the whole replica with gradient slot·scale and returns the
// digest of the new state, taken in the same pass.
func (e *Engine) Update(slot int, scale float32, h model.Hyper) (model.Digest, error) {
	if err := e.checkSlot(slot); err != nil {
		return model.Digest{}, err
	}
	e.watch.start()
	e.settle(slot)
	o := e.optimizer
	o.src, o.decay = e.slots[slot].flat, h.Decay
	o.adam = kernel.AdamW{
		Scale: scale, LR: h.LR, Eps: h.Eps,
		Beta1: h.Beta1, OneMinusBeta1: h.OneMinusBeta1,
		Beta2: h.Beta2, OneMinusBeta2: h.OneMinusBeta2,
		Correction1: h.Correction1, Correction2: h.Correction2,
	}
	digest := o.sumDigests(len(o.spans), o.updateTask)
	e.watch.mark(&e.watch.parts.Optimizer)
	return digest, nil
}

// sumDigests runs n tasks and returns the sum of what they add to the workers' digests.
func (o *optimizer) sumDigests(n int, task func(worker, i int)) model.Digest {
	clear(o.digests)
	o.pool.Each(n, task)
	var digest model.Digest
	for i := range o.digests {
		digest = digest.Add(o.digests[i].sum)
	}
	return digest
}

// bucketDigest is sumDigests over the pieces of elements lo to hi.
func (o *optimizer) bucketDigest(lo, hi int, task func(worker, i int)) model.Digest {
	o.lo, o.hi = lo, hi
	return o.sumDigests(blocks(hi-lo, spanSize), task)
}

// piece returns the range of piece i of the bucket.
func (o *optimizer) piece(i int) (lo, hi int) {
	lo, hi = block(i, spanSize, o.hi-o.lo)
	return o.lo + lo, o.lo + hi
}

// gradPiece adds the digest of a piece of the gradient src.
func (o *optimizer) gradPiece(worker, i int) {
	lo, hi := o.piece(i)
	sum := &o.digests[worker].sum
	*sum = sum.Add(o.digestOf(model.Gradient, lo, o.src[lo:hi]))
}

// statePiece adds the digest of a piece of the state.
func (o *optimizer) statePiece(worker, i int) {
	lo, hi := o.piece(i)
	sum := &o.digests[worker].sum
	*sum = sum.Add(o.stateDigestOf(lo, o.params[lo:hi], o.m[lo:hi], o.v[lo:hi]))
}

func (o *optimizer) squareBucket(_, i int) {
	lo, hi := o.layout.Bucket(i)
	o.sums[i] = Vectors{o.path}.SumSquares(o.src[lo:hi])
}

func (o *optimizer) updateSpan(worker, i int) {
	s, adam := o.spans[i], o.adam
	if s.decay {
		adam.Decay = o.decay
	}
	w, m, v, g := o.params[s.lo:s.hi], o.m[s.lo:s.hi], o.v[s.lo:s.hi], o.src[s.lo:s.hi]
	sum := &o.digests[worker].sum
	sums, done := o.path.AdamWMix(w, m, v, g, adam, digestIndex(model.Weight, s.lo))
	w, m, v, g = w[done:], m[done:], v[done:], g[done:]
	o.path.AdamW(w, m, v, g, adam)
	*sum = sum.Add(sums).Add(o.stateDigestOf(s.lo+done, w, m, v))
}

// Fold adds slot src to slot dst; they may be the same.
func (e *Engine) Fold(dst, src int) error {
	for _, slot := range [...]int{dst, src} {
		if err := e.checkSlot(slot); err != nil {
			return err
		}
	}
	e.watch.start()
	e.settle(dst)
	e.settle(src)
	e.optimizer.dst, e.optimizer.src = e.slots[dst].flat, e.slots[src].flat
	e.pool.Each(len(e.optimizer.spans), e.optimizer.foldTask)
	e.watch.mark(&e.watch.parts.Optimizer)
	return nil
}

// foldRange adds the elements [lo, hi) of slot src to slot dst.
func (e *Engine) foldRange(dst, src, lo, hi int) {
	o := e.optimizer
	o.dst, o.src, o.lo, o.hi = e.slots[dst].flat, e.slots[src].flat, lo, hi
	e.pool.Each(blocks(hi-lo, spanSize), o.pieceTask)
	e.watch.mark(&e.watch.parts.Optimizer)
}

func (o *optimizer) foldPiece(_, i int) {
	lo, hi := o.piece(i)
	o.path.Add(o.dst[lo:hi], o.dst[lo:hi], o.src[lo:hi])
}

func (o *optimizer) foldSpan(_, i int) {
	s := o.spans[i]
	o.path.Add(o.dst[s.lo:s.hi], o.dst[s.lo:s.hi], o.src[s.lo:s.hi])
}

// Zero sets a slot to +0.
func (e *Engine) Zero(slot int) error {
	if err := e.checkSlot(slot); err != nil {
		return err
	}
	e.slots[slot].fresh = true
	return nil
}

// settle writes the zeros of a slot that Zero marked.
func (e *Engine) settle(slot int) {
	if e.slots[slot].fresh {
		e.slots[slot].fresh = false
		e.clear(e.slots[slot].flat, len(e.optimizer.spans))
	}
}

// clear sets the first n spans of a flat vector to +0.
func (e *Engine) clear(flat []float32, n int) {
	e.optimizer.dst = flat
	e.pool.Each(n, e.optimizer.zeroTask)
}

func (o *optimizer) zeroSpan(_, i int) {
	s := o.spans[i]
	clear(o.dst[s.lo:s.hi])
}
