package enginetest

import (
	"math"

	"andrea/model"
)

// gradientOf returns the loss and the gradient of a batch alone.
func (r rig) gradientOf(slot int, b model.Batch) (model.Loss, []float32) {
	r.t.Helper()
	r.zero(slot)
	loss := r.accumulate(slot, b)
	return loss, r.read(slot)
}

// checkRepeats computes the same twice: again, after other work, in another slot,
// and on another engine.
func checkRepeats(t tester, open opener) {
	cfg := tiny()
	s := DrawState(cfg, 1)
	batch := DrawBatch(cfg, 2, 33, 2)
	r := mount(t, open, cfg, 3, 2, s)
	loss, grad := r.gradientOf(0, batch)
	same := func(what string, r rig, slot int) {
		t.Helper()
		againLoss, again := r.gradientOf(slot, batch)
		r.sameLoss(what, againLoss, loss)
		r.sameBits("gradient "+what, again, grad)
	}
	same("computed again", r, 0)
	r.accumulate(1, DrawBatch(cfg, 3, cfg.Context, 3))
	r.eval(DrawBatch(cfg, 1, 1, 4))
	r.logits(drawTokens(cfg.Vocab, 17, 5), 3)
	same("after other work", r, 0)
	same("in another slot", r, 1)
	same("on another engine", mount(t, open, cfg, 3, 2, s), 0)
}

// checkCapacity: the room for larger batches changes no bits of a small one.
func checkCapacity(t tester, open opener) {
	cfg := tiny()
	batch := DrawBatch(cfg, 1, cfg.Context, 2)
	small := mount(t, open, cfg, 1, 1, DrawState(cfg, 1))
	large := mount(t, open, cfg, 5, 3, DrawState(cfg, 1))
	loss, grad := small.gradientOf(0, batch)
	largeLoss, largeGrad := large.gradientOf(2, batch)
	small.sameLoss("engine for 5 windows, against one for 1", largeLoss, loss)
	small.sameBits("gradient of an engine for 5 windows, against one for 1", largeGrad, grad)
}

func checkAccumulateIsolation(t tester, open opener) {
	cfg := tiny()
	s := DrawState(cfg, 1)
	r := mount(t, open, cfg, 2, 3, s)
	others := drawMagnitudes(r.layout.Size, 2)
	r.write(0, others)
	r.write(2, others)
	batch := DrawBatch(cfg, 2, 9, 3)
	tokens := append([]uint32(nil), batch.Tokens...)
	r.accumulate(1, batch)
	r.sameState("after Accumulate", r.save(), s)
	r.sameBits("slot 0 after Accumulate to slot 1", r.read(0), others)
	r.sameBits("slot 2 after Accumulate to slot 1", r.read(2), others)
	for i, id := range tokens {
		if batch.Tokens[i] != id {
			t.Fatalf("Accumulate changed token %d of its batch", i)
		}
	}
}

func checkEval(t tester, open opener) {
	cfg := tiny()
	s := DrawState(cfg, 1)
	r := mount(t, open, cfg, 3, 2, s)
	slot := drawMagnitudes(r.layout.Size, 2)
	r.write(0, slot)
	for i, size := range []struct{ windows, t int }{{1, 1}, {3, cfg.Context}, {2, 17}} {
		batch := DrawBatch(cfg, size.windows, size.t, uint64(3+i))
		loss := r.eval(batch)
		r.sameLoss("Accumulate, against Eval of the same batch", r.accumulate(1, batch), loss)
	}
	r.zero(1)
	r.eval(DrawBatch(cfg, 2, 17, 9))
	r.sameState("after Eval", r.save(), s)
	r.sameBits("slot 0 after Eval", r.read(0), slot)
	r.sameBits("slot 1 after Eval", r.read(1), make([]float32, r.layout.Size))
}

// checkNotFinite: a NaN is an answer, not an error, and leaves nothing behind.
func checkNotFinite(t tester, open opener) {
	cfg := tiny()
	batch := DrawBatch(cfg, 2, cfg.Context, 2)
	good := DrawState(cfg, 1)
	r := mount(t, open, cfg, 2, 1, good)
	loss, grad := r.gradientOf(0, batch)
	for _, name := range []string{"wpe", "layer0.attn_wq", "layer1.attn_wv", "layer1.attn_wo", "lm_head"} {
		bad := DrawState(cfg, 1)
		tensor, _ := r.layout.Tensor(name)
		bad.W[tensor.Offset] = float32(math.NaN())
		r.load(bad)
		badLoss, badGrad := r.gradientOf(0, batch)
		if !math.IsNaN(badLoss.Sum) || badLoss.Tokens != loss.Tokens {
			t.Fatalf("with a NaN in %s the loss is %v of %d tokens, want NaN of %d", name, badLoss.Sum, badLoss.Tokens, loss.Tokens)
		}
		if largest(convert[float64](badGrad), nil) < math.Inf(1) {
			t.Fatalf("with a NaN in %s the gradient is finite", name)
		}
		r.load(good)
		goodLoss, goodGrad := r.gradientOf(0, batch)
		r.sameLoss("after a NaN in "+name, goodLoss, loss)
		r.sameBits("gradient after a NaN in "+name, goodGrad, grad)
	}
}
