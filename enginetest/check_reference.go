package enginetest

import (
	"fmt"
	"strings"

	"andrea/model"
)

// outcome is what one step leaves: the losses of its batches, the gradient, the
// state after the update, and the logits of a position.
type outcome struct {
	losses  []model.Loss
	grad    []float64
	w, m, v []float64
	logits  []float64
}

// hyper is the AdamW of step 3.
var hyper = model.Hyper{
	LR: 0.01, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05,
	Correction1: 0.271, Correction2: 0.142625, Eps: 1e-8, Decay: 0.1,
}

// check runs one step of two batches, the second of one window, and compares
// everything it leaves with the reference.
func (s shape) check(t tester, open opener) {
	cfg := s.config()
	state := DrawState(cfg, 1)
	batches := []model.Batch{DrawBatch(cfg, s.windows, s.t, 2), DrawBatch(cfg, 1, s.t, 3)}
	scale := 1 / float32(s.t*(s.windows+1))

	r := mount(t, open, cfg, s.windows, 1, state)
	got := r.step(batches, scale)
	want := step(network[float64]{cfg, plainOps[float64]()}, state, batches, scale)
	ops := plainOps[float32]()
	if s.bf16 {
		ops = bf16Ops()
	}
	plain := step(network[float32]{cfg, ops}, state, batches, scale)
	for i, m := range compare(model.NewLayout(cfg), got, want, plain) {
		if s.bf16 && i < len(batches) {
			m.floor = bf16LossFloor
		}
		if err := m.check(); err != nil {
			t.Errorf("%v", err)
		}
	}
	for i, l := range got.losses {
		if l.Tokens != want.losses[i].Tokens {
			t.Errorf("loss of batch %d counts %d tokens, want %d", i, l.Tokens, want.losses[i].Tokens)
		}
	}
}

// step runs the step on the engine.
func (r rig) step(batches []model.Batch, scale float32) (o outcome) {
	o.logits = convert[float64](r.logits(batches[0].Window(0)[:batches[0].T], batches[0].T-1))
	for _, b := range batches {
		o.losses = append(o.losses, r.accumulate(0, b))
	}
	o.grad = convert[float64](r.read(0))
	r.update(0, scale, hyper)
	s := r.save()
	o.w, o.m, o.v = convert[float64](s.W), convert[float64](s.M), convert[float64](s.V)
	return o
}

// step runs the same step with the plain loops.
func step[F Float](n network[F], s State, batches []model.Batch, scale float32) (o outcome) {
	cfg := n.cfg
	w, m, v := convert[F](s.W), convert[F](s.M), convert[F](s.V)
	weights := view(cfg, w)
	t := batches[0].T
	o.logits = convert[float64](n.logits(weights, n.forward(weights, batches[0].Window(0)[:t], t), t-1, t))
	grad := make([]F, len(w))
	for _, b := range batches {
		o.losses = append(o.losses, n.accumulate(view(cfg, grad), weights, b))
	}
	adamW(model.NewLayout(cfg), w, m, v, grad, F(scale), hyper)
	o.grad, o.w, o.m, o.v = convert[float64](grad), convert[float64](w), convert[float64](m), convert[float64](v)
	return o
}

// compare lists what the tolerance rule applies to: first each loss, then the logits, and for
// each tensor the gradient, the weights and the moments.
func compare(l model.Layout, got, want, plain outcome) (list []measured) {
	for i := range got.losses {
		list = append(list, measured{
			name: fmt.Sprintf("loss of batch %d", i),
			got:  []float64{got.losses[i].Sum}, want: []float64{want.losses[i].Sum}, plain: []float64{plain.losses[i].Sum},
		})
	}
	list = append(list, measured{name: "logits", got: got.logits, want: want.logits, plain: plain.logits})
	for i, t := range l.Tensors {
		lo, hi := t.Offset, t.End()
		add := func(name string, got, want, plain []float64) {
			list = append(list, measured{name: name + " of " + t.Name, got: got[lo:hi], want: want[lo:hi], plain: plain[lo:hi]})
		}
		add("weights", got.w, want.w, plain.w)
		add("first moments", got.m, want.m, plain.m)
		add("second moments", got.v, want.v, plain.v)
		add("gradient", got.grad, want.grad, plain.grad)
		if values := valuesOf(l, i); values >= 0 {
			list[len(list)-1].scale = want.grad[l.Tensors[values].Offset:l.Tensors[values].End()]
		}
	}
	return list
}

// valuesOf returns the wv of the layer whose wq or wk tensor i is, else -1. The
// gradients of queries and keys are differences of gradients of the values' size,
// exactly zero when a window has one token; the floor of the tolerance is relative
// to those.
func valuesOf(l model.Layout, i int) int {
	switch name := l.Tensors[i].Name; {
	case strings.HasSuffix(name, ".attn_wq"):
		return i + 2
	case strings.HasSuffix(name, ".attn_wk"):
		return i + 1
	}
	return -1
}
