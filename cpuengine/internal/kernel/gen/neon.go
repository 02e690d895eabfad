package main

import (
	"fmt"
	"strings"
)

// neon writes functions for arm64. Registers have the numbers of V0 to V31, F0 to F31 being
// their lower parts; functions keep to R0-R15 and R19-R25, which every system leaves free.
type neon struct{ *emitter }

// The shape of a NEON register, and of the micro-kernels' tile: 24 accumulators leave eight
// registers for a row of B and elements of A.
const (
	neonFloats = 4
	neonBytes  = 4 * neonFloats
	neonRows   = 8
	neonRegs   = 32
)

// generateNeon returns the assembly and the declarations for arm64.
func generateNeon() (asm, decl string) {
	e := neon{newEmitter()}
	e.name = "neon"
	e.tables()
	for vectors := 1; vectors <= 3; vectors++ {
		e.panel(vectors)
	}
	e.packColumns()
	e.packStrip()
	e.transpose()
	e.peak()
	for _, f := range functions {
		e.each(f)
	}
	e.dot()
	e.max()
	e.expSum()
	return e.asm.String(), e.decl.String()
}

// tables writes the constants: a window of the tail masks and those of the exponential.
func (e neon) tables() {
	const all = 1<<32 - 1
	e.table("tailMask", []uint32{all, all, all, 0, 0, 0})
	var words []uint32
	for _, c := range expConstants {
		words = append(words, c.bits, c.bits, c.bits, c.bits)
	}
	e.table("expTable", words)
}

// parameters loads parameters into registers, given in pairs.
func (e neon) parameters(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		e.op("MOVD", e.param(pairs[i]), pairs[i+1])
	}
}

// toBytes turns counts of floats in registers into bytes.
func (e neon) toBytes(regs ...string) {
	for _, r := range regs {
		e.op("LSL", 2, r, r)
	}
}

func (e neon) end() { e.op("RET") }

// whole and parts of a vector register's name in Go's assembler.
func freg(i int) string              { return fmt.Sprint("F", i) }
func vreg(i int, part string) string { return fmt.Sprintf("V%d.%s", i, part) }

// load and store move whole vectors between memory and registers that follow each other.
func (e neon) load(base string, offset, first, count int) {
	for ; count >= 2; first, offset, count = first+2, offset+2*neonBytes, count-2 {
		e.op("FLDPQ", at(base, offset), fmt.Sprintf("(F%d, F%d)", first, first+1))
	}
	if count == 1 {
		e.op("FMOVQ", at(base, offset), freg(first))
	}
}

func (e neon) store(base string, offset, first, count int) {
	for ; count >= 2; first, offset, count = first+2, offset+2*neonBytes, count-2 {
		e.op("FSTPQ", fmt.Sprintf("(F%d, F%d)", first, first+1), at(base, offset))
	}
	if count == 1 {
		e.op("FMOVQ", freg(first), at(base, offset))
	}
}

// at returns the operand of memory at an offset in bytes.
func at(base string, offset int) string {
	if offset == 0 {
		return "(" + base + ")"
	}
	return fmt.Sprintf("%d(%s)", offset, base)
}

// The registers of a tail: how many elements are left, 1 to 3, and the third one's address.
const (
	left  = "R4"
	third = "R6"
)

// loadPart loads the elements that are left, the others become +0; storePart stores them.
// Memory behind them is not touched.
func (e neon) loadPart(base string, offset, to int) {
	e.part(base, offset, func(size, from string) { e.op(size, from, freg(to)) },
		func() { e.op("VLD1", at(third, 0), vreg(to, "S[2]")) })
}

func (e neon) storePart(base string, offset, reg int) {
	e.part(base, offset, func(size, to string) { e.op(size, freg(reg), to) },
		func() { e.op("VST1", vreg(reg, "S[2]"), at(third, 0)) })
}

func (e neon) part(base string, offset int, move func(size, where string), last func()) {
	two, done := e.label("two"), e.label("part")
	e.op("TBNZ", 1, left, two)
	move("FMOVS", at(base, offset))
	e.op("JMP", done)
	e.place(two)
	move("FMOVD", at(base, offset))
	e.op("TBZ", 0, left, done)
	e.op("ADD", offset+8, base, third)
	last()
	e.place(done)
}

