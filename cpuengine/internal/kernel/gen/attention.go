package main

// Kernels of attention: the softmax of all rows of a tile in one call. A row has a head and
// a tail of its own, which a call for each would pay as often as the arithmetic.

// tileRows describes the loop over the rows of a tile that all of them share.
//
//	SI, DI    row of the first and the second matrix    R8   their stride
//	R10, R11  the row's elements of the vectors         BX   columns that it sees
//	AX, CX    columns left, index of the next           DX   columns, rounded up to 16
type tileRows struct {
	name, params  string
	first, second string    // matrices; second may be empty
	vectors       [2]string // one element a row; the second may be empty
	body          func(e *emitter)
	rest          bool // body leaves what the row does not see to be zeroed
}

// Vector registers of the softmax kernels, besides those of the constants (loadExpConstants):
//
//	           AVX-512   AVX2
//	0 on       1         2       partial results (halves), and 0 for zeroRest
//	then       4 of 3    2 of 5  what exponentials needs for each of rowLanes vectors (expLanes)
//	delta      14        12      what softmaxBackwardTile takes from the row's gradients
//	expBias    13        13      what is taken from the arguments of the exponential: the row's maximum
//	masks      K1        14, 15  of the row's last vectors (makeMask)
const (
	expBias   = 13
	delta512  = 14 // 1 to 12 are those of four vectors
	deltaAVX2 = 12 // 2 to 11 are those of two vectors
)

// delta is the register of the row's delta.
func (e *emitter) delta() string {
	if e.masks() {
		return e.v(delta512)
	}
	return e.v(deltaAVX2)
}

func (e *emitter) tileRows(t tileRows) {
	e.begin(t.name, t.params, "")
	e.op("MOVQ", e.param(t.first+"_base"), "SI")
	if t.second != "" {
		e.op("MOVQ", e.param(t.second+"_base"), "DI")
	}
	for i, v := range t.vectors {
		if v != "" {
			e.op("MOVQ", e.param(v+"_base"), []string{"R10", "R11"}[i])
		}
	}
	for _, p := range [][2]string{{"stride", "R8"}, {"visible", "BX"}, {"cols", "DX"}} {
		e.op("MOVQ", e.param(p[0]), p[1])
	}
	e.op("SHLQ", 2, "R8")
	e.op("ADDQ", partials-1, "DX")
	e.op("ANDQ", -partials, "DX")
	if t.rest {
		e.loadExpConstants()
	}
	row := e.label("row")
	e.place(row)
	t.body(e)
	if t.rest {
		e.zeroRest(t.second != "")
	}
	e.op("ADDQ", "R8", "SI")
	if t.second != "" {
		e.op("ADDQ", "R8", "DI")
	}
	e.op("ADDQ", 4, "R10")
	if t.vectors[1] != "" {
		e.op("ADDQ", 4, "R11")
	}
	e.op("INCQ", "BX")
	e.op("DECQ", e.param("rows"))
	e.op("JNZ", row)
	e.end()
}

// startRow sets AX to the columns that the row sees, CX to 0.
func (e *emitter) startRow() {
	e.op("MOVQ", e.param("cols"), "AX")
	e.op("CMPQ", "BX", "AX")
	e.op("CMOVQLT", "BX", "AX")
	e.op("XORL", "CX", "CX")
}

// zeroRest zeroes the columns from index CX on, a multiple of 16.
func (e *emitter) zeroRest(second bool) {
	loop, done := e.label("rest"), e.label("rested")
	e.op("CMPQ", "CX", "DX")
	e.op("JGE", done)
	e.zero(0)
	e.place(loop)
	for h := range e.halves() {
		e.op("VMOVUPS", e.v(0), e.element("SI", h))
		if second {
			e.op("VMOVUPS", e.v(0), e.element("DI", h))
		}
	}
	e.op("ADDQ", partials, "CX")
	e.op("CMPQ", "CX", "DX")
	e.op("JLT", loop)
	e.place(done)
}

// largestTile writes kernel.largestTileFunc. With the exponentials in the same loop, those of
// a row would wait for its maximum.
func (e *emitter) largestTile() {
	e.tileRows(tileRows{
		name: "LargestTile", params: "x []float32, stride, rows, cols, visible int, largest []float32",
		first: "x", vectors: [2]string{"largest"}, body: (*emitter).largestOfRow,
	})
}

// softmaxTile writes kernel.softmaxTileFunc.
func (e *emitter) softmaxTile() {
	e.tileRows(tileRows{
		name: "SoftmaxTile", params: "x []float32, stride, rows, cols, visible int, largest, sum []float32",
		first: "x", vectors: [2]string{"largest", "sum"}, rest: true,
		body: func(e *emitter) {
			e.op("VBROADCASTSS", "(R10)", e.v(expBias))
			for h := range e.halves() {
				e.zero(h)
			}
			e.overRow(func(i int, l expLane, masked bool) {
				e.op("VADDPS", l.p, e.v(i%e.halves()), e.v(i%e.halves()))
			})
			e.tree("VADDPS")
			e.op("VMOVSS", "X0", "(R11)")
		},
	})
}

