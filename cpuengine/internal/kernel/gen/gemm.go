package main

import "fmt"

// unroll is how many iterations over k the inner loop of a micro-kernel, but of lean ones, does at once.
const unroll = 4

// panel writes the micro-kernel for panels of that many vectors: see kernel.panelFunc.
//
//	SI, R11  rows 0-3 and 4-7 of A    R8, R10  1 and 3 row strides    R9  column stride
//	R13      block of A               DI, R12  row of B, its stride   DX  block of C, BX its stride
func (e *emitter) panel(vectors int) {
	e.begin(fmt.Sprintf("Panel%d", vectors), "blocks, k int, a []float32, rowStride, colStride, blockStride int, b []float32, bStride int, c []float32, cStride int, add bool", "")
	for _, p := range [][2]string{{"a_base", "R13"}, {"rowStride", "R8"}, {"colStride", "R9"}, {"bStride", "R12"}, {"c_base", "DX"}, {"cStride", "BX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	for _, reg := range []string{"R8", "R9", "R12", "BX"} {
		e.op("SHLQ", 2, reg)
	}
	e.op("SHLQ", 2, e.param("blockStride"))
	e.op("LEAQ", "(R8)(R8*2)", "R10")
	block := e.label("block")
	e.place(block)
	e.startTile(vectors)
	e.tile(vectors, "PREFETCHT0", false)
	e.op("MOVQ", "R13", "SI")
	if e.rows > 4 {
		e.op("LEAQ", "(R13)(R8*4)", "R11")
	}
	e.op("MOVQ", e.param("b_base"), "DI")
	e.op("MOVQ", e.param("k"), "AX")
	one := func() { e.rankOne(vectors) }
	e.overK(unroll, func() {
		for range unroll {
			one()
		}
	}, one)
	e.op("MOVQ", "DX", "AX")
	e.tile(vectors, "VMOVUPS", true)
	e.op("ADDQ", e.param("blockStride"), "R13")
	e.op("MOVQ", "AX", "DX") // tile left it one past the last row
	e.op("DECQ", e.param("blocks"))
	e.op("JNZ", block)
	e.end()
}

// startTile sets the accumulators to C or to zero. It leaves AX at the tile whose lines should be fetched: where C is loaded the next block's,
// for which that block would wait, otherwise this one, which will be stored to.
func (e *emitter) startTile(vectors int) {
	zero, ready := e.label("zero"), e.label("ready")
	e.op("CMPB", e.param("add"), 0)
	e.op("JEQ", zero)
	e.op("MOVQ", "DX", "AX")
	e.tile(vectors, "VMOVUPS", false)
	e.op("JMP", ready)
	e.place(zero)
	for i := range e.rows * vectors {
		e.zero(i)
	}
	e.op("MOVQ", "DX", "AX")
	e.place(ready)
}

// tile walks with AX over the rows of a tile of C: loads, prefetches or stores them.
func (e *emitter) tile(vectors int, op string, store bool) {
	for r := range e.rows {
		for j := range vectors {
			at, acc := fmt.Sprintf("%d(AX)", j*e.bytes()), e.v(r*vectors+j)
			switch {
			case store:
				e.op(op, acc, at)
			case op == "PREFETCHT0":
				e.op(op, at)
			default:
				e.op(op, at, acc)
			}
		}
		e.op("ADDQ", "BX", "AX")
	}
}

// overK writes the loops over k, AX iterations of them: rounds of so many steps at once, then one by one what is left.
func (e *emitter) overK(steps int, round, one func()) {
	many, few, single, done := e.label("many"), e.label("few"), e.label("one"), e.label("done")
	e.op("SUBQ", steps, "AX")
	e.op("JLT", few)
	e.op("PCALIGN", 64)
	e.place(many)
	round()
	e.op("SUBQ", steps, "AX")
	e.op("JGE", many)
	e.place(few)
	e.op("ADDQ", steps, "AX")
	e.op("JZ", done)
	e.place(single)
	one()
	e.op("DECQ", "AX")
	e.op("JNZ", single)
	e.place(done)
}

// rankOne adds column k of A times row k of B to the tile, and moves on to the next.
func (e *emitter) rankOne(vectors int) {
	firstB := e.rows * vectors
	firstA := firstB + vectors
	for j := range vectors {
		e.op("VMOVUPS", fmt.Sprintf("%d(DI)", j*e.bytes()), e.v(firstB+j))
	}
	for r := range e.rows {
		base := []string{"SI", "R11"}[r/4]
		index := []string{"", "(R8*1)", "(R8*2)", "(R10*1)"}[r%4]
		a := e.v(firstA + r%min(e.rows, e.regs-firstA))
		e.op("VBROADCASTSS", "("+base+")"+index, a)
		for j := range vectors {
			e.op("VFMADD231PS", e.v(firstB+j), a, e.v(r*vectors+j))
		}
		if r < vectors {
			e.op("PREFETCHT0", fmt.Sprintf("%d(DI)(R12*8)", r*e.bytes())) // eight rows on
		}
	}
	e.op("ADDQ", "R12", "DI")
	e.op("ADDQ", "R9", "SI")
	if e.rows > 4 {
		e.op("ADDQ", "R9", "R11")
	}
}

// zero sets a vector register to +0.
func (e *emitter) zero(i int) {
	op := "VXORPS"
	if e.masks() {
		op = "VPXORD"
	}
	e.op(op, e.v(i), e.v(i), e.v(i))
}

// peak writes the register-only probe: one iteration is a multiply-add on three
// quarters of the vector registers.
func (e *emitter) peak() {
	e.begin("Peak", "iterations int", "")
	e.op("MOVQ", e.param("iterations"), "AX")
	for i := range e.regs * 3 / 4 {
		e.zero(i)
	}
	a, b := e.regs-1, e.regs-2
	e.zero(a)
	e.zero(b)
	loop := e.label("loop")
	e.op("PCALIGN", 64)
	e.place(loop)
	for i := range e.regs * 3 / 4 {
		e.op("VFMADD231PS", e.v(a), e.v(b), e.v(i))
	}
	e.op("DECQ", "AX")
	e.op("JNZ", loop)
	e.end()
}