// broadcast sets all elements of a register to a float32 parameter.
func (e neon) broadcast(param string, to int) {
	e.op("FMOVS", e.param(param), freg(to))
	e.op("VDUP", vreg(to, "S[0]"), vreg(to, "S4"))
}

// copy sets one register to another.
func (e neon) copy(from, to int) { e.op("VMOV", vreg(from, "B16"), vreg(to, "B16")) }

// zero sets a register to +0.
func (e neon) zero(i int) { e.vector("EOR", i, i, i) }

// instruction is one on whole vectors: its bits with all registers 0 and, if Go's assembler
// knows it, its name and its registers' arrangement there.
type instruction struct {
	bits        uint32
	assembler   string
	arrangement string
}

// instructions are those on three registers, by the names of Arm's manual (A64, section
// C7.2), .4S or .16B.
var instructions = map[string]instruction{
	"ADD":   {0x4ea08400, "VADD", "S4"},
	"AND":   {0x4e201c00, "VAND", "B16"},
	"BIC":   {0x4e601c00, "", "16B"},
	"BIF":   {0x6ee01c00, "VBIF", "B16"},
	"BIT":   {0x6ea01c00, "VBIT", "B16"},
	"EOR":   {0x6e201c00, "VEOR", "B16"},
	"FADD":  {0x4e20d400, "", "4S"},
	"FCMEQ": {0x4e20e400, "", "4S"},
	"FCMGE": {0x6e20e400, "", "4S"},
	"FCMGT": {0x6ea0e400, "", "4S"},
	"FDIV":  {0x6e20fc00, "", "4S"},
	"FMAX":  {0x4e20f400, "", "4S"},
	"FMLA":  {0x4e20cc00, "VFMLA", "S4"},
	"FMLS":  {0x4ea0cc00, "VFMLS", "S4"},
	"FMUL":  {0x6e20dc00, "", "4S"},
	"FSUB":  {0x4ea0d400, "", "4S"},
}

// vector writes an instruction on whole vectors, with the registers in the order of Arm's
// manual: destination, first and second source.
func (e neon) vector(name string, d, n, m int) {
	i, ok := instructions[name]
	switch {
	case !ok:
		panic("gen: no instruction " + name)
	case i.assembler != "":
		e.op(i.assembler, vreg(m, i.arrangement), vreg(n, i.arrangement), vreg(d, i.arrangement))
	default:
		e.word(encode(i.bits, d, n, m), name, vreg(d, i.arrangement), vreg(n, i.arrangement), vreg(m, i.arrangement))
	}
}

// sqrt sets register d to the square roots of register n.
func (e neon) sqrt(d, n int) {
	e.word(encode(fsqrt, d, n, 0), "FSQRT", vreg(d, "4S"), vreg(n, "4S"))
}

// negative sets the elements of register d to all ones where those of n are below zero, and
// positive where they are above; NaN is neither.
func (e neon) negative(d, n int) {
	e.word(encode(fcmltZero, d, n, 0), "FCMLT", vreg(d, "4S"), vreg(n, "4S"), "#0.0")
}

func (e neon) positive(d, n int) {
	e.word(encode(fcmgtZero, d, n, 0), "FCMGT", vreg(d, "4S"), vreg(n, "4S"), "#0.0")
}

// multiplyAddBy adds register n times element 0 of register m to register d, fused.
func (e neon) multiplyAddBy(d, n, m int) {
	e.word(encode(fmlaElement0, d, n, m), "FMLA", vreg(d, "4S"), vreg(n, "4S"), vreg(m, "S[0]"))
}

// Instructions that have another form.
const (
	fsqrt        = 0x6ea1f800
	fcmltZero    = 0x4ea0e800
	fcmgtZero    = 0x4ea0c800
	fmlaElement0 = 0x4f801000
)

// encode puts register numbers into an instruction.
func encode(bits uint32, d, n, m int) uint32 {
	for _, r := range []int{d, n, m} {
		if r < 0 || r >= neonRegs {
			panic(fmt.Sprintf("gen: instruction %#x with register %d", bits, r))
		}
	}
	return bits | uint32(m)<<16 | uint32(n)<<5 | uint32(d)
}

// word writes an instruction that Go's assembler does not know, and its text for readers.
func (e neon) word(bits uint32, name string, operands ...string) {
	e.op("WORD", fmt.Sprintf("$0x%08x // %s %s", bits, name, strings.Join(operands, ", ")))
}