// softmaxBackwardTile writes kernel.softmaxBackwardTileFunc.
func (e *emitter) softmaxBackwardTile() {
	e.tileRows(tileRows{
		name: "SoftmaxBackwardTile", params: "x, d []float32, stride, rows, cols, visible int, largest, delta []float32",
		first: "x", second: "d", vectors: [2]string{"largest", "delta"}, rest: true,
		body: func(e *emitter) {
			delta := e.delta()
			e.op("VBROADCASTSS", "(R10)", e.v(expBias))
			e.op("VBROADCASTSS", "(R11)", delta)
			e.overRow(func(i int, l expLane, masked bool) {
				d, half := l.n, i%e.halves()
				e.load(e.element("DI", i), d, masked, halfMask(half))
				e.op("VSUBPS", delta, d, d)
				e.op("VMULPS", d, l.p, d)
				e.maskTo(d, half, masked)
				e.op("VMOVUPS", d, e.element("DI", i))
			})
		},
	})
}

// rowLanes is how many vectors overRow takes at once.
func (e *emitter) rowLanes() int {
	if e.masks() {
		return 4
	}
	return 2
}

// overRow turns what the row sees into exponentials, +0 from there to a multiple of 16, and
// leaves CX at that. What follows each vector is then written by then.
//
// AX is how many columns are left, less what the loop that is entered takes at once: so the subtraction that
// counts down is also the test. From label to label it is put right:
//
//	many  columns left - at, at least 0: at of them are there, the width of rowLanes vectors
//	few   columns left - at, below 0: adding at - 16 makes it what one wants
//	one   columns left - 16, at least 0: groups of 16, for which rowLanes is too much (AVX-512 alone: AVX2
//	      takes 16 at once in many)
//	tail  columns left - 16, below 0: adding 16 makes it the columns left, 0 to 15, which is what the mask is made of
func (e *emitter) overRow(then func(i int, l expLane, masked bool)) {
	many, few, one, tail, done := e.label("many"), e.label("few"), e.label("one"), e.label("tail"), e.label("done")
	n := e.rowLanes()
	at := n * e.floats
	e.startRow()
	e.op("SUBQ", at, "AX")
	e.op("JLT", few)
	e.place(many)
	e.exponentials(n, false, then)
	e.op("ADDQ", at, "CX")
	e.op("SUBQ", at, "AX")
	e.op("JGE", many)
	e.place(few)
	e.op("ADDQ", at-partials, "AX")
	e.op("JLT", tail)
	if at > partials {
		e.place(one)
		e.exponentials(e.halves(), false, then)
		e.op("ADDQ", partials, "CX")
		e.op("SUBQ", partials, "AX")
		e.op("JGE", one)
	}
	e.place(tail)
	e.op("ADDQ", partials, "AX")
	e.op("JZ", done)
	e.makeMask("AX")
	e.exponentials(e.halves(), true, then)
	e.op("ADDQ", partials, "CX")
	e.place(done)
}

// exponentials writes those of n vectors from index CX on, and then what follows.
func (e *emitter) exponentials(n int, masked bool, then func(i int, l expLane, masked bool)) {
	lanes := e.expLanes(n)
	for i, l := range lanes {
		e.load(e.element("SI", i), l.x, masked, halfMask(i%e.halves()))
	}
	for _, l := range lanes {
		e.op("VSUBPS", e.v(expBias), l.x, l.x)
	}
	e.expBelow(lanes)
	for i, l := range lanes {
		e.maskTo(l.p, i%e.halves(), masked)
		e.op("VMOVUPS", l.p, e.element("SI", i))
	}
	for i, l := range lanes {
		then(i, l, masked)
	}
}

// maskTo zeroes a register outside the mask of a masked vector.
func (e *emitter) maskTo(reg string, half int, masked bool) {
	switch {
	case !masked:
	case e.masks():
		e.op("VMOVAPS.Z", reg, "K1", reg)
	default:
		e.op("VANDPS", e.v(halfMask(half)), reg, reg)
	}
}

