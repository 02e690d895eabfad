package main

import (
	"fmt"
	"math"
)

// expConstants are the numbers of kernel's portable exponential, which explains them.
var expConstants = []struct {
	name string
	bits uint32
}{
	{"log2e", math.Float32bits(0x1.715476p+0)},
	{"magic", math.Float32bits(3 << 22)},
	{"ln2Hi", math.Float32bits(0x1.62e43p-1)},
	{"ln2Lo", math.Float32bits(-0x1.05c61p-29)},
	{"exp6", math.Float32bits(0.00138143207239)},
	{"exp5", math.Float32bits(0.00836885106806)},
	{"exp4", math.Float32bits(0.0416684010808)},
	{"exp3", math.Float32bits(0.166665195241)},
	{"exp2", math.Float32bits(0.499999933731)},
	{"one", math.Float32bits(1)},
	{"low", math.Float32bits(-87)},
	{"high", math.Float32bits(88.72283)},
	{"inf", math.Float32bits(float32(math.Inf(1)))},
}

// firstExpRegister is where AVX-512 keeps the constants; AVX2 reads them from memory.
const firstExpRegister = 16

// constant returns the operand of one of expConstants.
func (e *emitter) constant(name string) string {
	for i, c := range expConstants {
		if c.name == name {
			if e.masks() {
				return e.v(firstExpRegister + i)
			}
			return fmt.Sprintf("·expTable<>+%d(SB)", 32*i)
		}
	}
	panic("gen: no constant " + name)
}

func (e *emitter) expSum() {
	const bias = 13
	e.begin("ExpSum", "dst, x []float32, bias float32", "float32")
	e.startReduction("dst")
	e.op("VBROADCASTSS", e.param("bias"), e.v(bias))
	e.loadExpConstants()
	e.overPartials(func(half int, masked bool) {
		x, p := e.v(2), e.v(3)
		e.load(e.element("SI", half), x, masked, halfMask(half))
		e.op("VSUBPS", e.v(bias), x, x)
		e.exp(x, p, e.v(4), e.v(5))
		e.store(p, e.element("DI", half), masked, halfMask(half))
		if masked && !e.masks() {
			e.op("VANDPS", e.v(halfMask(half)), p, p)
		}
		e.addPartial(half, p, masked)
	})
	e.tree("VADDPS")
	e.result()
}

// loadExpConstants fills the registers of the constants.
func (e *emitter) loadExpConstants() {
	if e.masks() {
		for i := range expConstants {
			e.op("VBROADCASTSS", fmt.Sprintf("·expTable<>+%d(SB)", 32*i), e.v(firstExpRegister+i))
		}
	}
}

// exp sets p = e^x with n and r as temporaries. Arguments out of range give nonsense that the
// end replaces: +0 below low; x·Inf, which is Inf or NaN, above high and for NaN.
func (e *emitter) exp(x, p, n, r string) {
	e.op("VMULPS", e.constant("log2e"), x, n)
	e.op("VADDPS", e.constant("magic"), n, p)
	e.op("VSUBPS", e.constant("magic"), p, n)
	e.op("VMOVAPS", x, r)
	e.op("VFNMADD231PS", e.constant("ln2Hi"), n, r)
	e.op("VFNMADD231PS", e.constant("ln2Lo"), n, r)
	e.op("VPSLLD", 23, p, n) // the integer is in the low bits of x·log2e + magic
	e.op("VMOVAPS", e.constant("exp6"), p)
	for _, c := range []string{"exp5", "exp4", "exp3", "exp2", "one", "one"} {
		e.op("VFMADD213PS", e.constant(c), r, p)
	}
	e.op("VPADDD", n, p, p)
	const notLess, notLessEqual = 0x15, 0x16 // true for NaN, quiet
	if e.masks() {
		e.op("VCMPPS", notLess, e.constant("low"), x, "K2")
		e.op("VCMPPS", notLessEqual, e.constant("high"), x, "K3")
		e.op("VMOVAPS.Z", p, "K2", p)
		e.op("VMULPS", e.constant("inf"), x, "K3", p)
		return
	}
	e.op("VCMPPS", notLess, e.constant("low"), x, n)
	e.op("VANDPS", n, p, p)
	e.op("VCMPPS", notLessEqual, e.constant("high"), x, n)
	e.op("VMULPS", e.constant("inf"), x, r)
	e.op("VBLENDVPS", n, r, p, p)
}

// expLane is what expBelow needs for one vector: x is the argument and is overwritten, p the
// result, n free afterwards.
type expLane struct {
	x, p, n string
	low     string // AVX-512: a mask register
	power   string // AVX2 only
}

// expLanes returns the registers of that many vectors, from register 1 or, as AVX2 has two
// accumulators, 2 on.
func (e *emitter) expLanes(n int) []expLane {
	lanes := make([]expLane, n)
	for i := range lanes {
		if e.masks() {
			lanes[i] = expLane{x: e.v(1 + 3*i), p: e.v(2 + 3*i), n: e.v(3 + 3*i), low: fmt.Sprint("K", 2+i)}
		} else {
			lanes[i] = expLane{x: e.v(2 + 5*i), p: e.v(3 + 5*i), n: e.v(4 + 5*i), low: e.v(5 + 5*i), power: e.v(6 + 5*i)}
		}
	}
	return lanes
}

// expBelow is exp for arguments of 0 and below, and NaN, on several vectors at once: one after
// the other, each instruction would wait for the one before it. Multiplying by 2^n, for which
// AVX-512 has an instruction, keeps a NaN whatever its bits.
func (e *emitter) expBelow(lanes []expLane) {
	const notLess = 0x15 // true for NaN, quiet
	all := func(op func(l expLane)) {
		for _, l := range lanes {
			op(l)
		}
	}
	all(func(l expLane) { e.op("VCMPPS", notLess, e.constant("low"), l.x, l.low) })
	all(func(l expLane) { e.op("VMULPS", e.constant("log2e"), l.x, l.n) })
	all(func(l expLane) { e.op("VADDPS", e.constant("magic"), l.n, l.n) })
	if !e.masks() {
		all(func(l expLane) { e.op("VPSLLD", 23, l.n, l.power) })
		all(func(l expLane) { e.op("VPADDD", e.constant("one"), l.power, l.power) }) // 2^n
	}
	all(func(l expLane) { e.op("VSUBPS", e.constant("magic"), l.n, l.n) })
	all(func(l expLane) { e.op("VFNMADD231PS", e.constant("ln2Hi"), l.n, l.x) })
	all(func(l expLane) { e.op("VFNMADD231PS", e.constant("ln2Lo"), l.n, l.x) })
	all(func(l expLane) { e.op("VMOVAPS", e.constant("exp6"), l.p) })
	for _, c := range []string{"exp5", "exp4", "exp3", "exp2", "one", "one"} {
		all(func(l expLane) { e.op("VFMADD213PS", e.constant(c), l.x, l.p) })
	}
	if e.masks() {
		all(func(l expLane) { e.op("VSCALEFPS.Z", l.n, l.p, l.low, l.p) })
		return
	}
	all(func(l expLane) { e.op("VMULPS", l.power, l.p, l.p) })
	all(func(l expLane) { e.op("VANDPS", l.low, l.p, l.p) })
}
