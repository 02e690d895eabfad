package main

import (
	"fmt"
	"slices"
	"strings"
)

// neonBody writes the arithmetic of one vector, as bodyFunc does for amd64: in and scalar are
// the first registers of the inputs and the scalars, tmp that of free ones. It returns the
// registers of the outputs.
type neonBody func(e neon, in, scalar, tmp int) (out []int)

// neonBodies belong to functions, by name.
var neonBodies = map[string]neonBody{
	"Scale": func(e neon, in, scalar, tmp int) []int {
		e.vector("FMUL", in, in, scalar)
		return []int{in}
	},
	"Add": func(e neon, in, scalar, tmp int) []int {
		e.vector("FADD", in, in, in+1)
		return []int{in}
	},
	"SoftmaxBackward": func(e neon, in, scalar, tmp int) []int {
		e.vector("FSUB", in, in, scalar)
		e.vector("FMUL", in, in+1, in)
		return []int{in}
	},
	"NormBackward": neon.normBackward,
	"NormBackwardAdd": func(e neon, in, scalar, tmp int) []int {
		e.normBackward(in, scalar, tmp)
		e.vector("FADD", in, in+2, in)
		return []int{in}
	},
	"Relu": func(e neon, in, scalar, tmp int) []int {
		e.clip(in, tmp)
		return []int{in}
	},
	"ReluBackward": func(e neon, in, scalar, tmp int) []int {
		e.positive(tmp, in+1)
		e.vector("AND", in, in, tmp)
		return []int{in}
	},
	"Relu2": func(e neon, in, scalar, tmp int) []int {
		e.clip(in, tmp)
		e.vector("FMUL", in, in, in)
		return []int{in}
	},
	"Relu2Backward": func(e neon, in, scalar, tmp int) []int {
		e.clip(in+1, tmp)
		e.vector("FADD", in+1, in+1, in+1)
		e.vector("FMUL", in, in, in+1)
		return []int{in}
	},
	"AdamW": neon.adamW,
}

func (e neon) normBackward(in, scalar, tmp int) []int {
	inv, c := scalar, scalar+1
	e.vector("FMUL", in+1, in+1, c)
	e.vector("FSUB", in, in, in+1)
	e.vector("FMUL", in, inv, in)
	return []int{in}
}

// clip sets x = 0 > x ? 0 : x, so that NaN and -0 pass.
func (e neon) clip(x, tmp int) {
	e.negative(tmp, x)
	e.vector("BIC", x, x, tmp)
}

func (e neon) adamW(in, scalar, tmp int) []int {
	w, m, v, g, t := in, in+1, in+2, in+3, tmp
	h := func(field string) int { return scalar + slices.Index(adamWFields, field) }
	e.vector("FMUL", g, g, h("Scale"))
	e.vector("FMUL", m, m, h("Beta1"))
	e.vector("FMUL", t, g, h("OneMinusBeta1"))
	e.vector("FADD", m, m, t)
	e.vector("FMUL", g, g, g)
	e.vector("FMUL", g, g, h("OneMinusBeta2"))
	e.vector("FMUL", v, v, h("Beta2"))
	e.vector("FADD", v, v, g)
	e.vector("FDIV", t, v, h("Correction2"))
	e.sqrt(t, t)
	e.vector("FADD", t, t, h("Eps"))
	e.vector("FDIV", g, m, h("Correction1"))
	e.vector("FDIV", g, g, t)
	e.vector("FMUL", t, w, h("Decay"))
	e.vector("FADD", g, g, t)
	e.vector("FMUL", g, g, h("LR"))
	e.vector("FSUB", w, w, g)
	return []int{w, m, v}
}

// scalarsOf returns the parameters that a function broadcasts, a struct's fields among them.
func scalarsOf(f each) []string {
	if !strings.HasSuffix(f.params, " AdamW") {
		return f.scalars
	}
	var fields []string
	for _, name := range adamWFields {
		fields = append(fields, "h_"+name)
	}
	return fields
}

// neonPointers are the registers that hold the slices of a function. What its loops read and
// write at the moment is at an offset from them.
var neonPointers = []string{"R0", "R1", "R2", "R3"}

// each writes one function of elements: four vectors at a time, then single ones, then what
// is left.
func (e neon) each(f each) {
	body, ok := neonBodies[f.name]
	if !ok {
		panic("gen: " + f.name + " has no NEON body")
	}
	e.begin(f.name, f.params, "")
	used := slices.Clone(f.in)
	for _, o := range f.out {
		if !slices.Contains(used, o) {
			used = append(used, o)
		}
	}
	pointer := func(slice string) string { return neonPointers[slices.Index(used, slice)] }
	for i, s := range used {
		e.parameters(s+"_base", neonPointers[i])
	}
	e.parameters(f.out[0]+"_len", left)
	scalars := scalarsOf(f)
	for i, s := range scalars {
		e.broadcast(s, len(f.in)+i)
	}
	vector := func(offset int, load, store func(base string, offset, reg int)) {
		for i, s := range f.in {
			load(pointer(s), offset, i)
		}
		for i, reg := range body(e, 0, len(f.in), len(f.in)+len(scalars)) {
			store(pointer(f.out[i]), offset, reg)
		}
	}
	whole := func(offset int) { vector(offset, e.loadOne, e.storeOne) }
	for _, vectors := range []int{4, 1} {
		e.overGroups(vectors, neonPointers[:len(used)], whole)
	}
	done := e.label("done")
	e.op("CBZ", left, done)
	vector(0, e.loadPart, e.storePart)
	e.place(done)
	e.end()
}

func (e neon) loadOne(base string, offset, reg int)  { e.load(base, offset, reg, 1) }
func (e neon) storeOne(base string, offset, reg int) { e.store(base, offset, reg, 1) }

// overGroups writes a loop over the whole groups of that many vectors among the elements that
// are left, and moves the pointers past them. Body gets a vector's offset in bytes.
func (e neon) overGroups(vectors int, pointers []string, body func(offset int)) {
	loop, done := e.label(fmt.Sprint("by", vectors, "_")), e.label("less")
	e.op("SUBS", vectors*neonFloats, left, left)
	e.op("BLT", done)
	e.place(loop)
	for i := range vectors {
		body(i * neonBytes)
	}
	for _, p := range pointers {
		e.op("ADD", vectors*neonBytes, p)
	}
	e.op("SUBS", vectors*neonFloats, left, left)
	e.op("BGE", loop)
	e.place(done)
	e.op("ADD", vectors*neonFloats, left)
}
