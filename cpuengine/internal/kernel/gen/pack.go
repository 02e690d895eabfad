package main

import (
	"fmt"
	"strings"
)

// packAhead is how many bytes ahead of its stores packColumns takes lines of the packed panel: the
// other threads still have those of the panel before, and to take one back is a wait as long as for memory.
const packAhead = 3072

// fetchToWrite is PREFETCHW offset(DI), which Go's assembler does not know: it takes a line from all other caches.
// It is written for AVX-512 only, and every processor with that has it.
func (e *emitter) fetchToWrite(offset int) {
	if e.masks() {
		fmt.Fprintf(&e.asm, "\tBYTE $0x0F; BYTE $0x0D; BYTE $0x8F; LONG $%d\n", offset)
	}
}

// fetchRowToWrite is PREFETCHW (DI)(R9*8): the line eight rows on.
func (e *emitter) fetchRowToWrite() {
	if e.masks() {
		fmt.Fprint(&e.asm, "\tBYTE $0x42; BYTE $0x0F; BYTE $0x0D; BYTE $0x0C; BYTE $0xCF\n")
	}
}

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
			e.op("CMPQ", "BX", vectors*e.floats)
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
			e.fetchToWrite(v*e.bytes() + packAhead)
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

// transpose writes the transposition of square blocks, as large as a vector, that lie side by
// side in the source and below each other in the destination. Most of the work is in the
// loads: the 128-bit part b of a register takes four columns of row 4b+r, so that the
// shuffles, which only one port does, stay inside such parts.
//
//	SI, R11, R12, R13  rows 0, 4, 8, 12 of the source    R8, R10  1 and 3 of their strides
func (e *emitter) transpose() {
	e.begin("Transpose", "dst []float32, dstStride int, src []float32, srcStride, blocks int", "")
	for _, p := range [][2]string{{"dst_base", "DI"}, {"dstStride", "R9"}, {"src_base", "SI"}, {"srcStride", "R8"}, {"blocks", "AX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	e.op("SHLQ", 2, "R8")
	e.op("SHLQ", 2, "R9")
	e.op("LEAQ", "(R8)(R8*2)", "R10")
	bases := []string{"SI", "R11", "R12", "R13"}[:e.floats/4]
	for i := range bases[1:] {
		e.op("LEAQ", "("+bases[i]+")(R8*4)", bases[i+1])
	}
	block := e.label("block")
	e.place(block)
	for g := range e.floats / 4 {
		e.fourColumns(g, bases)
	}
	for _, base := range bases {
		e.op("ADDQ", e.bytes(), base)
	}
	e.op("DECQ", "AX")
	e.op("JNZ", block)
	e.end()
}

// fourColumns transposes columns 4g to 4g+3 of a block and stores them.
func (e *emitter) fourColumns(g int, bases []string) {
	insert := "VINSERTF128"
	if e.masks() {
		insert = "VINSERTF32X4"
	}
	in, mixed := 8*g, 8*g+4
	for r, index := range []string{"", "(R8*1)", "(R8*2)", "(R10*1)"} {
		e.op("VMOVUPS", fmt.Sprintf("%d(%s)%s", 16*g, bases[0], index), fmt.Sprint("X", in+r))
		for b := 1; b < len(bases); b++ {
			e.op(insert, b, fmt.Sprintf("%d(%s)%s", 16*g, bases[b], index), e.v(in+r), e.v(in+r))
		}
	}
	for c := range 2 { // columns 0, 1 of two rows interleaved, then columns 2, 3
		op := []string{"VUNPCKLPS", "VUNPCKHPS"}[c]
		e.op(op, e.v(in+1), e.v(in), e.v(mixed+c))
		e.op(op, e.v(in+3), e.v(in+2), e.v(mixed+2+c))
	}
	for c := range 4 {
		op := []string{"VUNPCKLPD", "VUNPCKHPD"}[c%2]
		e.op(op, e.v(mixed+2+c/2), e.v(mixed+c/2), e.v(in+c))
		e.op("VMOVUPS", e.v(in+c), "(DI)")
		e.fetchRowToWrite()
		e.op("ADDQ", "R9", "DI")
	}
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
	e.mixTable()
}

// table writes read-only words.
func (e *emitter) table(name string, words []uint32) {
	fmt.Fprintf(&e.asm, "\n")
	for i, w := range words {
		fmt.Fprintf(&e.asm, "DATA ·%s<>+%d(SB)/4, $0x%08x\n", name, 4*i, w)
	}
	fmt.Fprintf(&e.asm, "GLOBL ·%s<>(SB), RODATA|NOPTR, $%d\n", name, 4*len(words))
}
