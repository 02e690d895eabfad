package main

import (
	"fmt"
	"math"
)

// quarters is how many registers make up the partial results; they are the first ones.
const quarters = partials / neonFloats

// mask is the register that has all ones in the elements of a tail.
const mask = 10

// overPartials writes a loop over the elements of the function's slices by groups of 16, and
// what is left. Body handles the vector of one accumulator at an offset in bytes, whole or
// as far as the mask says.
func (e neon) overPartials(pointers []string, body func(quarter, offset int, masked bool)) {
	e.overGroups(quarters, pointers, func(offset int) { body(offset/neonBytes, offset, false) })
	done := e.label("done")
	parts := make([]string, quarters)
	const last = quarters - 1
	for q := range parts {
		parts[q] = e.label("tail")
		if q < last {
			e.op("CMP", neonFloats, left)
			e.op("BLT", parts[q])
			body(q, q*neonBytes, false)
			e.op("SUB", neonFloats, left)
		}
	}
	for _, q := range []int{last, 0, 1, 2} { // fewer than 16 were left: of the last quarter only a part
		e.place(parts[q])
		e.op("CBZ", left, done)
		e.op("MOVD", fmt.Sprintf("$·tailMask<>+%d(SB)", 4*(neonFloats-1)), third)
		e.op("SUB", left+"<<2", third, third)
		e.op("FMOVQ", at(third, 0), freg(mask))
		body(q, q*neonBytes, true)
		if q != last-1 {
			e.op("JMP", done)
		}
	}
	e.place(done)
}

// loadFor loads a whole vector or what is left.
func (e neon) loadFor(base string, offset, reg int, masked bool) {
	if masked {
		e.loadPart(base, offset, reg)
	} else {
		e.loadOne(base, offset, reg)
	}
}

// tree combines the partial results by halves, 8, 4, 2, 1, into register 0. Combine sets its
// first register from both.
func (e neon) tree(combine func(a, b int)) {
	combine(0, 2)
	combine(1, 3)
	combine(0, 1)
	e.op("VEXT", 8, vreg(0, "B16"), vreg(0, "B16"), vreg(1, "B16"))
	combine(0, 1)
	e.op("VDUP", vreg(0, "S[1]"), vreg(1, "S4"))
	combine(0, 1)
}

func (e neon) sum(a, b int) { e.vector("FADD", a, a, b) }

// larger sets a = a > b ? a : b, with register 11 as temporary.
func (e neon) larger(a, b int) {
	e.vector("FCMGT", 11, a, b)
	e.vector("BIF", a, b, 11)
}

// result returns register 0.
func (e neon) result() {
	e.op("FMOVS", freg(0), e.param("ret"))
	e.end()
}

func (e neon) dot() {
	const x, y, sum = 4, 5, 6
	e.begin("Dot", "x, y []float32", "float32")
	e.parameters("x_base", "R0", "y_base", "R1", "x_len", left)
	for q := range quarters {
		e.zero(q)
	}
	e.overPartials([]string{"R0", "R1"}, func(quarter, offset int, masked bool) {
		e.loadFor("R0", offset, x, masked)
		e.loadFor("R1", offset, y, masked)
		if !masked {
			e.vector("FMLA", quarter, x, y)
			return
		}
		e.copy(quarter, sum) // adding +0 would turn a -0 that underflow left into +0
		e.vector("FMLA", sum, x, y)
		e.vector("BIT", quarter, sum, mask)
	})
	e.tree(e.sum)
	e.result()
}

