package main

import "fmt"

// adamWMix writes the update and the digest of its results in one loop: see kernel.adamWMixFunc. Divider and
// multipliers work side by side: while one vector is updated, the one before is mixed. Beside the
// registers of mixer:
//
//	Z2-Z5    w, m, v, g    Z6, Z7  of the update    Z22, Z23  first and second moment as a kind
//	Z24-Z26  w, m, v of the vector before           Z27       index of a moment
func (e *emitter) adamWMix() {
	e.begin("AdamWMix", "w, m, v, g []float32, h AdamW, index uint64", "(s0, s1 uint64)")
	for i, name := range []string{"w", "m", "v", "g"} {
		e.op("MOVQ", e.param(name+"_base"), pointers[i])
	}
	e.op("MOVQ", e.param("w_len"), "AX")
	m := e.startMix()
	e.op("VPSLLQ", 30, m.one, e.v(22))
	e.op("VPSLLQ", 31, m.one, e.v(23))
	loop, last, done := e.label("loop"), e.label("last"), e.label("done")
	e.op("XORL", "CX", "CX")
	e.op("SHRQ", 4, "AX")
	e.op("JZ", done)
	e.updateVector()
	e.op("DECQ", "AX")
	e.op("JZ", last)
	e.op("PCALIGN", 64)
	e.place(loop)
	m.keepVector()
	e.updateVector()
	m.addKept()
	e.op("DECQ", "AX")
	e.op("JNZ", loop)
	e.place(last)
	m.keepVector()
	m.addKept()
	e.place(done)
	m.finish()
	e.end()
}

// updateVector updates the elements at CX, leaves them in Z2 to Z4 and moves on.
func (e *emitter) updateVector() {
	in := e.names(2, 4)
	at := func(i int) string { return fmt.Sprintf("(%s)(CX*4)", pointers[i]) }
	for i := range in {
		e.op("VMOVUPS", at(i), in[i])
	}
	out := adamWBody(e, in, nil, func(i int) string { return e.v(6 + i) })
	for i := range out {
		e.op("VMOVUPS", out[i], at(i))
	}
	e.op("ADDQ", e.floats, "CX")
}

// keepVector keeps what updateVector left.
func (m mixer) keepVector() {
	for i := range 3 {
		m.op("VMOVAPS", m.v(2+i), m.v(24+i))
	}
}

// addKept adds the mixes of what keepVector kept.
func (m mixer) addKept() {
	m.add(m.v(24), m.even)
	for i := 1; i < 3; i++ {
		m.op("VPADDQ", m.v(21+i), m.even, m.v(27))
		m.add(m.v(24+i), m.v(27))
	}
	m.next()
}
