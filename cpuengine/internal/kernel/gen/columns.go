package main

import (
	"fmt"
	"math"
)

// Kernels of a softmax over the columns of a block whose rows are blockVectors vectors long: scores with a key in a row
// and a query in a column. Nothing is added or compared across a vector, and no row has a tail. AVX-512 only.
const blockVectors = 4

// columns writes them.
func (e *emitter) columns() {
	e.maskColumns()
	e.largestColumns()
	e.expColumns()
	e.sumColumns()
	e.scaleColumns()
}

// inRow is the operand of vector v of a row that a register points to.
func (e *emitter) inRow(reg string, v int) string { return fmt.Sprintf("%d(%s)", v*e.bytes(), reg) }

// rowBytes is the length of a row.
func (e *emitter) rowBytes() int { return blockVectors * e.bytes() }

// moveRow loads or stores a row, vector by vector, from register first on.
func (e *emitter) moveRow(reg string, first int, store bool) {
	for v := range blockVectors {
		if store {
			e.op("VMOVUPS", e.v(first+v), e.inRow(reg, v))
		} else {
			e.op("VMOVUPS", e.inRow(reg, v), e.v(first+v))
		}
	}
}

// maskColumns writes kernel.columnFuncs.mask: DX has a bit for each column, set where it comes before the row.
func (e *emitter) maskColumns() {
	e.begin("MaskColumns", "x []float32", "")
	e.op("MOVQ", e.param("x_base"), "SI")
	e.op("MOVL", fmt.Sprintf("$0x%08x", math.Float32bits(float32(math.Inf(-1)))), "AX")
	e.op("VMOVD", "AX", "X0")
	e.op("VBROADCASTSS", "X0", e.v(0))
	e.op("MOVQ", blockVectors*e.floats-1, "CX")
	e.op("XORL", "DX", "DX")
	row := e.label("row")
	e.place(row)
	e.op("ADDQ", e.rowBytes(), "SI")
	e.op("LEAQ", "1(DX)(DX*1)", "DX")
	e.op("MOVQ", "DX", "AX")
	for v := range blockVectors {
		e.op("KMOVW", "AX", fmt.Sprint("K", 1+v))
		e.op("SHRQ", e.floats, "AX")
		e.op("VMOVUPS", e.v(0), fmt.Sprint("K", 1+v), e.inRow("SI", v))
	}
	e.op("DECQ", "CX")
	e.op("JNZ", row)
	e.end()
}

// largestColumns writes kernel.columnFuncs.largest. It takes two rows at once, for maxima that do not wait for each other.
func (e *emitter) largestColumns() {
	e.begin("LargestColumns", "x []float32, rows int, largest []float32", "")
	for _, p := range [][2]string{{"x_base", "SI"}, {"rows", "AX"}, {"largest_base", "DI"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	e.moveRow("DI", 0, false)
	e.moveRow("DI", blockVectors, false)
	loop := e.label("loop")
	e.place(loop)
	for r := range 2 {
		e.moveRow("SI", (2+r)*blockVectors, false)
		for v := range blockVectors {
			acc := e.v(r*blockVectors + v)
			e.op("VMAXPS", acc, e.v((2+r)*blockVectors+v), acc) // ignores a NaN in x
		}
		e.op("ADDQ", e.rowBytes(), "SI")
	}
	e.op("SUBQ", 2, "AX")
	e.op("JNZ", loop)
	e.zero(2 * blockVectors)
	for v := range blockVectors {
		e.op("VMAXPS", e.v(blockVectors+v), e.v(v), e.v(v))
		e.op("VADDPS", e.v(2*blockVectors), e.v(v), e.v(v)) // -0 becomes +0
	}
	e.moveRow("DI", 0, true)
	e.end()
}

// expColumns writes kernel.columnFuncs.exp. Registers besides those of the constants and the lanes of expBelow: 13, 14,
// 15 and 29 hold the maxima.
//
//	SI, DI  row of the block, of the partial sums    R8  the first of these    AX, CX  groups left, rows left of one
func (e *emitter) expColumns() {
	bias := []string{e.v(13), e.v(14), e.v(15), e.v(29)}
	e.begin("ExpColumns", "x []float32, rows int, largest, partial []float32", "")
	for _, p := range [][2]string{{"x_base", "SI"}, {"rows", "AX"}, {"largest_base", "DI"}, {"partial_base", "R8"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	for v := range blockVectors {
		e.op("VMOVUPS", e.inRow("DI", v), bias[v])
	}
	e.loadExpConstants()
	group, row := e.label("group"), e.label("row")
	e.place(group)
	e.op("MOVQ", "R8", "DI")
	e.op("MOVQ", partials, "CX")
	e.place(row)
	lanes := e.expLanes(blockVectors)
	for v, l := range lanes {
		e.op("VMOVUPS", e.inRow("SI", v), l.x)
	}
	for v, l := range lanes {
		e.op("VSUBPS", bias[v], l.x, l.x)
	}
	e.expBelow(lanes)
	for v, l := range lanes {
		e.op("VMOVUPS", l.p, e.inRow("SI", v))
		e.op("VADDPS", e.inRow("DI", v), l.p, l.p)
		e.op("VMOVUPS", l.p, e.inRow("DI", v))
	}
	e.op("ADDQ", e.rowBytes(), "SI")
	e.op("ADDQ", e.rowBytes(), "DI")
	e.op("DECQ", "CX")
	e.op("JNZ", row)
	e.op("SUBQ", partials, "AX")
	e.op("JNZ", group)
	e.end()
}

// sumColumns writes kernel.columnFuncs.sum.
func (e *emitter) sumColumns() {
	e.begin("SumColumns", "partial, sum []float32", "")
	e.op("MOVQ", e.param("partial_base"), "SI")
	e.op("MOVQ", e.param("sum_base"), "DI")
	for v := range blockVectors {
		for i := range partials {
			e.op("VMOVUPS", fmt.Sprintf("%d(SI)", i*e.rowBytes()+v*e.bytes()), e.v(i))
		}
		for half := partials / 2; half > 0; half /= 2 {
			for i := range half {
				e.op("VADDPS", e.v(i+half), e.v(i), e.v(i))
			}
		}
		e.op("VMOVUPS", e.v(0), e.inRow("DI", v))
	}
	e.end()
}

// scaleColumns writes kernel.columnFuncs.scale.
func (e *emitter) scaleColumns() {
	e.begin("ScaleColumns", "x []float32, rows int, factors []float32", "")
	for _, p := range [][2]string{{"x_base", "SI"}, {"rows", "AX"}, {"factors_base", "DI"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	e.moveRow("DI", 0, false)
	row := e.label("row")
	e.place(row)
	for v := range blockVectors {
		e.op("VMULPS", e.inRow("SI", v), e.v(v), e.v(blockVectors+v))
	}
	e.moveRow("SI", blockVectors, true)
	e.op("ADDQ", e.rowBytes(), "SI")
	e.op("DECQ", "AX")
	e.op("JNZ", row)
	e.end()
}