// largestOfRow sets (R10) to the larger of it and the row's largest element. It keeps four accumulators: one would
// make every maximum wait for that before. AX counts as in overRow, with four groups of 16 at once.
func (e *emitter) largestOfRow() {
	const sets = 4
	halves := e.halves()
	acc := func(set, half int) string { return e.v(set*halves + half) }
	x := e.v(sets * halves)
	many, few, one, tail, done := e.label("max"), e.label("fewer"), e.label("single"), e.label("part"), e.label("largest")
	larger := func(set int) {
		for h := range halves {
			e.op("VMOVUPS", e.element("SI", set*halves+h), x)
			e.op("VMAXPS", acc(set, h), x, acc(set, h)) // ignores a NaN in x
		}
	}
	e.startRow()
	for s := range sets {
		for h := range halves {
			e.op("VBROADCASTSS", "(R10)", acc(s, h))
		}
	}
	e.op("SUBQ", sets*partials, "AX")
	e.op("JLT", few)
	e.place(many)
	for s := range sets {
		larger(s)
	}
	e.op("ADDQ", sets*partials, "CX")
	e.op("SUBQ", sets*partials, "AX")
	e.op("JGE", many)
	e.place(few)
	e.op("ADDQ", (sets-1)*partials, "AX")
	e.op("JLT", tail)
	e.place(one)
	larger(0)
	e.op("ADDQ", partials, "CX")
	e.op("SUBQ", partials, "AX")
	e.op("JGE", one)
	e.place(tail)
	e.op("ADDQ", partials, "AX")
	e.op("JZ", done)
	e.makeMask("AX")
	for h := range halves {
		e.load(e.element("SI", h), x, true, halfMask(h))
		if e.masks() {
			e.op("VMAXPS", acc(1, h), x, "K1", acc(1, h))
		} else {
			e.op("VBLENDVPS", e.v(halfMask(h)), x, acc(1, h), x)
			e.op("VMAXPS", acc(1, h), x, acc(1, h))
		}
	}
	e.place(done)
	for _, pair := range [][2]int{{0, 1}, {2, 3}, {0, 2}} {
		for h := range halves {
			e.op("VMAXPS", acc(pair[1], h), acc(pair[0], h), acc(pair[0], h))
		}
	}
	e.tree("VMAXPS")
	e.op("VXORPS", "X1", "X1", "X1")
	e.op("VADDSS", "X1", "X0", "X0") // -0 becomes +0, whichever of them was found
	e.op("VMOVSS", "X0", "(R10)")
}

// scaleRows writes kernel.scaleRowsFunc.
//
//	SI, R8  row of the source, its stride    DI, R9  the same of the destination    R10  its factor
func (e *emitter) scaleRows() {
	e.begin("ScaleRows", "dst []float32, dstStride int, src []float32, srcStride, rows, cols int, factors []float32", "")
	e.startRows([][2]string{{"dst_base", "DI"}, {"dstStride", "R9"}, {"src_base", "SI"}, {"srcStride", "R8"}, {"factors_base", "R10"}})
	row := e.label("row")
	e.place(row)
	e.op("VBROADCASTSS", "(R10)", e.v(0))
	e.op("MOVQ", e.param("cols"), "AX")
	e.op("XORL", "CX", "CX")
	e.overVectors(func(masked bool) {
		e.load("(SI)(CX*4)", e.v(1), masked, tailMask)
		e.op("VMULPS", e.v(0), e.v(1), e.v(1))
		e.store(e.v(1), "(DI)(CX*4)", masked, tailMask)
	})
	e.nextRow(row)
}

// dotRows writes kernel.dotRowsFunc, with the same registers and R10 at the row's result.
func (e *emitter) dotRows() {
	e.begin("DotRows", "dst, x []float32, xStride int, y []float32, yStride, rows, cols int", "")
	e.startRows([][2]string{{"x_base", "SI"}, {"xStride", "R8"}, {"y_base", "DI"}, {"yStride", "R9"}, {"dst_base", "R10"}})
	row := e.label("row")
	e.place(row)
	e.op("MOVQ", e.param("cols"), "AX")
	e.op("XORL", "CX", "CX")
	for h := range e.halves() {
		e.zero(h)
	}
	e.overPartials(e.dotVector)
	e.tree("VADDPS")
	e.op("VMOVSS", "X0", "(R10)")
	e.nextRow(row)
}

// copyRows writes kernel.copyRowsFunc, with the registers of scaleRows.
func (e *emitter) copyRows() {
	e.begin("CopyRows", "dst []float32, dstStride int, src []float32, srcStride, rows, cols int", "")
	e.startRows([][2]string{{"dst_base", "DI"}, {"dstStride", "R9"}, {"src_base", "SI"}, {"srcStride", "R8"}})
	row := e.label("row")
	e.place(row)
	e.op("MOVQ", e.param("cols"), "AX")
	e.op("XORL", "CX", "CX")
	e.overVectors(func(masked bool) {
		e.load("(SI)(CX*4)", e.v(1), masked, tailMask)
		e.store(e.v(1), "(DI)(CX*4)", masked, tailMask)
	})
	e.nextRow(row)
}

// startRows loads registers from parameters, makes bytes of the strides in R8 and R9, and counts the rows in R11.
func (e *emitter) startRows(registers [][2]string) {
	for _, r := range append(registers, [2]string{"rows", "R11"}) {
		e.op("MOVQ", e.param(r[0]), r[1])
	}
	e.op("SHLQ", 2, "R8")
	e.op("SHLQ", 2, "R9")
}

// nextRow goes back to the label for the next row, or returns after the last.
func (e *emitter) nextRow(row string) {
	e.op("ADDQ", "R8", "SI")
	e.op("ADDQ", "R9", "DI")
	e.op("ADDQ", 4, "R10")
	e.op("DECQ", "R11")
	e.op("JNZ", row)
	e.end()
}