// max takes the larger by the rule of kernel.larger, and once more by the instruction that
// keeps NaN, but not the signs of zeros.
func (e neon) max() {
	const x, firstNaN, number = 4, 12, 5
	e.begin("Max", "x []float32", "float32")
	e.parameters("x_base", "R0", "x_len", left)
	e.op("MOVW", fmt.Sprintf("$0x%08x", math.Float32bits(float32(math.Inf(-1)))), "R7")
	for q := range quarters {
		e.op("VDUP", "R7", vreg(q, "S4"))
		e.op("VDUP", "R7", vreg(firstNaN+q, "S4"))
	}
	e.overPartials([]string{"R0"}, func(quarter, offset int, masked bool) {
		e.loadFor("R0", offset, x, masked)
		if masked {
			e.vector("BIF", x, quarter, mask)
		}
		e.larger(quarter, x)
		e.vector("FMAX", firstNaN+quarter, firstNaN+quarter, x)
	})
	e.tree(e.larger)
	for q := 1; q < quarters; q++ {
		e.vector("FMAX", firstNaN, firstNaN, firstNaN+q)
	}
	e.vector("FCMEQ", number, firstNaN, firstNaN)
	clean := e.label("clean")
	e.op("VMOV", vreg(number, "D[0]"), "R7")
	e.op("VMOV", vreg(number, "D[1]"), "R8")
	e.op("AND", "R7", "R8", "R8")
	e.op("CMN", 1, "R8")
	e.op("BEQ", clean)
	e.op("MOVW", fmt.Sprintf("$0x%08x", math.Float32bits(float32(math.NaN()))), "R7")
	e.op("FMOVS", "R7", freg(0))
	e.place(clean)
	e.result()
}

// constant returns the register of one of expConstants.
func (e neon) constant(name string) int { return firstExpRegister + expConstant(name) }

// expConstant returns the place of one of expConstants.
func expConstant(name string) int {
	for i, c := range expConstants {
		if c.name == name {
			return i
		}
	}
	panic("gen: no constant " + name)
}

func (e neon) expSum() {
	const bias, x, power = 9, 4, 5
	e.begin("ExpSum", "dst, x []float32, bias float32", "float32")
	e.parameters("x_base", "R0", "dst_base", "R1", "dst_len", left)
	e.broadcast("bias", bias)
	e.op("MOVD", "$·expTable<>(SB)", expTable)
	e.load(expTable, 0, firstExpRegister, len(expConstants))
	for q := range quarters {
		e.zero(q)
	}
	e.overPartials([]string{"R0", "R1"}, func(quarter, offset int, masked bool) {
		e.loadFor("R0", offset, x, masked)
		e.vector("FSUB", x, x, bias)
		e.exp(x, power)
		if masked {
			e.storePart("R1", offset, power)
			e.vector("AND", power, power, mask) // adding +0 changes nothing: a sum from +0 is never -0
		} else {
			e.storeOne("R1", offset, power)
		}
		e.vector("FADD", quarter, quarter, power)
	})
	e.tree(e.sum)
	e.result()
}

// expTable is the register that points to the constants of the exponential.
const expTable = "R7"

// exp sets p = e^x, with registers 6 to 8 and 11 to 13 as temporaries, and leaves the rest r
// in x. Arguments out of range give nonsense that the end replaces: +0 below low; x·Inf, which
// is Inf or NaN, above high and for NaN. The coefficient that a multiply-add adds to, and
// overwrites, comes from memory: a copy between registers would take the multiply-adds' pipes.
func (e neon) exp(x, p int) {
	const n, q, power, below, within, beyond = 6, 7, 8, 11, 12, 13
	e.vector("FMUL", n, x, e.constant("log2e"))
	e.vector("FADD", power, n, e.constant("magic"))
	e.vector("FSUB", n, power, e.constant("magic"))
	e.op("VSHL", 23, vreg(power, "S4"), vreg(power, "S4")) // the integer is in the low bits of x·log2e + magic
	e.vector("FCMGT", below, e.constant("low"), x)
	e.vector("FCMGE", within, e.constant("high"), x)
	e.vector("FMUL", beyond, x, e.constant("inf"))
	e.vector("FMLS", x, n, e.constant("ln2Hi"))
	e.vector("FMLS", x, n, e.constant("ln2Lo"))
	last := e.constant("exp6")
	for i, c := range []string{"exp5", "exp4", "exp3", "exp2", "one", "one"} {
		next := []int{q, p}[i%2]
		e.loadOne(expTable, expConstant(c)*neonBytes, next)
		e.vector("FMLA", next, last, x)
		last = next
	}
	e.vector("ADD", p, p, power)
	e.vector("BIC", p, p, below)
	e.vector("BIF", p, beyond, within)
}
