package main

import "fmt"

// packColumns writes the copy of matrices stored row by row into panels: see
// kernel.packFunc. It moves half vectors, of which every panel is a multiple.
//
//	SI, R8  row of the source and its stride    DI, R9  its place in the first panel, panel stride
//	R10     source                              R11, R13  place in the panel
func (e *emitter) packColumns() {
	half := "Y0"
	if !e.masks() {
		half = "X0"
	}
	e.begin("PackColumns", "dst []float32, panelStride int, src []float32, stride, k, panels, width int", "")
	for _, p := range [][2]string{{"dst_base", "DI"}, {"panelStride", "R9"}, {"src_base", "SI"}, {"stride", "R8"}, {"k", "AX"}, {"width", "BX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	for _, reg := range []string{"R8", "R9", "BX"} {
		e.op("SHLQ", 2, reg)
	}
	row, panel, piece := e.label("row"), e.label("panel"), e.label("piece")
	e.place(row)
	e.op("MOVQ", e.param("panels"), "CX")
	e.op("MOVQ", "SI", "R10")
	e.op("MOVQ", "DI", "R11")
	e.place(panel)
	e.op("MOVQ", "R11", "R13")
	e.op("LEAQ", "(R11)(BX*1)", "R12")
	e.place(piece)
	e.op("VMOVUPS", "(R10)", half)
	e.op("PREFETCHT0", "(R10)(R8*8)") // the same columns eight rows on
	e.op("VMOVUPS", half, "(R13)")
	e.op("ADDQ", e.bytes()/2, "R10")
	e.op("ADDQ", e.bytes()/2, "R13")
	e.op("CMPQ", "R13", "R12")
	e.op("JNE", piece)
	e.op("ADDQ", "R9", "R11")
	e.op("DECQ", "CX")
	e.op("JNZ", panel)
	e.op("ADDQ", "R8", "SI")
	e.op("ADDQ", "BX", "DI")
	e.op("DECQ", "AX")
	e.op("JNZ", row)
	e.end()
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
