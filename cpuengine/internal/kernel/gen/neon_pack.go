package main

// packColumns writes the copy of a panel of a matrix stored row by row: see
// kernel.packFunc. It has a loop for each width.
func (e neon) packColumns() {
	e.begin("PackColumns", "dst, src []float32, stride, k, width int", "")
	e.parameters("dst_base", "R0", "src_base", "R1", "stride", "R2", "k", "R3", "width", "R4")
	e.toBytes("R2")
	for vectors := 3; vectors >= 1; vectors-- {
		next, row := e.label("next"), e.label("row")
		if vectors > 1 {
			e.op("CMP", vectors*neonFloats, "R4")
			e.op("BNE", next)
		}
		e.place(row)
		e.load("R1", 0, 0, vectors)
		e.op("ADD", "R2", "R1")
		e.store("R0", 0, 0, vectors)
		e.op("ADD", vectors*neonBytes, "R0")
		e.op("SUBS", 1, "R3", "R3")
		e.op("BNE", row)
		e.end()
		e.place(next)
	}
}

// packStrip writes the copy of a block of a transposed A: see kernel.packStripFunc. A row of
// the source is cut into pieces of as many floats as the tile has rows.
func (e neon) packStrip() {
	e.begin("PackStrip", "dst []float32, blockStride int, src []float32, stride, k, blocks int", "")
	e.parameters("dst_base", "R0", "blockStride", "R1", "src_base", "R2", "stride", "R3", "k", "R4", "blocks", "R5")
	e.toBytes("R1", "R3")
	row, piece := e.label("row"), e.label("piece")
	e.place(row)
	e.op("MOVD", "R0", "R6")
	e.op("MOVD", "R2", "R7")
	e.op("MOVD", "R5", "R8")
	e.place(piece)
	e.load("R7", 0, 0, neonRows/neonFloats)
	e.op("ADD", 4*neonRows, "R7")
	e.store("R6", 0, 0, neonRows/neonFloats)
	e.op("ADD", "R1", "R6")
	e.op("SUBS", 1, "R8", "R8")
	e.op("BNE", piece)
	e.op("ADD", 4*neonRows, "R0")
	e.op("ADD", "R3", "R2")
	e.op("SUBS", 1, "R4", "R4")
	e.op("BNE", row)
	e.end()
}

// transpose writes the transposition of blocks of 4 x 4 that lie side by side in the source
// and below each other in the destination: see kernel.transposeFunc.
func (e neon) transpose() {
	e.begin("Transpose", "dst []float32, dstStride int, src []float32, srcStride, blocks int", "")
	e.parameters("dst_base", "R0", "dstStride", "R1", "src_base", "R2", "srcStride", "R3", "blocks", "R4")
	e.toBytes("R1", "R3")
	rows := []string{"R2", "R5", "R6", "R7"}
	for r := range rows[1:] {
		e.op("ADD", "R3", rows[r], rows[r+1])
	}
	block := e.label("block")
	e.place(block)
	for r, row := range rows {
		e.op("FMOVQ.P", at(row, neonBytes), freg(r))
	}
	for pair := range 2 { // columns 0, 2 and 1, 3 of rows 0, 1, then of rows 2, 3
		a, b := vreg(2*pair, "S4"), vreg(2*pair+1, "S4")
		e.op("VTRN1", b, a, vreg(4+2*pair, "S4"))
		e.op("VTRN2", b, a, vreg(5+2*pair, "S4"))
	}
	for c := range 4 {
		trn := []string{"VTRN1", "VTRN2"}[c/2]
		e.op(trn, vreg(6+c%2, "D2"), vreg(4+c%2, "D2"), vreg(c, "D2"))
		e.op("FMOVQ", freg(c), at("R0", 0))
		e.op("ADD", "R1", "R0")
	}
	e.op("SUBS", 1, "R4", "R4")
	e.op("BNE", block)
	e.end()
}
