package main

// functions are the functions of elements; kernel's portable versions define them. Go's
// assembler has its operands reversed: VSUBPS b, a, d is d = a - b.
var functions = []each{
	{name: "Scale", params: "dst, x []float32, a float32", in: []string{"x"}, out: []string{"dst"}, scalars: []string{"a"}, body: scaleBody},
	{name: "Add", params: "dst, x, y []float32", in: []string{"x", "y"}, out: []string{"dst"}, body: addBody},
	{name: "SoftmaxBackward", params: "dst, dprob, prob []float32, delta float32", in: []string{"dprob", "prob"}, out: []string{"dst"}, scalars: []string{"delta"}, body: softmaxBackwardBody},
	{name: "NormBackward", params: "dst, dy, y []float32, inv, c float32", in: []string{"dy", "y"}, out: []string{"dst"}, scalars: []string{"inv", "c"}, body: normBackwardBody},
	{name: "NormBackwardAdd", params: "dst, dy, y []float32, inv, c float32", in: []string{"dy", "y", "dst"}, out: []string{"dst"}, scalars: []string{"inv", "c"}, body: normBackwardBody},
	{name: "Relu", params: "dst, x []float32", in: []string{"x"}, out: []string{"dst"}, body: reluBody},
	{name: "ReluBackward", params: "dst, dy, x []float32", in: []string{"dy", "x"}, out: []string{"dst"}, body: reluBackwardBody},
	{name: "Relu2", params: "dst, x []float32", in: []string{"x"}, out: []string{"dst"}, body: relu2Body},
	{name: "Relu2Backward", params: "dst, dy, x []float32", in: []string{"dy", "x"}, out: []string{"dst"}, body: relu2BackwardBody},
	{name: "AdamW", params: "w, m, v, g []float32, h AdamW", in: []string{"w", "m", "v", "g"}, out: []string{"w", "m", "v"}, body: adamWBody},
}

func scaleBody(e *emitter, in, scalar []string, tmp func(int) string) []string {
	e.op("VMULPS", scalar[0], in[0], in[0])
	return in
}

func addBody(e *emitter, in, scalar []string, tmp func(int) string) []string {
	e.op("VADDPS", in[1], in[0], in[0])
	return in[:1]
}

func softmaxBackwardBody(e *emitter, in, scalar []string, tmp func(int) string) []string {
	e.op("VSUBPS", scalar[0], in[0], in[0])
	e.op("VMULPS", in[0], in[1], in[0])
	return in[:1]
}

func normBackwardBody(e *emitter, in, scalar []string, tmp func(int) string) []string {
	e.op("VMULPS", scalar[1], in[1], in[1])
	e.op("VSUBPS", in[1], in[0], in[0])
	e.op("VMULPS", in[0], scalar[0], in[0])
	if len(in) == 3 {
		e.op("VADDPS", in[0], in[2], in[0])
	}
	return in[:1]
}

// clip sets r = 0 > x ? 0 : x, so that NaN and -0 pass. It leaves +0 in zero.
func (e *emitter) clip(x, r, zero string) {
	op := "VXORPS"
	if e.masks() {
		op = "VPXORD"
	}
	e.op(op, zero, zero, zero)
	e.op("VMAXPS", x, zero, r)
}

func reluBody(e *emitter, in, scalar []string, tmp func(int) string) []string {
	e.clip(in[0], in[0], tmp(0))
	return in
}

func reluBackwardBody(e *emitter, in, scalar []string, tmp func(int) string) []string {
	const greater = 0x1e // ordered, quiet
	e.clip(in[1], tmp(1), tmp(0))
	if e.masks() {
		e.op("VCMPPS", greater, tmp(0), in[1], "K2")
		e.op("VMOVAPS.Z", in[0], "K2", in[0])
	} else {
		e.op("VCMPPS", greater, tmp(0), in[1], tmp(1))
		e.op("VANDPS", tmp(1), in[0], in[0])
	}
	return in[:1]
}

func relu2Body(e *emitter, in, scalar []string, tmp func(int) string) []string {
	e.clip(in[0], in[0], tmp(0))
	e.op("VMULPS", in[0], in[0], in[0])
	return in
}

func relu2BackwardBody(e *emitter, in, scalar []string, tmp func(int) string) []string {
	e.clip(in[1], in[1], tmp(0))
	e.op("VADDPS", in[1], in[1], in[1])
	e.op("VMULPS", in[1], in[0], in[0])
	return in[:1]
}

// adamWBody broadcasts each coefficient where it is used: AVX2 has too few registers to keep
// them, and the divisions take most of the time.
func adamWBody(e *emitter, in, scalar []string, tmp func(int) string) []string {
	w, m, v, g := in[0], in[1], in[2], in[3]
	h, t := tmp(0), tmp(1)
	coefficient := func(name string) string {
		e.op("VBROADCASTSS", e.param("h_"+name), h)
		return h
	}
	e.op("VMULPS", coefficient("Scale"), g, g)
	e.op("VMULPS", coefficient("Beta1"), m, m)
	e.op("VMULPS", coefficient("OneMinusBeta1"), g, t)
	e.op("VADDPS", t, m, m)
	e.op("VMULPS", g, g, g)
	e.op("VMULPS", coefficient("OneMinusBeta2"), g, g)
	e.op("VMULPS", coefficient("Beta2"), v, v)
	e.op("VADDPS", g, v, v)
	e.op("VDIVPS", coefficient("Correction2"), v, t)
	e.op("VSQRTPS", t, t)
	e.op("VADDPS", coefficient("Eps"), t, t)
	e.op("VDIVPS", coefficient("Correction1"), m, g)
	e.op("VDIVPS", t, g, g)
	e.op("VMULPS", coefficient("Decay"), w, t)
	e.op("VADDPS", t, g, g)
	e.op("VMULPS", coefficient("LR"), g, g)
	e.op("VSUBPS", g, w, w)
	return in[:3]
}
