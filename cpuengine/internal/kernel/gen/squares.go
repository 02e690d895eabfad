package main

import "fmt"

// squaresWidth is how many partial sums model.SumSquares has.
const squaresWidth = 8

// sumSquares writes kernel.sumSquaresFunc: eight float64 accumulators in one AVX-512 or two
// AVX2 registers. A square of an fp32 number is exact in float64, so fusing changes nothing.
func (e *emitter) sumSquares() {
	e.begin("SumSquares", "x []float32", "float64")
	e.op("MOVQ", e.param("x_base"), "SI")
	e.op("MOVQ", e.param("x_len"), "AX")
	parts := 2 * squaresWidth / e.floats
	for i := range parts {
		e.zero(i)
	}
	x := e.v(parts)
	square := func(load func(i int)) {
		for i := range parts {
			load(i)
			e.op("VFMADD231PD", x, x, e.v(i))
		}
	}
	loop, tail, done := e.label("loop"), e.label("tail"), e.label("done")
	e.op("XORL", "CX", "CX")
	e.op("SUBQ", squaresWidth, "AX")
	e.op("JLT", tail)
	e.op("PCALIGN", 64)
	e.place(loop)
	square(func(i int) { e.op("VCVTPS2PD", fmt.Sprintf("%d(SI)", i*e.bytes()/2), x) })
	e.op("ADDQ", 4*squaresWidth, "SI")
	e.op("SUBQ", squaresWidth, "AX")
	e.op("JGE", loop)
	e.place(tail)
	e.op("ADDQ", squaresWidth, "AX")
	e.op("JZ", done)
	e.makeMask("AX")
	e.squaresTail(x, square)
	e.place(done)
	e.sumDoubles()
	e.op("VMOVSD", "X0", e.param("ret"))
	e.end()
}

// squaresTail adds the masked rest: what is masked adds +0 to a sum that is never -0.
func (e *emitter) squaresTail(x string, square func(load func(i int))) {
	if e.masks() {
		square(func(int) { e.op("VCVTPS2PD.Z", "(SI)", "K1", x) })
		return
	}
	square(func(i int) {
		e.op("VMASKMOVPS", "(SI)", e.v(tailMask), x)
		if i == 1 {
			e.op("VEXTRACTF128", 1, x, "X"+x[1:])
		}
		e.op("VCVTPS2PD", "X"+x[1:], x)
	})
}

// sumDoubles adds the accumulators by halves, 4, 2, 1, into X0.
func (e *emitter) sumDoubles() {
	if e.masks() {
		e.op("VEXTRACTF64X4", 1, "Z0", "Y1")
	}
	e.op("VADDPD", "Y1", "Y0", "Y0")
	e.op("VEXTRACTF128", 1, "Y0", "X1")
	e.op("VADDPD", "X1", "X0", "X0")
	e.op("VPERMILPD", 1, "X0", "X1")
	e.op("VADDSD", "X1", "X0", "X0")
}
