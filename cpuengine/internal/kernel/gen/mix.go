package main

import "fmt"

// mixConstants are the numbers of model.Digest, and how far its element index moves
// from one vector of floats to the next.
var mixConstants = []struct {
	name string
	bits uint64
}{
	{"key", 0x243f6a8885a308d3},
	{"mul0", 0x9fb21c651e98df25},
	{"mul1", 0xd6e8feb86659fd93},
	{"stride", 2 * mixWords << 32},
}

// mixWords is how many 64-bit words a vector has: half as many as floats.
const mixWords = 8

// mixer is the digest inside a loop over vectors of 16 floats. Only AVX-512 multiplies 64-bit words.
//
//	Z0, Z1   the two sums        Z8-Z10   words of even elements and their mix    Z12-Z14  of odd ones
//	Z15      index of odd ones   Z16-Z19  constants                               Z20      low halves
//	Z21      1 as an index       Z31      index and key of the even elements
type mixer struct {
	*emitter
	constant       map[string]string
	low, one, even string
}

// startMix loads the constants, takes the parameter index as that of the first element, and zeroes the sums.
func (e *emitter) startMix() mixer {
	m := mixer{e, map[string]string{}, e.v(20), e.v(21), e.v(31)}
	for i, c := range mixConstants {
		m.constant[c.name] = e.v(16 + i)
		e.op("VPBROADCASTQ", fmt.Sprintf("·mixTable<>+%d(SB)", 8*(mixWords+i)), m.constant[c.name])
	}
	e.op("VPTERNLOGD", 0xff, m.low, m.low, m.low)
	e.op("VPSRLQ", 63, m.low, m.one)
	e.op("VPSLLQ", 32, m.one, m.one)
	e.op("VPSRLQ", 32, m.low, m.low)
	e.op("VPBROADCASTQ", e.param("index"), m.even)
	e.op("VPADDQ", "·mixTable<>+0(SB)", m.even, m.even)
	e.op("VPADDQ", m.constant["key"], m.even, m.even)
	e.zero(0)
	e.zero(1)
	return m
}

// add adds the mixes of a vector of floats whose even elements have these indices: those masked and the odd
// ones shifted down, each a vector of words.
func (m mixer) add(floats, index string) {
	odd := m.v(15)
	m.op("VPADDQ", m.one, index, odd)
	m.op("VPANDQ", m.low, floats, m.v(8))
	m.op("VPSRLQ", 32, floats, m.v(12))
	m.op("VPADDQ", index, m.v(8), m.v(8))
	m.op("VPADDQ", odd, m.v(12), m.v(12))
	both := func(op func(h, high, product string)) {
		op(m.v(8), m.v(9), m.v(10))
		op(m.v(12), m.v(13), m.v(14))
	}
	both(func(h, _, _ string) { m.op("VPMULLQ", m.constant["mul0"], h, h) })
	both(func(h, high, _ string) { m.op("VPSRLQ", 32, h, high) })
	both(func(h, high, _ string) { m.op("VPXORQ", high, h, h) })
	both(func(h, _, _ string) { m.op("VPMULLQ", m.constant["mul1"], h, h) })
	both(func(h, high, _ string) { m.op("VPSRLQ", 32, h, high) })
	both(func(h, high, product string) { m.op("VPMULUDQ", high, h, product) })
	both(func(h, high, _ string) { m.op("VPXORQ", high, h, h) })
	both(func(h, _, _ string) { m.op("VPADDQ", h, m.v(0), m.v(0)) })
	both(func(_, _, product string) { m.op("VPADDQ", product, m.v(1), m.v(1)) })
}

// next moves the index on by a vector of floats.
func (m mixer) next() { m.op("VPADDQ", m.constant["stride"], m.even, m.even) }

// finish stores the results s0 and s1.
func (m mixer) finish() {
	m.sumWords(0)
	m.sumWords(1)
}

// mix writes the sums of a digest: see kernel.mixFunc.
func (e *emitter) mix() {
	e.begin("Mix", "index uint64, x []float32", "(s0, s1 uint64)")
	e.op("MOVQ", e.param("x_base"), "SI")
	e.op("MOVQ", e.param("x_len"), "AX")
	m := e.startMix()
	loop, done := e.label("loop"), e.label("done")
	e.op("SHRQ", 4, "AX")
	e.op("JZ", done)
	e.place(loop)
	e.op("VMOVUPS", "(SI)", e.v(2))
	m.add(e.v(2), m.even)
	m.next()
	e.op("ADDQ", e.bytes(), "SI")
	e.op("DECQ", "AX")
	e.op("JNZ", loop)
	e.place(done)
	m.finish()
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

// mixTable writes the indices of the even elements within a vector of floats, then the constants.
func (e *emitter) mixTable() {
	var words []uint32
	for i := range mixWords {
		words = append(words, 0, uint32(2*i))
	}
	for _, c := range mixConstants {
		words = append(words, uint32(c.bits), uint32(c.bits>>32))
	}
	e.table("mixTable", words)
}
