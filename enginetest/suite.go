package enginetest

import (
	"math"
	"testing"

	"andrea/model"
)

// opener opens the engine under test for a valid config: batches of at most
// microbatch windows, and slots gradients.
type opener func(cfg model.Config, microbatch, slots int) model.Engine

// tester is what a check needs of *testing.T; the suite's own tests bring another,
// to see a check fail. Fatalf does not return.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// check is one thing that every engine must do.
type check struct {
	name string
	run  func(t tester, open opener)
}

// Run checks that the engines which open returns keep the contract of
// model.Engine and compute what the reference computes. open fails the test if it
// cannot open; Run closes.
func Run(t *testing.T, open func(t *testing.T, cfg model.Config, microbatch, slots int) model.Engine) {
	run(t, open, shapes)
}

// RunSmall is Run for slow engines: every check, fewer shapes against the
// reference.
func RunSmall(t *testing.T, open func(t *testing.T, cfg model.Config, microbatch, slots int) model.Engine) {
	run(t, open, smallShapes())
}

func run(t *testing.T, open func(t *testing.T, cfg model.Config, microbatch, slots int) model.Engine, shapes []shape) {
	for _, c := range checks(shapes) {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, func(cfg model.Config, microbatch, slots int) model.Engine {
				e := open(t, cfg, microbatch, slots)
				t.Cleanup(func() {
					if err := e.Close(); err != nil {
						t.Errorf("closing the engine: %v", err)
					}
				})
				return e
			})
		})
	}
}

// checks lists the suite.
func checks(shapes []shape) []check {
	list := []check{
		{"info", checkInfo},
		{"state_round_trip", checkStateRoundTrip},
		{"gradient_round_trip", checkGradientRoundTrip},
		{"zero", checkZero},
		{"fold", checkFold},
		{"sum_of_squares", checkSumSquares},
		{"digests", checkDigests},
		{"update_bits", checkUpdateBits},
		{"update_is_seen", checkUpdateIsSeen},
		{"repeats", checkRepeats},
		{"capacity_decides_nothing", checkCapacity},
		{"accumulate_touches_one_slot", checkAccumulateIsolation},
		{"reveal", checkReveal},
		{"eval", checkEval},
		{"causality", checkCausality},
		{"attention_rows", checkAttentionRows},
		{"windows_are_independent", checkWindowsAreIndependent},
		{"loss_at_init", checkLossAtInit},
		{"loss_with_zero_head", checkLossWithZeroHead},
		{"not_finite", checkNotFinite},
		{"arguments", checkArguments},
	}
	for _, s := range shapes {
		list = append(list, check{"reference/" + s.name(), s.check})
	}
	return list
}

// rig is an engine under test whose errors end the check.
type rig struct {
	t      tester
	engine model.Engine
	cfg    model.Config
	layout model.Layout
}

// mount opens an engine with zeroed slots and loads a state.
func mount(t tester, open opener, cfg model.Config, microbatch, slots int, s State) rig {
	t.Helper()
	r := rig{t, open(cfg, microbatch, slots), cfg, model.NewLayout(cfg)}
	for slot := range slots {
		r.zero(slot)
	}
	r.load(s)
	return r
}

func (r rig) ok(what string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

func (r rig) load(s State) {
	r.t.Helper()
	for b := range r.layout.Buckets() {
		lo, hi := r.layout.Bucket(b)
		r.ok("Load", r.engine.Load(b, s.W[lo:hi], s.M[lo:hi], s.V[lo:hi]))
	}
}

func (r rig) save() State {
	r.t.Helper()
	n := r.layout.Size
	s := State{make([]float32, n), make([]float32, n), make([]float32, n)}
	for b := range r.layout.Buckets() {
		lo, hi := r.layout.Bucket(b)
		r.ok("Save", r.engine.Save(b, s.W[lo:hi], s.M[lo:hi], s.V[lo:hi]))
	}
	return s
}

func (r rig) read(slot int) []float32 {
	r.t.Helper()
	g := make([]float32, r.layout.Size)
	for b := range r.layout.Buckets() {
		lo, hi := r.layout.Bucket(b)
		r.ok("ReadGrad", r.engine.ReadGrad(slot, b, g[lo:hi]))
	}
	return g
}

func (r rig) write(slot int, g []float32) {
	r.t.Helper()
	for b := range r.layout.Buckets() {
		lo, hi := r.layout.Bucket(b)
		r.ok("WriteGrad", r.engine.WriteGrad(slot, b, g[lo:hi]))
	}
}

func (r rig) zero(slot int) {
	r.t.Helper()
	r.ok("Zero", r.engine.Zero(slot))
}

func (r rig) fold(dst, src int) {
	r.t.Helper()
	r.ok("Fold", r.engine.Fold(dst, src))
}

func (r rig) eval(b model.Batch) model.Loss {
	r.t.Helper()
	loss, err := r.engine.Eval(b)
	r.ok("Eval", err)
	return loss
}

func (r rig) accumulate(slot int, b model.Batch) model.Loss {
	r.t.Helper()
	loss, err := r.engine.Accumulate(slot, b)
	r.ok("Accumulate", err)
	return loss
}

func (r rig) update(slot int, scale float32, h model.Hyper) model.Digest {
	r.t.Helper()
	d, err := r.engine.Update(slot, scale, h)
	r.ok("Update", err)
	return d
}

func (r rig) logits(tokens []uint32, position int) []float32 {
	r.t.Helper()
	dst := make([]float32, r.cfg.Vocab)
	r.ok("Logits", r.engine.Logits(tokens, position, dst))
	return dst
}

// sameBits fails unless both slices hold the same bits.
func (r rig) sameBits(what string, got, want []float32) {
	r.t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			r.t.Fatalf("%s: element %d is %v (%08x), want %v (%08x)", what, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

func (r rig) sameState(what string, got, want State) {
	r.t.Helper()
	r.sameBits(what+": weights", got.W, want.W)
	r.sameBits(what+": first moments", got.M, want.M)
	r.sameBits(what+": second moments", got.V, want.V)
}

func (r rig) sameLoss(what string, got, want model.Loss) {
	r.t.Helper()
	if math.Float64bits(got.Sum) != math.Float64bits(want.Sum) || got.Tokens != want.Tokens {
		r.t.Fatalf("%s: loss %v of %d tokens, want %v of %d", what, got.Sum, got.Tokens, want.Sum, want.Tokens)
	}
}
