package main

import (
	"fmt"
	"math/bits"
)

// leanSteps is how many steps over k the loop of a lean micro-kernel does at once: those of a cache line of A.
const leanSteps = 16

// leanTile is a micro-kernel for panels of three vectors as it is written: for blocks of A that are packed or lie in rows, and for
// fetching what comes later or not.
type leanTile struct {
	name            string
	packed, fetches bool
}

var leanTiles = []leanTile{{"Rows3", false, false}, {"Rows3Fetch", false, true}, {"Packed3", true, true}}

// lean writes a micro-kernel: see kernel.leanFunc. It takes fewer instructions than panel would with as much to fetch, 41 for 24
// multiply-adds, since no pointer to A moves within the loop and nearly nothing is fetched twice: where another thread of the core
// wants every second group of instructions, that is what counts.
//
//	SI, R11   rows 0-3 and 4-7 of A, R8, R10 1 and 3 row strides; packed: SI alone    R13  block of A
//	R14, R15  rows 0-3 and 4-7 of the next block of A
//	DI, R12   row of B, its stride    DX  block of C, BX its stride    CX  a row of C to fetch, a piece for later    R9  shift of pieces
func (e *emitter) lean(t leanTile) {
	const vectors = 3
	e.begin(t.name, "blocks, k int, a []float32, aStride int, b []float32, bStride int, c []float32, cStride int, add bool, later []float32, laterStride, laterStep, laterShift int", "")
	for _, p := range [][2]string{{"a_base", "R13"}, {"aStride", "R8"}, {"bStride", "R12"}, {"c_base", "DX"}, {"cStride", "BX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	for _, reg := range []string{"R8", "R12", "BX"} {
		e.op("SHLQ", 2, reg)
	}
	if !t.packed {
		e.op("LEAQ", "(R8)(R8*2)", "R10")
	}
	if t.fetches {
		e.op("SHLQ", 2, e.param("laterStride"))
		e.op("SHLQ", 2, e.param("laterStep"))
		e.op("MOVQ", e.param("laterShift"), "R9")
	}
	block := e.label("block")
	e.place(block)
	e.startTile(vectors)
	e.op("MOVQ", "AX", e.param("c_base")) // not needed otherwise any more: for findRow
	e.op("MOVQ", "R13", "SI")
	if !t.packed {
		e.op("LEAQ", "(R13)(R8*4)", "R11")
		e.op("LEAQ", "(R13)(R8*8)", "R14")
		e.op("LEAQ", "(R11)(R8*8)", "R15")
		e.op("MOVQ", "R14", "R13")
	}
	e.op("MOVQ", e.param("b_base"), "DI")
	e.op("MOVQ", e.param("k"), "AX")
	e.leanOverK(t, vectors)
	if t.packed {
		e.op("MOVQ", "SI", "R13")
	}
	e.op("MOVQ", "DX", "AX")
	e.tile(vectors, "VMOVUPS", true)
	e.op("MOVQ", "AX", "DX") // tile left it one past the last row
	if t.fetches {
		e.op("MOVQ", e.param("laterStep"), "AX")
		e.op("ADDQ", "AX", e.param("later_base"))
	}
	e.op("DECQ", e.param("blocks"))
	e.op("JNZ", block)
	e.end()
}

// leanOverK writes the loops over k.
func (e *emitter) leanOverK(t leanTile, vectors int) {
	e.overK(leanSteps, func() {
		e.findRow()
		for i := range leanSteps {
			e.leanFetch(t, i, vectors)
			e.leanRankOne(t, i, vectors)
		}
		e.leanAdvance(t, leanSteps)
	}, func() {
		e.leanRankOne(t, 0, vectors)
		e.leanAdvance(t, 1)
	})
}

// leanFetch writes what step i of the loop fetches: lines of C, then twice of what comes later, and of the next rows of A. What will be packed
// goes to the L1 cache, which was no slower than L2; of the next panel of B it would keep little.
func (e *emitter) leanFetch(t leanTile, i, vectors int) {
	if i < vectors {
		e.op("PREFETCHT0", fmt.Sprintf("%d(CX)", i*e.bytes()))
	}
	if half := i % 8; t.fetches && half == 3 {
		e.findLater(8 - i/8*8)
	} else if t.fetches && half > 3 {
		hint := map[bool]string{true: "PREFETCHT0", false: "PREFETCHT1"}[t.packed]
		e.op(hint, fmt.Sprintf("%d(CX)", (half-4)*e.bytes()))
	}
	switch {
	case t.packed && i%2 == 0:
		e.op("PREFETCHT0", fmt.Sprintf("%d(SI)", 4*e.rows*(8+i)))
	case !t.packed && i%2 == 0:
		r := i / 2
		e.op("PREFETCHT0", "("+[]string{"R14", "R15"}[r/4]+")"+[]string{"", "(R8*1)", "(R8*2)", "(R10*1)"}[r%4])
	}
}

// findRow sets CX to the row of C that this round of the loop over k fetches: each another, 192 cycles apart, in which a few lines come
// from L3; all at once would hold up those of A and B. After eight rounds it begins again with the first.
func (e *emitter) findRow() {
	e.op("MOVQ", "AX", "CX")
	e.op("SHRQ", bits.Len(leanSteps-1), "CX")
	e.op("ANDQ", e.rows-1, "CX")
	e.op("IMULQ", "BX", "CX")
	e.op("ADDQ", e.param("c_base"), "CX")
}

// leanAdvance moves on in A by so many steps over k.
func (e *emitter) leanAdvance(t leanTile, steps int) {
	if t.packed {
		e.op("ADDQ", 4*e.rows*steps, "SI")
		return
	}
	for _, reg := range []string{"SI", "R11", "R14", "R15"} {
		e.op("ADDQ", 4*steps, reg)
	}
}

// findLater sets CX to the piece for later of the step over k after which so many of this round are left.
func (e *emitter) findLater(left int) {
	e.op("LEAQ", fmt.Sprintf("%d(AX)", left), "CX")
	e.op("SHRXQ", "R9", "CX", "CX")
	e.op("IMULQ", e.param("laterStride"), "CX")
	e.op("ADDQ", e.param("later_base"), "CX")
}

// leanRankOne adds column i of A, counted from where its pointers are, times the row of B to the tile, and moves on in B.
func (e *emitter) leanRankOne(t leanTile, i, vectors int) {
	firstB := e.rows * vectors
	firstA := firstB + vectors
	for j := range vectors {
		e.op("VMOVUPS", fmt.Sprintf("%d(DI)", j*e.bytes()), e.v(firstB+j))
	}
	for r := range e.rows {
		a := e.v(firstA + r%(e.regs-firstA))
		from := fmt.Sprintf("%d(SI)", 4*(i*e.rows+r))
		if !t.packed {
			from = fmt.Sprintf("%d(%s)%s", 4*i, []string{"SI", "R11"}[r/4], []string{"", "(R8*1)", "(R8*2)", "(R10*1)"}[r%4])
		}
		e.op("VBROADCASTSS", from, a)
		for j := range vectors {
			e.op("VFMADD231PS", e.v(firstB+j), a, e.v(r*vectors+j))
		}
		if r < vectors {
			e.op("PREFETCHT0", fmt.Sprintf("%d(DI)(R12*8)", r*e.bytes())) // eight rows on
		}
	}
	e.op("ADDQ", "R12", "DI")
}
