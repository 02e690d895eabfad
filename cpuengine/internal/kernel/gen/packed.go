package main

import "fmt"

// packedSteps is how many steps over k the loop of packed does at once.
const packedSteps = 8

// packed writes the micro-kernel for packed blocks of A and panels of three vectors: see kernel.packedFunc. As A lies in the
// order of the loop it takes fewer instructions than panel, which is time where another thread of the core wants some too.
//
//	SI  block of A    DI, R10  row of B, its stride      DX, BX  block of C, its stride    R13  blocks left
//	CX  a row of C to fetch
//	R9   what is fetched for later under this block, R11 bytes from there to the next one's, R8, R15 stride and shift of its pieces, R12 one
func (e *emitter) packed() {
	const vectors = 3
	e.begin("Packed3", "blocks, k int, a, b []float32, bStride int, c []float32, cStride int, add bool"+later, "")
	for _, p := range [][2]string{{"blocks", "R13"}, {"a_base", "SI"}, {"bStride", "R10"}, {"c_base", "DX"}, {"cStride", "BX"},
		{"later_base", "R9"}, {"laterStride", "R8"}, {"laterStep", "R11"}, {"laterShift", "R15"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	for _, reg := range []string{"R10", "BX", "R8", "R11"} {
		e.op("SHLQ", 2, reg)
	}
	block := e.label("block")
	e.place(block)
	e.startTile(vectors)
	e.op("MOVQ", e.param("b_base"), "DI")
	e.op("MOVQ", e.param("k"), "AX")
	e.packedOverK(vectors)
	e.op("MOVQ", "DX", "AX")
	e.tile(vectors, "VMOVUPS", true)
	e.op("MOVQ", "AX", "DX")
	e.op("ADDQ", "R11", "R9")
	e.op("DECQ", "R13")
	e.op("JNZ", block)
	e.end()
}

// packedOverK writes the loops over k, AX iterations of them. They leave SI at the next block.
func (e *emitter) packedOverK(vectors int) {
	many, few, one, done := e.label("many"), e.label("few"), e.label("one"), e.label("done")
	e.op("SUBQ", packedSteps, "AX")
	e.op("JLT", few)
	e.op("PCALIGN", 64)
	e.place(many)
	e.findRow()
	e.op("SHRXQ", "R15", "AX", "R12")
	e.op("IMULQ", "R8", "R12")
	e.op("ADDQ", "R9", "R12")
	for i := range packedSteps {
		e.fetchRow(i, vectors)
		if line := i - vectors; line >= 0 && line < 4 { // for later: to pack it from the L1 cache was no slower than from L2
			e.op("PREFETCHT0", fmt.Sprintf("%d(R12)", line*e.bytes()))
		}
		if i%2 == 0 {
			e.op("PREFETCHT0", fmt.Sprintf("%d(SI)", 4*e.rows*(packedSteps+i)))
		}
		e.packedRankOne(vectors, i)
	}
	e.op("ADDQ", packedSteps*4*e.rows, "SI")
	e.op("SUBQ", packedSteps, "AX")
	e.op("JGE", many)
	e.place(few)
	e.op("ADDQ", packedSteps, "AX")
	e.op("JZ", done)
	e.place(one)
	e.packedRankOne(vectors, 0)
	e.op("ADDQ", 4*e.rows, "SI")
	e.op("DECQ", "AX")
	e.op("JNZ", one)
	e.place(done)
}

// packedRankOne adds column i of A, counted from SI, times the row of B to the tile, and moves on in B.
func (e *emitter) packedRankOne(vectors, i int) {
	firstB := e.rows * vectors
	firstA := firstB + vectors
	for j := range vectors {
		e.op("VMOVUPS", fmt.Sprintf("%d(DI)", j*e.bytes()), e.v(firstB+j))
	}
	for r := range e.rows {
		a := e.v(firstA + r%(e.regs-firstA))
		e.op("VBROADCASTSS", fmt.Sprintf("%d(SI)", 4*(i*e.rows+r)), a)
		for j := range vectors {
			e.op("VFMADD231PS", e.v(firstB+j), a, e.v(r*vectors+j))
		}
		if r < vectors {
			e.op("PREFETCHT0", fmt.Sprintf("%d(DI)(R10*8)", r*e.bytes())) // eight rows on
		}
	}
	e.op("ADDQ", "R10", "DI")
}
