package main

import (
	"fmt"
	"strings"
)

// packColumns writes the copy of a panel of a matrix stored row by row: see
// kernel.packFunc. It has a loop for each width.
func (e *emitter) packColumns() {
	e.begin("PackColumns", "dst, src []float32, stride, k, width int", "")
	for _, p := range [][2]string{{"dst_base", "DI"}, {"src_base", "SI"}, {"stride", "R8"}, {"k", "AX"}, {"width", "BX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	e.op("SHLQ", 2, "R8")
	for vectors := 3; vectors >= 1; vectors-- {
		next, row := e.label("next"), e.label("row")
		if vectors > 1 {
			e.op("CMPQ", "BX", vectors*e.lanes)
			e.op("JNE", next)
		}
		e.place(row)
		for v := range vectors {
			at := fmt.Sprintf("%d(SI)", v*e.bytes())
			e.op("VMOVUPS", at, e.v(v))
			e.op("PREFETCHT0", at+"(R8*8)") // the same columns eight rows on
		}
		for v := range vectors {
			e.op("VMOVUPS", e.v(v), fmt.Sprintf("%d(DI)", v*e.bytes()))
		}
		e.op("ADDQ", "R8", "SI")
		e.op("ADDQ", vectors*e.bytes(), "DI")
		e.op("DECQ", "AX")
		e.op("JNZ", row)
		e.end()
		e.place(next)
	}
}

// packStrip writes the copy of a block of a transposed A: see kernel.packStripFunc. It takes
// four rows of the source at once, each cut into pieces of half a vector.
//
//	SI, R8   row of the source and its stride, R12 three of them    R10  piece of the source
//	DI, R9   its place in the first row block, and their stride     R11  place of the piece
func (e *emitter) packStrip() {
	e.begin("PackStrip", "dst []float32, blockStride int, src []float32, stride, k, blocks int", "")
	for _, p := range [][2]string{{"dst_base", "DI"}, {"blockStride", "R9"}, {"src_base", "SI"}, {"stride", "R8"}, {"k", "AX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	e.op("SHLQ", 2, "R8")
	e.op("SHLQ", 2, "R9")
	e.op("LEAQ", "(R8)(R8*2)", "R12")
	rest, done := e.label("rest"), e.label("done")
	e.op("SUBQ", 4, "AX")
	e.op("JLT", rest)
	e.packRowsOf(4)
	e.place(rest)
	e.op("ADDQ", 4, "AX")
	e.op("JZ", done)
	e.op("SUBQ", 1, "AX")
	e.packRowsOf(1)
	e.place(done)
	e.end()
}

// packRowsOf writes packStrip's loop over AX+rows rows, that many at a time.
func (e *emitter) packRowsOf(rows int) {
	half := strings.Replace(strings.Replace(e.reg, "Y", "X", 1), "Z", "Y", 1)
	indexes := []string{"", "(R8*1)", "(R8*2)", "(R12*1)"}[:rows]
	group, piece := e.label("group"), e.label("piece")
	e.place(group)
	e.op("MOVQ", e.param("blocks"), "CX")
	e.op("MOVQ", "SI", "R10")
	e.op("MOVQ", "DI", "R11")
	e.op("LEAQ", "(SI)(R8*8)", "R13") // what the group after the next will read
	e.place(piece)
	for i, index := range indexes {
		e.op("VMOVUPS", "(R10)"+index, fmt.Sprint(half, i))
		e.op("PREFETCHT0", "(R13)"+index)
	}
	for i := range indexes {
		e.op("VMOVUPS", fmt.Sprint(half, i), fmt.Sprintf("%d(R11)", i*e.bytes()/2))
	}
	e.op("ADDQ", e.bytes()/2, "R10")
	e.op("ADDQ", e.bytes()/2, "R13")
	e.op("ADDQ", "R9", "R11")
	e.op("DECQ", "CX")
	e.op("JNZ", piece)
	e.op("LEAQ", fmt.Sprintf("(SI)(R8*%d)", rows), "SI")
	e.op("ADDQ", rows*e.bytes()/2, "DI")
	e.op("SUBQ", rows, "AX")
	e.op("JGE", group)
}

// transpose writes the transposition of square blocks that lie side by side in lanes rows of
// the source, and below each other in lanes columns of the destination.
func (e *emitter) transpose() {
	e.begin("Transpose", "dst []float32, dstStride int, src []float32, srcStride, blocks int", "")
	for _, p := range [][2]string{{"dst_base", "DI"}, {"dstStride", "R9"}, {"src_base", "SI"}, {"srcStride", "R8"}, {"blocks", "AX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	e.op("SHLQ", 2, "R8")
	e.op("SHLQ", 2, "R9")
	block := e.label("block")
	e.place(block)
	e.op("MOVQ", "SI", "R10")
	for i := range e.lanes {
		e.op("VMOVUPS", "(R10)", e.v(i))
		e.op("ADDQ", "R8", "R10")
	}
	order := e.transpose8
	if e.masks() {
		order = e.transpose16
	}
	for _, reg := range order() {
		e.op("VMOVUPS", e.v(reg), "(DI)")
		e.op("ADDQ", "R9", "DI")
	}
	e.op("ADDQ", e.bytes(), "SI")
	e.op("DECQ", "AX")
	e.op("JNZ", block)
	e.end()
}

// pairs interleaves rows of registers [from, from+n) two by two, then pairs of them, into
// registers from to on and back: afterwards register from+4q+c holds, in 128-bit lane l, rows
// 4q to 4q+3 of column 4l+c.
func (e *emitter) pairs(from, n, to int) {
	for i := 0; i < n; i += 2 {
		e.op("VUNPCKLPS", e.v(from+i+1), e.v(from+i), e.v(to+i))
		e.op("VUNPCKHPS", e.v(from+i+1), e.v(from+i), e.v(to+i+1))
	}
	for i := 0; i < n; i += 4 {
		for c := range 2 {
			e.op("VUNPCKLPD", e.v(to+i+2+c), e.v(to+i+c), e.v(from+i+2*c))
			e.op("VUNPCKHPD", e.v(to+i+2+c), e.v(to+i+c), e.v(from+i+2*c+1))
		}
	}
}

// transpose8 transposes registers 0-7 and returns where the columns are.
func (e *emitter) transpose8() (columns []int) {
	e.pairs(0, 8, 8)
	for c := range 4 {
		e.op("VPERM2F128", 0x20, e.v(4+c), e.v(c), e.v(8+c))  // low lanes: column c
		e.op("VPERM2F128", 0x31, e.v(4+c), e.v(c), e.v(12+c)) // high lanes: column 4+c
	}
	return []int{8, 9, 10, 11, 12, 13, 14, 15}
}

// transpose16 transposes registers 0-15 and returns where the columns are.
func (e *emitter) transpose16() (columns []int) {
	const even, odd = 0x88, 0xdd // 128-bit lanes 0, 2 or 1, 3 of both sources
	e.pairs(0, 16, 16)
	for c := range 4 {
		e.op("VSHUFF32X4", even, e.v(4+c), e.v(c), e.v(16+c))
		e.op("VSHUFF32X4", odd, e.v(4+c), e.v(c), e.v(20+c))
		e.op("VSHUFF32X4", even, e.v(12+c), e.v(8+c), e.v(24+c))
		e.op("VSHUFF32X4", odd, e.v(12+c), e.v(8+c), e.v(28+c))
	}
	for c := range 4 {
		e.op("VSHUFF32X4", even, e.v(24+c), e.v(16+c), e.v(c))
		e.op("VSHUFF32X4", even, e.v(28+c), e.v(20+c), e.v(4+c))
		e.op("VSHUFF32X4", odd, e.v(24+c), e.v(16+c), e.v(8+c))
		e.op("VSHUFF32X4", odd, e.v(28+c), e.v(20+c), e.v(12+c))
	}
	for i := range 16 {
		columns = append(columns, i)
	}
	return columns
}

// tables writes the constants: tail masks and those of the exponential.
func (e *emitter) tables() {
	words := make([]uint32, 2*16)
	for i := range 16 {
		words[i] = 1<<32 - 1
	}
	e.table("tailMask", words)
	var all []uint32
	for _, c := range expConstants {
		for range 8 { // a whole AVX2 vector, to be a memory operand
			all = append(all, c.bits)
		}
	}
	e.table("expTable", all)
}

// table writes read-only words.
func (e *emitter) table(name string, words []uint32) {
	fmt.Fprintf(&e.asm, "\n")
	for i, w := range words {
		fmt.Fprintf(&e.asm, "DATA ·%s<>+%d(SB)/4, $0x%08x\n", name, 4*i, w)
	}
	fmt.Fprintf(&e.asm, "GLOBL ·%s<>(SB), RODATA|NOPTR, $%d\n", name, 4*len(words))
}
