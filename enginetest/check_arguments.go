package enginetest

import "andrea/model"

// wrongCall is a call that must return an error.
type wrongCall struct {
	name string
	call func(e model.Engine) error
}

// checkArguments: wrong arguments are errors that change nothing.
func checkArguments(t tester, open opener) {
	cfg := tiny()
	s := DrawState(cfg, 1)
	const microbatch, slots = 2, 2
	r := mount(t, open, cfg, microbatch, slots, s)
	g := [][]float32{drawMagnitudes(r.layout.Size, 2), drawMagnitudes(r.layout.Size, 3)}
	r.write(0, g[0])
	r.write(1, g[1])
	calls := wrongBuckets(r.layout)
	calls = append(calls, wrongSlots(r.layout, slots)...)
	calls = append(calls, wrongBatches(cfg, microbatch)...)
	calls = append(calls, wrongLogits(cfg)...)
	for _, c := range calls {
		if c.call(r.engine) == nil {
			t.Errorf("%s returned no error", c.name)
		}
	}
	r.sameState("after wrong arguments", r.save(), s)
	r.sameBits("slot 0 after wrong arguments", r.read(0), g[0])
	r.sameBits("slot 1 after wrong arguments", r.read(1), g[1])
}

func wrongBuckets(l model.Layout) (calls []wrongCall) {
	n := l.Size // one bucket
	x := func(n int) []float32 { return make([]float32, n) }
	for _, c := range []struct {
		name          string
		bucket        int
		w, m, v, grad int
	}{
		{"bucket -1", -1, n, n, n, n},
		{"the bucket after the last", l.Buckets(), n, n, n, n},
		{"short slices", 0, n - 1, n - 1, n - 1, n - 1},
		{"long slices", 0, n + 1, n + 1, n + 1, n + 1},
		{"empty slices", 0, 0, 0, 0, 0},
	} {
		calls = append(calls,
			wrongCall{"Load with " + c.name, func(e model.Engine) error { return e.Load(c.bucket, x(c.w), x(c.m), x(c.v)) }},
			wrongCall{"Save with " + c.name, func(e model.Engine) error { return e.Save(c.bucket, x(c.w), x(c.m), x(c.v)) }},
			wrongCall{"ReadGrad with " + c.name, func(e model.Engine) error { return e.ReadGrad(0, c.bucket, x(c.grad)) }},
			wrongCall{"WriteGrad with " + c.name, func(e model.Engine) error { return e.WriteGrad(0, c.bucket, x(c.grad)) }},
		)
		if c.bucket == 0 {
			continue
		}
		calls = append(calls,
			wrongCall{"GradDigest of " + c.name, func(e model.Engine) error { _, err := e.GradDigest(0, c.bucket); return err }},
			wrongCall{"StateDigest of " + c.name, func(e model.Engine) error { _, err := e.StateDigest(c.bucket); return err }},
		)
	}
	return append(calls,
		wrongCall{"SumSquares without a sum", func(e model.Engine) error { return e.SumSquares(0, make([]float64, l.Buckets()-1)) }},
		wrongCall{"SumSquares with one sum more", func(e model.Engine) error { return e.SumSquares(0, make([]float64, l.Buckets()+1)) }},
		wrongCall{"Load with short weights", func(e model.Engine) error { return e.Load(0, x(n-1), x(n), x(n)) }},
		wrongCall{"Load with short first moments", func(e model.Engine) error { return e.Load(0, x(n), x(n-1), x(n)) }},
		wrongCall{"Load with short second moments", func(e model.Engine) error { return e.Load(0, x(n), x(n), x(n-1)) }},
		wrongCall{"Save with short weights", func(e model.Engine) error { return e.Save(0, x(n-1), x(n), x(n)) }},
		wrongCall{"Save with short first moments", func(e model.Engine) error { return e.Save(0, x(n), x(n-1), x(n)) }},
		wrongCall{"Save with short second moments", func(e model.Engine) error { return e.Save(0, x(n), x(n), x(n-1)) }},
	)
}

