package main

import "fmt"

// blockShape is the tile of a micro-kernel of products in the L1 cache, in rows and vectors.
type blockShape struct{ rows, vectors int }

// blockShapes are those of AVX-512. Nothing but the two pipes of multiply-adds should limit such a product, not even
// while another thread of the core takes every second group of instructions: so few of any other kind. Six rows of
// four vectors load 10 times for 24 multiply-adds, eight of three 11, eight of two 15, twelve of two 14.
var blockShapes = []blockShape{{6, 4}, {5, 4}, {12, 2}, {8, 2}}

// blockTile is a micro-kernel as it is written: for A as stored or transposed, so that four steps over k are
// addressed without moving a pointer, and for fetching what comes later or not.
type blockTile struct {
	blockShape
	transposed, fetches bool
}

// blockTiles returns all that kernel needs. Narrow ones fetch nothing.
func blockTiles() (all []blockTile) {
	for _, s := range blockShapes {
		for _, transposed := range []bool{false, true} {
			all = append(all, blockTile{s, transposed, false})
			if s.vectors == 4 {
				all = append(all, blockTile{s, transposed, true})
			}
		}
	}
	return all
}

// blockPanel writes a micro-kernel: see kernel.blockFunc. It fetches none of its operands, which lie in the cache.
//
//	SI, R11  A, and its eighth row    R8, R10, R15, R14  1, 3, 5 and 7 of its strides    R13  block of A
//	DI       row of B                 R12, CX            1 and 3 of its strides          DX, BX  block of C, its stride
//	R9       offsets of lines to fetch from R11 on, one at a time in R14
func (e *emitter) blockPanel(t blockTile) {
	defer func(rows int) { e.rows = rows }(e.rows)
	e.rows = t.rows
	name := fmt.Sprintf("Block%dx%d", t.rows, t.vectors)
	if t.transposed {
		name += "T"
	}
	params := "blocks, k int, a []float32, aStride int, b []float32, bStride int, c []float32, cStride int, add bool, ahead []float32, lines []int32"
	if t.fetches {
		name += "Ahead"
	}
	e.begin(name, params, "")
	for _, p := range [][2]string{{"a_base", "R13"}, {"aStride", "R8"}, {"bStride", "R12"}, {"c_base", "DX"}, {"cStride", "BX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	for _, reg := range []string{"R8", "R12", "BX"} {
		e.op("SHLQ", 2, reg)
	}
	e.op("LEAQ", "(R12)(R12*2)", "CX")
	e.op("LEAQ", "(R8)(R8*2)", "R10")
	e.op("LEAQ", "(R8)(R8*4)", "R15")
	if t.fetches {
		e.op("MOVQ", e.param("ahead_base"), "R11")
		e.op("MOVQ", e.param("lines_base"), "R9")
	} else {
		e.op("LEAQ", "(R10)(R8*4)", "R14")
	}
	block, zero, ready := e.label("block"), e.label("zero"), e.label("ready")
	e.place(block)
	e.op("CMPB", e.param("add"), "$0")
	e.op("JEQ", zero)
	e.op("MOVQ", "DX", "AX")
	e.tile(t.vectors, "VMOVUPS", false)
	e.op("JMP", ready)
	e.place(zero)
	for i := range t.rows * t.vectors {
		e.zero(i)
	}
	e.place(ready)
	e.op("MOVQ", "R13", "SI")
	if t.rows > 8 && !t.transposed {
		e.op("LEAQ", "(R13)(R8*8)", "R11")
	}
	e.op("MOVQ", e.param("b_base"), "DI")
	e.op("MOVQ", e.param("k"), "AX")
	e.blockOverK(t)
	e.op("MOVQ", "DX", "AX")
	e.tile(t.vectors, "VMOVUPS", true)
	e.op("MOVQ", "AX", "DX") // tile left it one past the last row
	e.nextRows(t)
	e.op("DECQ", e.param("blocks"))
	e.op("JNZ", block)
	e.end()
}

// nextRows moves R13 to the next block of A.
func (e *emitter) nextRows(t blockTile) {
	if t.transposed {
		e.op("ADDQ", 4*t.rows, "R13")
		return
	}
	for _, part := range map[int][]string{5: {"(R15*1)"}, 6: {"(R10*2)"}, 8: {"(R8*8)"}, 12: {"(R8*8)", "(R8*4)"}}[t.rows] {
		e.op("LEAQ", "(R13)"+part, "R13")
	}
}

// blockOverK writes the loops over k.
func (e *emitter) blockOverK(t blockTile) {
	e.overK(unroll, func() {
		for i := range unroll {
			if t.fetches && i < 2 {
				e.op("MOVLQSX", fmt.Sprintf("%d(R9)", 4*i), "R14")
				e.op("PREFETCHT0", "(R11)(R14*1)")
			}
			e.blockRankOne(t, i)
		}
		if t.fetches {
			e.op("ADDQ", 8, "R9")
		}
		e.blockAdvance(t, unroll)
	}, func() {
		e.blockRankOne(t, 0)
		e.blockAdvance(t, 1)
	})
}

// blockAdvance moves on by so many steps over k, 1 or 4.
func (e *emitter) blockAdvance(t blockTile, steps int) {
	e.op("LEAQ", fmt.Sprintf("(DI)(R12*%d)", steps), "DI")
	if t.transposed {
		e.op("LEAQ", fmt.Sprintf("(SI)(R8*%d)", steps), "SI")
		return
	}
	e.op("ADDQ", 4*steps, "SI")
	if t.rows > 8 {
		e.op("ADDQ", 4*steps, "R11")
	}
}

// blockRankOne adds column i of A, counted from where the pointers are, times row i of B to the tile.
func (e *emitter) blockRankOne(t blockTile, i int) {
	firstB := t.rows * t.vectors
	firstA := firstB + t.vectors
	for j := range t.vectors {
		e.op("VMOVUPS", fmt.Sprintf("%d(DI)%s", j*e.bytes(), []string{"", "(R12*1)", "(R12*2)", "(CX*1)"}[i]), e.v(firstB+j))
	}
	strides := []string{"", "(R8*1)", "(R8*2)", "(R10*1)", "(R8*4)", "(R15*1)", "(R10*2)", "(R14*1)"}
	for r := range t.rows {
		a := e.v(firstA + r%(e.regs-firstA))
		from := fmt.Sprintf("%d(%s)%s", 4*i, []string{"SI", "R11"}[r/8], strides[r%8])
		if t.transposed {
			from = fmt.Sprintf("%d(SI)%s", 4*r, strides[i])
		}
		e.op("VBROADCASTSS", from, a)
		for j := range t.vectors {
			e.op("VFMADD231PS", e.v(firstB+j), a, e.v(r*t.vectors+j))
		}
	}
}
