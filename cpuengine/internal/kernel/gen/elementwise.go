package main

import "slices"

// each describes a function of elements: in and out are slice parameters of it. Scalars are
// float32 parameters, broadcast to registers that body must keep.
type each struct {
	name, params string
	in, out      []string
	scalars      []string
	body         bodyFunc
}

// bodyFunc writes the arithmetic of one vector. It gets the registers of in and of the
// scalars, and free ones from tmp, and returns the registers of out. It may overwrite in.
type bodyFunc func(e *emitter, in, scalar []string, tmp func(int) string) (out []string)

// pointers are the registers that hold the slices of a function.
var pointers = []string{"SI", "DI", "R8", "R9"}

// elementwise writes all functions of elements.
func (e *emitter) elementwise() {
	for _, f := range functions {
		e.each(f)
	}
}

// each writes one function of elements: whole vectors, then a masked one.
func (e *emitter) each(f each) {
	e.begin(f.name, f.params, "")
	used := slices.Clone(f.in)
	for _, o := range f.out {
		if !slices.Contains(used, o) {
			used = append(used, o)
		}
	}
	at := func(name string) string { return "(" + pointers[slices.Index(used, name)] + ")(CX*4)" }
	for i, s := range used {
		e.op("MOVQ", e.param(s+"_base"), pointers[i])
	}
	e.op("MOVQ", e.param(f.out[0]+"_len"), "AX")
	e.op("XORL", "CX", "CX")
	in := e.names(0, len(f.in))
	scalar := e.names(len(f.in), len(f.scalars))
	for i, s := range f.scalars {
		e.op("VBROADCASTSS", e.param(s), scalar[i])
	}
	tmp := func(i int) string { return e.v(len(f.in) + len(f.scalars) + i) }
	e.overVectors(func(masked bool) {
		for i, s := range f.in {
			e.load(at(s), in[i], masked, tailMask)
		}
		for i, r := range f.body(e, in, scalar, tmp) {
			e.store(r, at(f.out[i]), masked, tailMask)
		}
	})
	e.end()
}

// names returns n registers from first on.
func (e *emitter) names(first, n int) []string {
	r := make([]string, n)
	for i := range r {
		r[i] = e.v(first + i)
	}
	return r
}

// overVectors writes a loop over AX elements whose index is CX, and the masked rest.
func (e *emitter) overVectors(body func(masked bool)) {
	loop, tail, done := e.label("loop"), e.label("tail"), e.label("done")
	e.op("SUBQ", e.floats, "AX")
	e.op("JLT", tail)
	e.place(loop)
	body(false)
	e.op("ADDQ", e.floats, "CX")
	e.op("SUBQ", e.floats, "AX")
	e.op("JGE", loop)
	e.place(tail)
	e.op("ADDQ", e.floats, "AX")
	e.op("JZ", done)
	e.makeMask("AX")
	body(true)
	e.place(done)
}

// tailMask is the AVX2 register of the mask; tailMaskHigh that of elements 8 to 15.
const (
	tailMask     = 15
	tailMaskHigh = 14
)

// makeMask sets the mask of the first count elements (count is less than 16): K1, or the two
// mask registers of AVX2. Uses R12 and R13, and CX is kept.
func (e *emitter) makeMask(count string) {
	if e.masks() {
		e.op("MOVQ", "CX", "R12")
		e.op("MOVQ", count, "CX")
		e.op("MOVL", 1, "R13")
		e.op("SHLL", "CX", "R13")
		e.op("DECL", "R13")
		e.op("KMOVW", "R13", "K1")
		e.op("MOVQ", "R12", "CX")
		return
	}
	e.op("LEAQ", "·tailMask<>+64(SB)", "R12")
	e.op("MOVQ", count, "R13")
	e.op("SHLQ", 2, "R13")
	e.op("SUBQ", "R13", "R12")
	e.op("VMOVUPS", "(R12)", e.v(tailMask))
	e.op("VMOVUPS", "32(R12)", e.v(tailMaskHigh))
}

// load reads a vector; masked (by K1, or AVX2's register mask), elements outside the mask
// become +0 and their memory is not touched.
func (e *emitter) load(from, to string, masked bool, mask int) {
	switch {
	case !masked:
		e.op("VMOVUPS", from, to)
	case e.masks():
		e.op("VMOVUPS.Z", from, "K1", to)
	default:
		e.op("VMASKMOVPS", from, e.v(mask), to)
	}
}

// store writes a vector; masked, memory outside the mask is not touched.
func (e *emitter) store(from, to string, masked bool, mask int) {
	switch {
	case !masked:
		e.op("VMOVUPS", from, to)
	case e.masks():
		e.op("VMOVUPS", from, "K1", to)
	default:
		e.op("VMASKMOVPS", from, e.v(mask), to)
	}
}
