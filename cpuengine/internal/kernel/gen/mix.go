package main

import "fmt"

// mixConstants are the numbers of model.Digest, and how far its element index moves
// from one vector to the next.
var mixConstants = []struct {
	name string
	bits uint64
}{
	{"key0", 0x243f6a8885a308d3},
	{"key1", 0x13198a2e03707344},
	{"mul0", 0x9fb21c651e98df25},
	{"mul1", 0xd6e8feb86659fd93},
	{"stride", mixWords << 32},
}

// mixWords is how many elements a vector of 64-bit words takes.
const mixWords = 8

// mix writes the sums of a digest: see kernel.mixFunc. Only AVX-512 multiplies 64-bit words.
func (e *emitter) mix() {
	const firstConstant, index = 16, 31
	e.begin("Mix", "index uint64, x []float32", "(s0, s1 uint64)")
	e.op("MOVQ", e.param("x_base"), "SI")
	e.op("MOVQ", e.param("x_len"), "AX")
	constant := map[string]string{}
	for i, c := range mixConstants {
		constant[c.name] = e.v(firstConstant + i)
		e.op("VPBROADCASTQ", fmt.Sprintf("·mixTable<>+%d(SB)", 8*(mixWords+i)), constant[c.name])
	}
	e.op("VPBROADCASTQ", e.param("index"), e.v(index))
	e.op("VPADDQ", "·mixTable<>+0(SB)", e.v(index), e.v(index))
	e.zero(0)
	e.zero(1)
	loop, done := e.label("loop"), e.label("done")
	e.op("SHRQ", 3, "AX")
	e.op("JZ", done)
	e.place(loop)
	x, mixed, shifted := e.v(2), e.names(3, 2), e.names(5, 2)
	e.op("VPMOVZXDQ", "(SI)", x)
	e.op("VPORQ", e.v(index), x, x)
	e.op("VPADDQ", constant["stride"], e.v(index), e.v(index))
	both := func(op func(i int)) { op(0); op(1) }
	both(func(i int) { e.op("VPXORQ", constant[fmt.Sprint("key", i)], x, mixed[i]) })
	both(func(i int) { e.op("VPMULLQ", constant[fmt.Sprint("mul", i)], mixed[i], mixed[i]) })
	both(func(i int) { e.op("VPSRLQ", 32, mixed[i], shifted[i]) })
	both(func(i int) { e.op("VPXORQ", shifted[i], mixed[i], mixed[i]) })
	both(func(i int) { e.op("VPMULLQ", constant[fmt.Sprint("mul", 1-i)], mixed[i], mixed[i]) })
	both(func(i int) { e.op("VPSRLQ", 29, mixed[i], shifted[i]) })
	both(func(i int) { e.op("VPXORQ", shifted[i], mixed[i], mixed[i]) })
	both(func(i int) { e.op("VPADDQ", mixed[i], e.v(i), e.v(i)) })
	e.op("ADDQ", 4*mixWords, "SI")
	e.op("DECQ", "AX")
	e.op("JNZ", loop)
	e.place(done)
	both(e.sumWords)
	e.end()
}

// sumWords returns the sum of the eight words of register i as result i.
func (e *emitter) sumWords(i int) {
	z, y, x := fmt.Sprint("Z", i), fmt.Sprint("Y", i), fmt.Sprint("X", i)
	e.op("VEXTRACTI64X4", 1, z, "Y2")
	e.op("VPADDQ", "Y2", y, y)
	e.op("VEXTRACTI128", 1, y, "X2")
	e.op("VPADDQ", "X2", x, x)
	e.op("VPSRLDQ", 8, x, "X2")
	e.op("VPADDQ", "X2", x, x)
	e.op("VMOVQ", x, e.param(fmt.Sprint("s", i)))
}

// mixTable writes the element indices within a vector, then the constants.
func (e *emitter) mixTable() {
	var words []uint32
	for i := range mixWords {
		words = append(words, 0, uint32(i))
	}
	for _, c := range mixConstants {
		words = append(words, uint32(c.bits), uint32(c.bits>>32))
	}
	e.table("mixTable", words)
}
