package kernel

import (
	"fmt"
	"strings"
)

// Path is one implementation of the package's arithmetic: "avx512", "avx2", "neon" or "portable".
// All paths give the same bits.
type Path struct {
	name string

	// The micro-kernels compute tiles of C: rows times the floats of one to three vectors.
	rows, floats int
	panel        [3]panelFunc
	lean         leanFuncs // without functions: none
	packColumns  packFunc
	packRows     packFunc
	packStrip    packStripFunc
	transpose    transposeFunc // nil: one by one
	wide, narrow blockFuncs    // of BlockProduct; without functions: none
	columns      columnFuncs   // without functions: none

	max             func(x []float32) float32
	dot             func(x, y []float32) float32
	expSum          func(dst, x []float32, bias float32) float32
	scale           func(dst, x []float32, a float32)
	add             func(dst, x, y []float32)
	softmaxBackward func(dst, dprob, prob []float32, delta float32)
	normBackward    func(dst, dy, y []float32, inv, c float32)
	normBackwardAdd func(dst, dy, y []float32, inv, c float32)
	relu            func(dst, x []float32)
	reluBackward    func(dst, dy, x []float32)
	relu2           func(dst, x []float32)
	relu2Backward   func(dst, dy, x []float32)
	adamW           func(w, m, v, g []float32, h AdamW)
	mix             mixFunc        // nil: none
	adamWMix        adamWMixFunc   // nil: none
	sumSquares      sumSquaresFunc // nil: none

	// Of rows at once; nil: row by row with the functions above.
	scaleRows           scaleRowsFunc
	copyRows            copyRowsFunc
	dotRows             dotRowsFunc
	largestTile         largestTileFunc
	softmaxTile         softmaxTileFunc
	softmaxBackwardTile softmaxBackwardTileFunc

	peak      func(iterations int)
	peakFlops int // of one iteration of peak
}

// panelFunc multiplies a strip of A with one panel of B into C. The strip has blocks
// of Path.rows rows; element (r, kk) of block t is a[t*blockStride+r*rowStride+kk*colStride].
// Rows of the panel are
// bStride apart, rows of c cStride. Each element of C is a chain of fused
// multiply-adds over k that starts from +0, or from its old value when add is set. k >= 1.
type panelFunc func(blocks, k int, a []float32, rowStride, colStride, blockStride int, b []float32, bStride int, c []float32, cStride int, add bool)

// leanFuncs multiply like panelFunc, with panels of three vectors only and fewer instructions: blocks of A that lie one after the
// other, in rows as they are stored, with and without fetching, or packed.
type leanFuncs struct{ rows, rowsFetch, packed leanFunc }

// leanFunc multiplies blocks of A of which element (r, kk) is a[r*aStride+kk], r counted over all blocks, or, of those packed as [k][rows]
// one after the other, a[kk*rows+r] of each, whatever aStride. Blocks have 8 rows. Those that fetch, packed among them, fetch later: see fetch.
type leanFunc func(blocks, k int, a []float32, aStride int, b []float32, bStride int, c []float32, cStride int, add bool, later []float32, laterStride, laterStep, laterShift int)

// packFunc copies a k x width panel of B to dst as [k][width]. Width is that of one, two or
// three vectors. Element (kk, j) is src[kk*stride+j] (packColumns) or src[j*stride+kk] (packRows).
type packFunc func(dst, src []float32, stride, k, width int)

// packStripFunc copies a transposed block of A of blocks·rows rows, whose element (r, kk) is
// src[kk*stride+r], to row blocks of [k][rows] that lie blockStride apart in dst.
type packStripFunc func(dst []float32, blockStride int, src []float32, stride, k, blocks int)

// transposeFunc transposes square blocks of as many rows as a vector has floats: block t has
// its elements (kk, j) at src[j*srcStride+t*floats+kk] and dst[(t*floats+kk)*dstStride+j].
type transposeFunc func(dst []float32, dstStride int, src []float32, srcStride, blocks int)

// mixFunc returns the sums of MixSums over the whole groups of 16 elements of x.
type mixFunc func(index uint64, x []float32) (s0, s1 uint64)

// adamWMixFunc is AdamWMix over whole groups of 16 elements, of slices of equal length.
type adamWMixFunc func(w, m, v, g []float32, h AdamW, index uint64) (s0, s1 uint64)

// sumSquaresFunc returns what SumSquares does.
type sumSquaresFunc func(x []float32) float64

// AdamW holds the coefficients of one optimizer update, all dimensionless.
type AdamW struct {
	Scale                    float32 // gradient multiplier: clip factor / tokens of the step
	Beta1, OneMinusBeta1     float32
	Beta2, OneMinusBeta2     float32
	LR                       float32
	Correction1, Correction2 float32 // 1-Beta1^t and 1-Beta2^t, t counted from 1
	Eps                      float32
	Decay                    float32 // weight decay; 0 for tensors without
}

// String returns the path's name.
func (p *Path) String() string { return p.name }

// Paths returns the paths this machine can run, fastest first; the portable one is the last.
func Paths() []*Path { return append(nativePaths(), portablePath()) }

// PathByName returns the path of that name. It fails when there is none, or when this
// machine cannot run it.
func PathByName(name string) (*Path, error) {
	var names []string
	for _, p := range Paths() {
		if p.name == name {
			return p, nil
		}
		names = append(names, p.name)
	}
	return nil, fmt.Errorf("choose CPU kernels: %q: this machine cannot run it: use one of %s", name, strings.Join(names, ", "))
}

// PeakFMA runs that many iterations of fused multiply-adds between registers alone and
// returns the floating-point operations done: the limit that benchmarks compare with.
func (p *Path) PeakFMA(iterations int) (flops int64) {
	if iterations <= 0 {
		return 0
	}
	p.peak(iterations)
	return int64(iterations) * int64(p.peakFlops)
}
