package main

import (
	"fmt"
	"math"
)

// partials is the virtual width of a reduction: one AVX-512 or two AVX2 accumulators.
const partials = 16

// reductions writes the functions that reduce a row to a number.
func (e *emitter) reductions() {
	e.dot()
	e.max()
	e.expSum()
}

// halves returns how many vectors make up the partial results; they are registers 0 and 1.
func (e *emitter) halves() int { return partials / e.floats }

// overPartials writes a loop over the AX elements of the function's slices by groups of 16
// at index CX, and the masked rest. Body handles the vector of one accumulator.
func (e *emitter) overPartials(body func(half int, masked bool)) {
	loop, tail, done := e.label("loop"), e.label("tail"), e.label("done")
	all := func(masked bool) {
		for h := range e.halves() {
			body(h, masked)
		}
	}
	e.op("SUBQ", partials, "AX")
	e.op("JLT", tail)
	e.place(loop)
	all(false)
	e.op("ADDQ", partials, "CX")
	e.op("SUBQ", partials, "AX")
	e.op("JGE", loop)
	e.place(tail)
	e.op("ADDQ", partials, "AX")
	e.op("JZ", done)
	e.makeMask("AX")
	all(true)
	e.place(done)
}

// element returns the operand of the half's vector at index CX of the slice in reg.
func (e *emitter) element(reg string, half int) string {
	return fmt.Sprintf("%d(%s)(CX*4)", half*e.bytes(), reg)
}

// halfMask returns the AVX2 register of a half's tail mask.
func halfMask(half int) int { return tailMask - half }

// startReduction loads the pointers and the length of x, and zeroes index and accumulators.
func (e *emitter) startReduction(second string) {
	e.op("MOVQ", e.param("x_base"), "SI")
	e.op("MOVQ", e.param("x_len"), "AX")
	if second != "" {
		e.op("MOVQ", e.param(second+"_base"), "DI")
	}
	e.op("XORL", "CX", "CX")
	for h := range e.halves() {
		e.zero(h)
	}
}

// tree combines the partial results by halves, 8, 4, 2, 1, into X0.
func (e *emitter) tree(op string) {
	if e.masks() {
		e.op("VEXTRACTF64X4", 1, "Z0", "Y1")
	}
	e.op(op, "Y1", "Y0", "Y0")
	e.op("VEXTRACTF128", 1, "Y0", "X1")
	e.op(op, "X1", "X0", "X0")
	e.op("VPERMILPS", 0x0e, "X0", "X1")
	e.op(op, "X1", "X0", "X0")
	e.op("VPERMILPS", 0x01, "X0", "X1")
	e.op(op, "X1", "X0", "X0")
}

// result returns X0.
func (e *emitter) result() {
	e.op("VMOVSS", "X0", e.param("ret"))
	e.end()
}

// addPartial adds register x to the half's accumulator. AVX2's masked elements are +0, which
// change nothing: a sum that starts from +0 is never -0.
func (e *emitter) addPartial(half int, x string, masked bool) {
	if masked && e.masks() {
		e.op("VADDPS", x, e.v(half), "K1", e.v(half))
	} else {
		e.op("VADDPS", x, e.v(half), e.v(half))
	}
}

func (e *emitter) dot() {
	e.begin("Dot", "x, y []float32", "float32")
	e.startReduction("y")
	e.overPartials(e.dotVector)
	e.tree("VADDPS")
	e.result()
}

// dotVector adds the products of a vector to the half's accumulator.
func (e *emitter) dotVector(half int, masked bool) {
	acc, x, y, old := e.v(half), e.v(2), e.v(3), e.v(4)
	e.load(e.element("SI", half), x, masked, halfMask(half))
	e.load(e.element("DI", half), y, masked, halfMask(half))
	switch {
	case !masked:
		e.op("VFMADD231PS", x, y, acc)
	case e.masks():
		e.op("VFMADD231PS", x, y, "K1", acc)
	default: // adding +0 would turn a -0 that underflow left into +0
		e.op("VMOVAPS", acc, old)
		e.op("VFMADD231PS", x, y, acc)
		e.op("VBLENDVPS", e.v(halfMask(half)), acc, old, acc)
	}
}

// max takes the larger by the hardware's rule (the second operand unless the first is
// greater) and notes NaNs on the side: K3, or register 5.
func (e *emitter) max() {
	const unordered = 3
	e.begin("Max", "x []float32", "float32")
	e.startReduction("")
	e.op("MOVL", fmt.Sprintf("$0x%08x", math.Float32bits(float32(math.Inf(-1)))), "R13")
	e.op("VMOVD", "R13", "X2")
	for h := range e.halves() {
		e.op("VBROADCASTSS", "X2", e.v(h))
	}
	if e.masks() {
		e.op("KXORW", "K3", "K3", "K3")
	} else {
		e.zero(5)
	}
	e.overPartials(func(half int, masked bool) {
		acc, x, nan := e.v(half), e.v(2), e.v(3)
		e.load(e.element("SI", half), x, masked, halfMask(half))
		switch {
		case !e.masks():
			if masked {
				e.op("VBLENDVPS", e.v(halfMask(half)), x, acc, x)
			}
			e.op("VMAXPS", x, acc, acc)
			e.op("VCMPPS", unordered, x, x, nan)
			e.op("VORPS", nan, e.v(5), e.v(5))
		case masked:
			e.op("VMAXPS", x, acc, "K1", acc)
			e.op("VCMPPS", unordered, x, x, "K1", "K2")
			e.op("KORW", "K2", "K3", "K3")
		default:
			e.op("VMAXPS", x, acc, acc)
			e.op("VCMPPS", unordered, x, x, "K2")
			e.op("KORW", "K2", "K3", "K3")
		}
	})
	if e.masks() {
		e.op("KMOVW", "K3", "R13")
	} else {
		e.op("VMOVMSKPS", e.v(5), "R13")
	}
	e.tree("VMAXPS")
	clean := e.label("clean")
	e.op("TESTL", "R13", "R13")
	e.op("JZ", clean)
	e.op("MOVL", fmt.Sprintf("$0x%08x", math.Float32bits(float32(math.NaN()))), "R13")
	e.op("VMOVD", "R13", "X0")
	e.place(clean)
	e.result()
}
