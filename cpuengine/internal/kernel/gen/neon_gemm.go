package main

import "fmt"

// rowRegisters point to the rows of a block of A.
var rowRegisters = [neonRows]string{"R14", "R15", "R19", "R20", "R21", "R22", "R23", "R24"}

// panel writes the micro-kernel for panels of that many vectors: see kernel.panelFunc.
//
//	R0, R1, R10  blocks, k, add      R2-R5  block of A; strides of rows, columns, blocks
//	R6, R7       panel of B, stride  R8, R9 block of C, stride
//	R11  iterations left   R12  row of B   R13  column of A   R25  row of C
func (e neon) panel(vectors int) {
	e.begin(fmt.Sprintf("Panel%d", vectors), "blocks, k int, a []float32, rowStride, colStride, blockStride int, b []float32, bStride int, c []float32, cStride int, add bool", "")
	e.parameters("blocks", "R0", "k", "R1", "a_base", "R2", "rowStride", "R3", "colStride", "R4", "blockStride", "R5",
		"b_base", "R6", "bStride", "R7", "c_base", "R8", "cStride", "R9")
	e.op("MOVBU", e.param("add"), "R10")
	e.toBytes("R3", "R4", "R5", "R7", "R9")
	block := e.label("block")
	e.place(block)
	e.startTile(vectors)
	e.op("MOVD", "R2", rowRegisters[0])
	for r := range neonRows - 1 {
		e.op("ADD", "R3", rowRegisters[r], rowRegisters[r+1])
	}
	e.op("MOVD", "R6", "R12")
	e.op("MOVD", "ZR", "R13")
	e.op("MOVD", "R1", "R11")
	e.overK(vectors)
	e.overTile(vectors, e.store)
	e.op("MOVD", "R25", "R8") // one past the last row
	e.op("ADD", "R5", "R2")
	e.op("SUBS", 1, "R0", "R0")
	e.op("BNE", block)
	e.end()
}

// startTile sets the accumulators to C or to zero.
func (e neon) startTile(vectors int) {
	zero, ready := e.label("zero"), e.label("ready")
	e.op("CBZ", "R10", zero)
	e.overTile(vectors, e.load)
	e.op("JMP", ready)
	e.place(zero)
	for i := range neonRows * vectors {
		e.zero(i)
	}
	e.place(ready)
}

// overTile walks with R25 over the rows of a tile of C.
func (e neon) overTile(vectors int, move func(base string, offset, first, count int)) {
	e.op("MOVD", "R8", "R25")
	for r := range neonRows {
		move("R25", 0, r*vectors, vectors)
		e.op("ADD", "R9", "R25")
	}
}

// overK writes the loops over k, R11 iterations of them.
func (e neon) overK(vectors int) {
	many, few, one, done := e.label("many"), e.label("few"), e.label("one"), e.label("done")
	e.op("SUBS", unroll, "R11", "R11")
	e.op("BLT", few)
	e.op("PCALIGN", 32)
	e.place(many)
	for range unroll {
		e.rankOne(vectors)
	}
	e.op("SUBS", unroll, "R11", "R11")
	e.op("BGE", many)
	e.place(few)
	e.op("ADDS", unroll, "R11", "R11")
	e.op("BEQ", done)
	e.place(one)
	e.rankOne(vectors)
	e.op("SUBS", 1, "R11", "R11")
	e.op("BNE", one)
	e.place(done)
}

// rankOne adds column k of A times row k of B to the tile, and moves on to the next. An
// element of A is loaded as a scalar, which costs the multiply-add's pipes nothing: the load
// that broadcasts does. It is loaded some rows ahead for processors that wait for it.
func (e neon) rankOne(vectors int) {
	firstB := neonRows * vectors
	firstA := firstB + vectors
	forA := min(neonRows, neonRegs-firstA)
	loadA := func(r int) { e.op("FMOVS", "("+rowRegisters[r]+")(R13)", freg(firstA+r%forA)) }
	e.load("R12", 0, firstB, vectors)
	e.op("ADD", "R7", "R12")
	for r := range forA - 1 {
		loadA(r)
	}
	for r := range neonRows {
		if ahead := r + forA - 1; ahead < neonRows {
			loadA(ahead)
		}
		for j := range vectors {
			e.multiplyAddBy(r*vectors+j, firstB+j, firstA+r%forA)
		}
	}
	e.op("ADD", "R4", "R13")
}

// peak writes the register-only probe: one iteration is a multiply-add on three quarters of
// the registers.
func (e neon) peak() {
	const accumulators, a, b = neonRegs * 3 / 4, neonRegs - 1, neonRegs - 2
	e.begin("Peak", "iterations int", "")
	e.parameters("iterations", "R0")
	for i := range accumulators {
		e.zero(i)
	}
	e.zero(a)
	e.zero(b)
	loop := e.label("loop")
	e.op("PCALIGN", 32)
	e.place(loop)
	for i := range accumulators {
		e.vector("FMLA", i, b, a)
	}
	e.op("SUBS", 1, "R0", "R0")
	e.op("BNE", loop)
	e.end()
}
