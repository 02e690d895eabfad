package cpuengine

import (
	"errors"
	"fmt"
	"runtime"

	"andrea/cpuengine/internal/kernel"
	"andrea/cpuengine/internal/pool"
	"andrea/model"
)

// Limits of the options.
const (
	MaxMicrobatch = 1 << 10
	MaxSlots      = 1 << 6
	MaxThreads    = 1 << 8
	MaxBytes      = int64(1) << 40
)

// Options are what New needs besides the model. None of them changes a bit of what
// the engine computes.
//
// Without slots the engine serves inference alone: Eval, Logits, Begin and Next. It holds
// the weights but neither moments nor gradients nor what only the backward pass needs,
// and refuses the calls that do.
type Options struct {
	Microbatch int    // most windows of one batch, 1 to MaxMicrobatch
	Slots      int    // gradients held at a time, 0 to MaxSlots; model.Slots(lanes) for a tree
	Threads    int    // workers, up to MaxThreads; 0: as many as Go uses (GOMAXPROCS)
	Path       string // instruction set: "avx512", "avx2", "neon", "portable"; "": the fastest this machine has
}

// Engine computes one replica of a model on the processor. It has one caller at a time.
type Engine struct {
	*device
	config  model.Config
	options Options
	layout  model.Layout
	info    model.Info

	params    weights
	m, v      []float32 // nil without slots
	slots     []gradient
	mem       *memory
	optimizer *optimizer // nil without slots
	embedding *embedding
	norm      *norm
	attention *attention
	act       *activation
	entropy   *crossEntropy
	prompt    []uint32 // [T+1] tokens of Logits
	decoder   *decoder // of Begin and Next; nil before
	watch     stopwatch
	reveal    reveal // of the call in progress
	closed    bool
}

var _ model.Engine = (*Engine)(nil)

// Bytes is the memory that an engine of this shape allocates, in bytes. c and o must
// be valid, else the error says what is wrong.
func Bytes(c model.Config, o Options) (int64, error) {
	o, err := o.check(c)
	if err != nil {
		return 0, err
	}
	return bytesOf(c, o), nil
}

// What package kernel allocates to pack matrices, rounded up: its buffers have a
// fixed size.
const (
	sharedPacking = 4 << 20 // bytes
	workerPacking = 3 << 18 // bytes per worker
)

func bytesOf(c model.Config, o Options) int64 {
	var count arena
	place(&count, c, o)
	losses, prompt := int64(o.Microbatch)*int64(c.Context)*8, int64(c.Context+1)*4
	packing := sharedPacking + int64(o.Threads)*workerPacking
	return kernel.FloatsBytes(count.used) + losses + prompt + packing
}

// trains reports whether the engine holds gradients.
func (o Options) trains() bool { return o.Slots > 0 }

// check lists the faults of the options and settles the number of threads.
func (o Options) check(c model.Config) (Options, error) {
	if err := c.Validate(); err != nil {
		return o, fmt.Errorf("opening the CPU engine: the shape is not valid: %w", err)
	}
	if o.Threads == 0 {
		o.Threads = min(runtime.GOMAXPROCS(0), MaxThreads)
	}
	var errs []error
	for _, f := range []struct {
		name            string
		value, min, max int
	}{{"microbatch", o.Microbatch, 1, MaxMicrobatch}, {"slots", o.Slots, 0, MaxSlots}, {"threads", o.Threads, 1, MaxThreads}} {
		if f.value < f.min || f.value > f.max {
			errs = append(errs, fmt.Errorf("opening the CPU engine: %s is %d: must be between %d and %d", f.name, f.value, f.min, f.max))
		}
	}
	if len(errs) == 0 {
		if n := bytesOf(c, o); n > MaxBytes {
			errs = append(errs, fmt.Errorf("opening the CPU engine: the shape needs %d bytes: at most %d are supported: lower the microbatch or the context", n, MaxBytes))
		}
	}
	return o, errors.Join(errs...)
}

// New allocates an engine whose weights, moments and gradients are zero. Go ends the
// process when the machine lacks the memory, so callers compare Bytes with it first.
func New(c model.Config, opt Options) (*Engine, error) {
	o, err := opt.check(c)
	if err != nil {
		return nil, err
	}
	path, err := choosePath(o.Path)
	if err != nil {
		return nil, err
	}
	var count arena
	place(&count, c, o)
	workers := pool.New(o.Threads)
	e := &Engine{
		device: &device{path: path, pool: workers, gemm: kernel.NewGemm(path, workers)},
		config: c, options: o, layout: model.NewLayout(c),
		mem: place(newArena(count.used), c, o),
	}
	e.info = model.Info{
		Class:  Class(),
		Device: describe(path, o.Threads),
		Bytes:  bytesOf(c, o),
	}
	e.wire()
	return e, nil
}

// wire builds the operations over the engine's memory.
func (e *Engine) wire() {
	c, mem := e.config, e.mem
	e.params, e.m, e.v = viewWeights(e.layout, mem.params), mem.m, mem.v
	for _, flat := range mem.slots {
		e.slots = append(e.slots, gradient{weights: viewWeights(e.layout, flat)})
	}
	e.norm = newNorm(e.device, c.DModel, c.NormEps)
	embedNorm := e.norm
	if !c.EmbedNorm {
		embedNorm = nil
	}
	e.embedding = newEmbedding(e.device, c.DModel, embedNorm)
	e.attention = newAttention(e.device, c, mem.tiles)
	e.act = newActivation(e.device, c.Activation)
	e.prompt = make([]uint32, c.Context+1)
	e.entropy = newCrossEntropy(e.device, c.Vocab, make([]float64, e.options.Microbatch*c.Context))
	if e.options.trains() {
		e.optimizer = newOptimizer(e)
	}
}

// Info says what the engine is.
func (e *Engine) Info() model.Info { return e.info }

// Close ends the engine's goroutines; closing twice is allowed.
func (e *Engine) Close() error {
	if !e.closed {
		e.closed = true
		e.pool.Close()
	}
	return nil
}
