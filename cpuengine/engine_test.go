package cpuengine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/enginetest"
	"andrea/model"
)

// small is a shape with several tiles of queries and keys and a ragged last one.
func small() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 48, 3, 2, keyTile+30, 67
	return c
}

// open returns an engine with drawn weights and moments.
func open(t testing.TB, c model.Config, o Options) *Engine {
	t.Helper()
	e, err := New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	load(t, e, enginetest.DrawState(c, 1))
	return e
}

func load(t testing.TB, e *Engine, s enginetest.State) {
	t.Helper()
	for b := range e.layout.Buckets() {
		lo, hi := e.layout.Bucket(b)
		if err := e.Load(b, s.W[lo:hi], s.M[lo:hi], s.V[lo:hi]); err != nil {
			t.Fatal(err)
		}
	}
}

var hyper = model.Hyper{
	LR: 1e-3, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05,
	Correction1: 0.1, Correction2: 0.05, Eps: 1e-8, Decay: 0.1,
}

// fingerprint runs two microbatches, a fold and an update, and returns every loss
// and digest on the way.
func fingerprint(t *testing.T, c model.Config, o Options) string {
	t.Helper()
	e := open(t, c, o)
	var log strings.Builder
	for i, n := range []int{o.Microbatch, 1} {
		b := enginetest.DrawBatch(c, n, c.Context-i, uint64(i))
		eval, err := e.Eval(b)
		if err != nil {
			t.Fatal(err)
		}
		loss, err := e.Accumulate(i, b)
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.GradDigest(i, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&log, "%x %x %v\n", math.Float64bits(eval.Sum), math.Float64bits(loss.Sum), d)
	}
	if err := e.Fold(0, 1); err != nil {
		t.Fatal(err)
	}
	d, err := e.Update(0, 1.0/256, hyper)
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, c.Vocab)
	if err := e.Logits([]uint32{1, 2, 3, 4, 5}, 3, logits); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&log, "%v %v", d, model.DigestOf(model.Weight, 0, logits))
	return log.String()
}

func TestBitsDependOnNeitherThreadsNorPath(t *testing.T) {
	c := small()
	for _, activation := range []model.Activation{model.ReLUSquared, model.ReLU} {
		c.Activation, c.FinalNorm = activation, activation == model.ReLU
		want := ""
		for _, path := range kernel.Paths() {
			for _, threads := range []int{1, 2, 7} {
				got := fingerprint(t, c, Options{Microbatch: 2, Slots: 2, Threads: threads, Path: path.String()})
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("%v, %s, %d threads:\n%s\nwant\n%s", activation, path, threads, got, want)
				}
			}
		}
	}
}
