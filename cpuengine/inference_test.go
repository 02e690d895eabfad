package cpuengine

import (
	"math"
	"strings"
	"testing"

	"andrea/enginetest"
	"andrea/model"
)

// openForInference returns an engine without slots with the weights that open draws.
func openForInference(t *testing.T, c model.Config, threads int) *Engine {
	t.Helper()
	e, err := New(c, Options{Microbatch: 1, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s := enginetest.DrawState(c, 1)
	for b := range e.layout.Buckets() {
		lo, hi := e.layout.Bucket(b)
		if err := e.Load(b, s.W[lo:hi], nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// Without slots the engine computes the bits of one that trains, whichever calls came before.
func TestInferenceGivesTheBitsOfTraining(t *testing.T) {
	base, switches := small(), small()
	switches.FinalNorm, switches.EmbedNorm, switches.Activation = true, false, model.ReLU
	for _, c := range []model.Config{base, switches} {
		e, want := openForInference(t, c, 3), open(t, c, Options{Microbatch: 1, Slots: 2, Threads: 2})
		b := enginetest.DrawBatch(c, 1, c.Context, 5)
		if _, err := want.Accumulate(0, b); err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func(e *Engine, dst []float32) error{
			"Logits": func(e *Engine, dst []float32) error { return e.Logits(b.Tokens[:c.Context], c.Context-2, dst) },
			"Begin":  func(e *Engine, dst []float32) error { return e.Begin(b.Tokens[:keyTile+3], dst) },
			"Next": func(e *Engine, dst []float32) error {
				if err := e.Begin(b.Tokens[:keyTile-1], dst); err != nil {
					return err
				}
				return e.Next(b.Tokens[keyTile-1], dst)
			},
			"Eval": func(e *Engine, dst []float32) error {
				loss, err := e.Eval(b)
				bits := math.Float64bits(loss.Sum)
				dst[0], dst[1] = math.Float32frombits(uint32(bits)), math.Float32frombits(uint32(bits>>32))
				return err
			},
		} {
			var bits [2]string
			for i, e := range []*Engine{e, want} {
				dst := make([]float32, c.Vocab)
				if err := call(e, dst); err != nil {
					t.Fatal(err)
				}
				bits[i] = hash(dst)
			}
			if bits[0] != bits[1] {
				t.Errorf("%s without slots: other bits than with them", name)
			}
		}
	}
}

// What needs gradients or moments says so and changes nothing; Load takes the weights alone.
func TestInferenceRefusesTraining(t *testing.T) {
	c := small()
	e, b := openForInference(t, c, 1), enginetest.DrawBatch(c, 1, 5, 1)
	flat := make([]float32, e.layout.Size)
	before := hash(e.params.flat)
	for name, call := range map[string]func() error{
		"Save":        func() error { return e.Save(0, flat, flat, flat) },
		"Accumulate":  func() error { _, err := e.Accumulate(0, b); return err },
		"Zero":        func() error { return e.Zero(0) },
		"Fold":        func() error { return e.Fold(0, 0) },
		"ReadGrad":    func() error { return e.ReadGrad(0, 0, flat) },
		"WriteGrad":   func() error { return e.WriteGrad(0, 0, flat) },
		"SumSquares":  func() error { _, err := e.SumSquares(0, 0); return err },
		"Update":      func() error { _, err := e.Update(0, 1, hyper); return err },
		"GradDigest":  func() error { _, err := e.GradDigest(0, 0); return err },
		"StateDigest": func() error { _, err := e.StateDigest(0); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "0 slots, for inference alone") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, err := range map[string]error{
		"buckets 0 to 0": e.Load(1, flat, nil, nil),
		"slice has":      e.Load(0, flat[1:], nil, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if hash(e.params.flat) != before {
		t.Error("a refused call changed the weights")
	}
}

// With moments in the engine a Load without them is an error.
func TestTrainingNeedsMoments(t *testing.T) {
	e := open(t, small(), Options{Microbatch: 1, Slots: 1, Threads: 1})
	if err := e.Load(0, make([]float32, e.layout.Size), nil, nil); err == nil || !strings.Contains(err.Error(), "0 elements") {
		t.Errorf("loading without moments: %v", err)
	}
}

// Reading text with the largest variant takes its weights, 1.92 GB, and the activations of
// one layer; with a single slot it would be four such vectors and every layer's.
func TestMemoryOfInferenceOf480M(t *testing.T) {
	c, err := model.Variant("480m")
	if err != nil {
		t.Fatal(err)
	}
	n, err := Bytes(c, Options{Microbatch: 1, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if rest := n - 4*c.Parameters(); rest < 0 || rest > 130e6 {
		t.Errorf("%d bytes beside the weights", rest)
	}
}
