package main

import "fmt"

// blockShape is the tile of a micro-kernel of products in the L1 cache, in rows and vectors.
type blockShape struct{ rows, vectors int }

// blockShapes are those of AVX-512. Nothing but the two pipes of multiply-adds should limit such a product, not
// even while another thread of the core takes its share of everything else: so few loads for each. Six rows of four
// vectors load 10 times for 24, eight of three 11, eight of two 15, twelve of two 14.
var blockShapes = []blockShape{{6, 4}, {5, 4}, {12, 2}, {8, 2}}

// blockPanel writes a micro-kernel that fetches nothing ahead, as all is in the cache: see kernel.panelFunc.
//
//	SI, R11, R14  rows 0-3, 4-7, 8-11 of A    R8, R10  1 and 3 row strides    R9  column stride
//	R13           block of A                  DI, R12  row of B, its stride   DX  block of C, BX its stride
func (e *emitter) blockPanel(s blockShape) {
	defer func(rows int) { e.rows = rows }(e.rows)
	e.rows = s.rows
	e.begin(fmt.Sprintf("Block%dx%d", s.rows, s.vectors), "blocks, k int, a []float32, rowStride, colStride, blockStride int, b []float32, bStride int, c []float32, cStride int, add bool", "")
	for _, p := range [][2]string{{"a_base", "R13"}, {"rowStride", "R8"}, {"colStride", "R9"}, {"bStride", "R12"}, {"c_base", "DX"}, {"cStride", "BX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	for _, reg := range []string{"R8", "R9", "R12", "BX"} {
		e.op("SHLQ", 2, reg)
	}
	e.op("SHLQ", 2, e.param("blockStride"))
	e.op("LEAQ", "(R8)(R8*2)", "R10")
	e.op("MOVBLZX", e.param("add"), "CX")
	block, zero, ready := e.label("block"), e.label("zero"), e.label("ready")
	e.place(block)
	e.op("TESTQ", "CX", "CX")
	e.op("JZ", zero)
	e.op("MOVQ", "DX", "AX")
	e.tile(s.vectors, "VMOVUPS", false)
	e.op("JMP", ready)
	e.place(zero)
	for i := range s.rows * s.vectors {
		e.zero(i)
	}
	e.place(ready)
	e.blockOverK(s)
	e.op("MOVQ", "DX", "AX")
	e.tile(s.vectors, "VMOVUPS", true)
	e.op("ADDQ", e.param("blockStride"), "R13")
	e.op("MOVQ", "AX", "DX") // tile left it one past the last row
	e.op("DECQ", e.param("blocks"))
	e.op("JNZ", block)
	e.end()
}

// blockOverK writes the loops over k.
func (e *emitter) blockOverK(s blockShape) {
	bases := []string{"SI", "R11", "R14"}[:(s.rows+3)/4]
	e.op("MOVQ", "R13", "SI")
	for i := range bases[1:] {
		e.op("LEAQ", "("+bases[i]+")(R8*4)", bases[i+1])
	}
	e.op("MOVQ", e.param("b_base"), "DI")
	e.op("MOVQ", e.param("k"), "AX")
	many, few, one, done := e.label("many"), e.label("few"), e.label("one"), e.label("done")
	e.op("SUBQ", unroll, "AX")
	e.op("JLT", few)
	e.op("PCALIGN", 64)
	e.place(many)
	for range unroll {
		e.blockRankOne(s, bases)
	}
	e.op("SUBQ", unroll, "AX")
	e.op("JGE", many)
	e.place(few)
	e.op("ADDQ", unroll, "AX")
	e.op("JZ", done)
	e.place(one)
	e.blockRankOne(s, bases)
	e.op("DECQ", "AX")
	e.op("JNZ", one)
	e.place(done)
}

// blockRankOne adds column k of A times row k of B to the tile, and moves on to the next.
func (e *emitter) blockRankOne(s blockShape, bases []string) {
	firstB := s.rows * s.vectors
	firstA := firstB + s.vectors
	for j := range s.vectors {
		e.op("VMOVUPS", fmt.Sprintf("%d(DI)", j*e.bytes()), e.v(firstB+j))
	}
	for r := range s.rows {
		a := e.v(firstA + r%(e.regs-firstA))
		e.op("VBROADCASTSS", "("+bases[r/4]+")"+[]string{"", "(R8*1)", "(R8*2)", "(R10*1)"}[r%4], a)
		for j := range s.vectors {
			e.op("VFMADD231PS", e.v(firstB+j), a, e.v(r*s.vectors+j))
		}
	}
	e.op("ADDQ", "R12", "DI")
	for _, b := range bases {
		e.op("ADDQ", "R9", b)
	}
}
