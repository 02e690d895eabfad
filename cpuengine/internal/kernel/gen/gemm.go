package main

import (
	"fmt"
	"math/bits"
)

// unroll is how many iterations over k the inner loop of a micro-kernel does at once.
const unroll = 4

// rowSteps is for how many steps over k the same row of C is fetched: 192 cycles, in which a few lines come from
// L3. With 128 steps all eight rows have come.
const rowSteps = 16

// later are the parameters of what a micro-kernel fetches for later: see kernel.fetch.
const later = ", later []float32, laterStride, laterStep, laterShift int"

// panel writes the micro-kernel for panels of that many vectors, and one that fetches for later or not: see kernel.panelFunc.
//
//	SI, R11  rows 0-3 and 4-7 of A    R8, R10  1 and 3 row strides    R9  column stride
//	R13      block of A               DI, R12  row of B, its stride   DX  block of C, BX its stride
//	R14, R15 rows 0-3 and 4-7 of the next block of A    CX  a row of C to fetch, a piece for later
func (e *emitter) panel(vectors int, fetches bool) {
	name, params := fmt.Sprintf("Panel%d", vectors), "blocks, k int, a []float32, rowStride, colStride, blockStride int, b []float32, bStride int, c []float32, cStride int, add bool"
	if fetches {
		name, params = name+"Fetch", params+later
	}
	e.begin(name, params, "")
	for _, p := range [][2]string{{"a_base", "R13"}, {"rowStride", "R8"}, {"colStride", "R9"}, {"bStride", "R12"}, {"c_base", "DX"}, {"cStride", "BX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	for _, reg := range []string{"R8", "R9", "R12", "BX"} {
		e.op("SHLQ", 2, reg)
	}
	e.op("SHLQ", 2, e.param("blockStride"))
	if fetches {
		e.op("SHLQ", 2, e.param("laterStride"))
		e.op("SHLQ", 2, e.param("laterStep"))
	}
	e.op("LEAQ", "(R8)(R8*2)", "R10")
	block := e.label("block")
	e.place(block)
	e.startTile(vectors)
	e.op("MOVQ", "R13", "SI")
	if e.rows > 4 {
		e.op("LEAQ", "(R13)(R8*4)", "R11")
	}
	if e.fetchesAhead() {
		e.op("MOVQ", e.param("blockStride"), "R14")
		e.op("LEAQ", "(R11)(R14*1)", "R15")
		e.op("ADDQ", "SI", "R14")
	}
	e.op("MOVQ", e.param("b_base"), "DI")
	e.op("MOVQ", e.param("k"), "AX")
	e.overK(vectors, fetches)
	e.op("MOVQ", "DX", "AX")
	e.tile(vectors, "VMOVUPS", true)
	e.op("ADDQ", e.param("blockStride"), "R13")
	e.op("MOVQ", "AX", "DX") // tile left it one past the last row
	if fetches {
		e.op("MOVQ", e.param("laterStep"), "AX")
		e.op("ADDQ", "AX", e.param("later_base"))
	}
	e.op("DECQ", e.param("blocks"))
	e.op("JNZ", block)
	e.end()
}

// startTile sets the accumulators to C or to zero.
func (e *emitter) startTile(vectors int) {
	zero, ready := e.label("zero"), e.label("ready")
	e.op("CMPB", e.param("add"), 0)
	e.op("JEQ", zero)
	e.op("MOVQ", "DX", "AX")
	e.tile(vectors, "VMOVUPS", false)
	e.fetchTile(vectors) // of the next block: its loads would stall this loop's end
	e.op("JMP", ready)
	e.place(zero)
	for i := range e.rows * vectors {
		e.zero(i)
	}
	e.op("MOVQ", "DX", "AX")
	e.fetchTile(vectors) // the lines that the tile will be stored to
	e.place(ready)
}

// fetchTile fetches the lines of the tile of C at AX: at once, or row by row in the loop over k, which the
// parameter c, not needed otherwise any more, then tells where. Lines of C come from far, and as many at once hold up those of A and B.
func (e *emitter) fetchTile(vectors int) {
	if e.fetchesAhead() {
		e.op("MOVQ", "AX", e.param("c_base"))
		return
	}
	e.tile(vectors, "PREFETCHT0", false)
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

// overK writes the loops over k, AX iterations of them.
func (e *emitter) overK(vectors int, fetches bool) {
	many, few, one, done := e.label("many"), e.label("few"), e.label("one"), e.label("done")
	e.op("SUBQ", unroll, "AX")
	e.op("JLT", few)
	e.op("PCALIGN", 64)
	e.place(many)
	e.findRow()
	for i := range unroll {
		e.fetchNext(i)
		e.fetchRow(i, vectors)
		e.rankOne(vectors)
	}
	if fetches {
		e.fetchLater()
	}
	if e.fetchesAhead() {
		e.op("LEAQ", "(R14)(R9*4)", "R14")
		e.op("LEAQ", "(R15)(R9*4)", "R15")
	}
	e.op("SUBQ", unroll, "AX")
	e.op("JGE", many)
	e.place(few)
	e.op("ADDQ", unroll, "AX")
	e.op("JZ", done)
	e.place(one)
	e.rankOne(vectors)
	e.op("DECQ", "AX")
	e.op("JNZ", one)
	e.place(done)
}

// fetchesAhead reports whether the loop over k has room to fetch lines of C and of the next block of A while it
// computes. AVX2's has half as many loads again for a multiply-add: there it costs a hundredth.
func (e *emitter) fetchesAhead() bool { return e.rows == 8 }

// fetchNext fetches two rows of the next block of A, others in each iteration i of an unrolled one.
// Where rows lie apart, the processor by itself follows so many only late.
func (e *emitter) fetchNext(i int) {
	if !e.fetchesAhead() {
		return
	}
	base := []string{"R14", "R15"}[i/2]
	for _, index := range [][]string{{"", "(R8*1)"}, {"(R8*2)", "(R10*1)"}}[i%2] {
		e.op("PREFETCHT0", "("+base+")"+index)
	}
}

// findRow sets CX to the row of C that this round of the loop over k fetches: another every rowSteps steps,
// and again from the first one when all have had theirs.
func (e *emitter) findRow() {
	if !e.fetchesAhead() {
		return
	}
	e.op("MOVQ", "AX", "CX")
	e.op("SHRQ", bits.Len(rowSteps-1), "CX")
	e.op("ANDQ", e.rows-1, "CX")
	e.op("IMULQ", "BX", "CX")
	e.op("ADDQ", e.param("c_base"), "CX")
}

// fetchRow fetches vector i of the row that findRow found, if it has one.
func (e *emitter) fetchRow(i, vectors int) {
	if e.fetchesAhead() && i < vectors {
		e.op("PREFETCHT0", fmt.Sprintf("%d(CX)", i*e.bytes()))
	}
}

// fetchLater fetches the piece for later of this round into the L2 cache. It is a part of the next panel of B, of which the L1
// cache would keep little until then.
func (e *emitter) fetchLater() {
	e.op("MOVQ", e.param("laterShift"), "CX")
	e.op("SHRXQ", "CX", "AX", "CX")
	e.op("IMULQ", e.param("laterStride"), "CX")
	e.op("ADDQ", e.param("later_base"), "CX")
	for line := range 4 {
		e.op("PREFETCHT1", fmt.Sprintf("%d(CX)", line*e.bytes()))
	}
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