func wrongSlots(l model.Layout, slots int) (calls []wrongCall) {
	x := make([]float32, l.Size)
	batch := model.Batch{Windows: 1, T: 1, Tokens: []uint32{0, 1}}
	for _, slot := range []int{-1, slots} {
		name := "slot -1"
		if slot > 0 {
			name = "the slot after the last"
		}
		calls = append(calls,
			wrongCall{"Accumulate to " + name, func(e model.Engine) error { _, err := e.Accumulate(slot, batch); return err }},
			wrongCall{"Zero of " + name, func(e model.Engine) error { return e.Zero(slot) }},
			wrongCall{"Fold to " + name, func(e model.Engine) error { return e.Fold(slot, 0) }},
			wrongCall{"Fold of " + name, func(e model.Engine) error { return e.Fold(0, slot) }},
			wrongCall{"ReadGrad of " + name, func(e model.Engine) error { return e.ReadGrad(slot, 0, x) }},
			wrongCall{"WriteGrad of " + name, func(e model.Engine) error { return e.WriteGrad(slot, 0, x) }},
			wrongCall{"SumSquares of " + name, func(e model.Engine) error { return e.SumSquares(slot, make([]float64, l.Buckets())) }},
			wrongCall{"GradDigest of " + name, func(e model.Engine) error { _, err := e.GradDigest(slot, 0); return err }},
			wrongCall{"Update from " + name, func(e model.Engine) error { _, err := e.Update(slot, 1, hyper); return err }},
		)
	}
	return calls
}

func wrongBatches(cfg model.Config, microbatch int) (calls []wrongCall) {
	v := uint32(cfg.Vocab)
	for _, c := range []struct {
		name  string
		batch model.Batch
	}{
		{"no windows", model.Batch{Windows: 0, T: 1}},
		{"negative windows", model.Batch{Windows: -1, T: 1}},
		{"too many windows", DrawBatch(cfg, microbatch+1, 2, 1)},
		{"windows of no tokens", model.Batch{Windows: 1, T: 0, Tokens: []uint32{1}}},
		{"windows longer than the context", DrawBatch(cfg, 1, cfg.Context+1, 1)},
		{"a token too few", model.Batch{Windows: 1, T: 2, Tokens: []uint32{1, 2}}},
		{"a token too many", model.Batch{Windows: 1, T: 1, Tokens: []uint32{1, 2, 3}}},
		{"an input id of V", model.Batch{Windows: 1, T: 2, Tokens: []uint32{1, v, 2}}},
		{"a target id of V", model.Batch{Windows: 1, T: 2, Tokens: []uint32{1, 2, v}}},
		{"the largest id", model.Batch{Windows: 1, T: 2, Tokens: []uint32{1, 1<<32 - 1, 2}}},
	} {
		calls = append(calls,
			wrongCall{"Eval of " + c.name, func(e model.Engine) error { _, err := e.Eval(c.batch); return err }},
			wrongCall{"Accumulate of " + c.name, func(e model.Engine) error { _, err := e.Accumulate(0, c.batch); return err }},
		)
	}
	return calls
}

func wrongLogits(cfg model.Config) (calls []wrongCall) {
	v := cfg.Vocab
	for _, c := range []struct {
		name     string
		tokens   []uint32
		position int
		dst      int
	}{
		{"no tokens", nil, 0, v},
		{"more tokens than the context", make([]uint32, cfg.Context+1), 0, v},
		{"position -1", make([]uint32, 3), -1, v},
		{"the position after the last", make([]uint32, 3), 3, v},
		{"room for V-1", make([]uint32, 3), 1, v - 1},
		{"room for V+1", make([]uint32, 3), 1, v + 1},
		{"an id of V", []uint32{1, uint32(v), 2}, 2, v},
	} {
		calls = append(calls, wrongCall{"Logits with " + c.name, func(e model.Engine) error {
			return e.Logits(c.tokens, c.position, make([]float32, c.dst))
		}})
	}
	return calls
}
