package cpuengine

import (
	"fmt"
	"runtime"

	"andrea/cpuengine/internal/kernel"
	"andrea/cpuengine/internal/pool"
)

// Paths names the instruction sets that this machine can run, fastest first.
func Paths() []string {
	var names []string
	for _, p := range kernel.Paths() {
		names = append(names, p.String())
	}
	return names
}

// Workbench runs the engine's building blocks alone, on its kernels and threads, for
// programs that time them. It has one caller at a time.
type Workbench struct {
	*device
	peakTask, copyTask, readTask func(worker, i int)

	// The call in progress.
	iterations int
	dst, src   []float32
}

// NewWorkbench starts a workbench of so many threads, 1 to MaxThreads or 0 for as many
// as Go uses, on a path, "" being the fastest that this machine has.
func NewWorkbench(threads int, path string) (*Workbench, error) {
	p, err := choosePath(path)
	if err != nil {
		return nil, err
	}
	if threads == 0 {
		threads = min(runtime.GOMAXPROCS(0), MaxThreads)
	}
	if threads < 1 || threads > MaxThreads {
		return nil, fmt.Errorf("opening a workbench: %d threads: must be between 1 and %d", threads, MaxThreads)
	}
	workers := pool.New(threads)
	w := &Workbench{device: &device{path: p, pool: workers, gemm: kernel.NewGemm(p, workers)}}
	w.peakTask, w.copyTask, w.readTask = w.peakPiece, w.copyPiece, w.readPiece
	return w, nil
}

// Path is the instruction set in use.
func (w *Workbench) Path() string { return w.path.String() }

// Threads is the number of threads in use.
func (w *Workbench) Threads() int { return w.pool.Workers() }

// Close ends the threads.
func (w *Workbench) Close() { w.pool.Close() }

// FMA runs that many iterations of fused multiply-adds between registers on the calling
// goroutine and returns the floating-point operations done.
func (w *Workbench) FMA(iterations int) (flops int64) { return w.path.PeakFMA(iterations) }

// peakPieces is how many pieces each thread's share of FMAs is cut into, so that a
// thread that starts late does not leave its core idle.
const peakPieces = 8

// FMAs runs FMA of that many iterations peakPieces times for each thread, on all of them
// together, and returns the floating-point operations done.
func (w *Workbench) FMAs(iterations int) (flops int64) {
	w.iterations = iterations
	pieces := peakPieces * w.Threads()
	w.pool.Each(pieces, w.peakTask)
	return int64(pieces) * w.path.PeakFMA(1) * int64(max(0, iterations))
}

func (w *Workbench) peakPiece(_, _ int) { w.path.PeakFMA(w.iterations) }

// memoryPiece is how many elements one task moves: 1 MiB.
const memoryPiece = 1 << 18

// Copy copies src to dst, of equal length, on all threads.
func (w *Workbench) Copy(dst, src []float32) {
	w.dst, w.src = dst, src[:len(dst)]
	w.pool.Each(blocks(len(dst), memoryPiece), w.copyTask)
}

func (w *Workbench) copyPiece(_, i int) {
	lo, hi := block(i, memoryPiece, len(w.dst))
	copy(w.dst[lo:hi], w.src[lo:hi])
}

// Read reads all of src on all threads.
func (w *Workbench) Read(src []float32) {
	w.src = src
	w.pool.Each(blocks(len(src), memoryPiece), w.readTask)
}

// readPiece reads two streams at a time: the partial sums of one would wait for each other.
func (w *Workbench) readPiece(_, i int) {
	lo, hi := block(i, memoryPiece, len(w.src))
	half := (hi - lo) / 2
	w.path.Dot(w.src[lo:lo+half], w.src[lo+half:hi])
}

// Linear is a matrix of weights with what its three products read and write. All slices
// are the caller's; NewLinear allocates them as an engine does.
type Linear struct {
	Rows, In, Out int
	W, DW         []float32 // [Out,In]
	X, DX         []float32 // [Rows,In]
	Y             []float32 // [Rows,Out], rows in whole cache lines like logits; in the backward products its own gradient
}

// NewLinear returns a layer of zeros in one block of memory like the engine's, which the system is asked
// to back with huge pages: with small ones the same products take up to a twentieth longer.
func NewLinear(rows, in, out int) *Linear {
	y, total := rows*wholeLines(out), 0
	for _, n := range []int{out * in, out * in, rows * in, rows * in, y} {
		total += wholeLines(n)
	}
	memory := newArena(total)
	return &Linear{
		Rows: rows, In: in, Out: out,
		W: memory.floats(out * in), DW: memory.floats(out * in), X: memory.floats(rows * in), DX: memory.floats(rows * in), Y: memory.floats(y),
	}
}

// Forward sets l.Y = X·Wᵀ.
func (w *Workbench) Forward(l *Linear) {
	w.gemm.Mul(lined(l.Y, l.Rows, l.Out), dense(l.X, l.Rows, l.In), dense(l.W, l.Out, l.In).T(), false)
}

// InputGradient sets l.DX = Y·W.
func (w *Workbench) InputGradient(l *Linear) {
	w.gemm.Mul(dense(l.DX, l.Rows, l.In), lined(l.Y, l.Rows, l.Out), dense(l.W, l.Out, l.In), false)
}

// WeightGradient adds Yᵀ·X to l.DW.
func (w *Workbench) WeightGradient(l *Linear) {
	w.gemm.Mul(dense(l.DW, l.Out, l.In), lined(l.Y, l.Rows, l.Out).T(), dense(l.X, l.Rows, l.In), true)
}
