package cpuengine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/enginetest"
	"andrea/model"
)

var update = flag.Bool("update", false, "write the golden bits anew, with those of the portable path")

// small is a shape with several tiles of queries and keys and a ragged last one.
func small() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 24, 3, 2, keyTile+30, 67
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

// hash identifies the bits of slices.
func hash(slices ...[]float32) string {
	h := sha256.New()
	for _, s := range slices {
		for _, f := range s {
			h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(f)))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// fingerprint runs two microbatches, a fold and an update, and returns the bits of
// every loss, gradient and state on the way.
func fingerprint(t *testing.T, c model.Config, o Options) string {
	t.Helper()
	e := open(t, c, o)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	for i, windows := range []int{o.Microbatch, 1} {
		b := enginetest.DrawBatch(c, windows, c.Context-i, uint64(i))
		eval, err := e.Eval(b)
		must(err)
		loss, err := e.Accumulate(i, b)
		must(err)
		fmt.Fprintf(&log, "eval %x loss %x\ngradient %v\n", math.Float64bits(eval.Sum), math.Float64bits(loss.Sum), hash(e.slots[i].flat))
	}
	must(e.Fold(0, 1))
	_, err := e.Update(0, 1.0/256, hyper)
	must(err)
	logits := make([]float32, c.Vocab)
	must(e.Logits(enginetest.DrawBatch(c, 1, c.Context, 2).Tokens[:c.Context], c.Context/2, logits))
	fmt.Fprintf(&log, "state %v\nlogits %v\n", hash(e.params.flat, e.m, e.v), hash(logits))
	return log.String()
}

// The bits are the promise: these were computed once and hold on every machine, for
// every path and any number of threads. They change only in a commit that raises
// model.Numerics and says why.
func TestBits(t *testing.T) {
	for _, activation := range []model.Activation{model.ReLUSquared, model.ReLU} {
		c := small()
		c.Activation, c.FinalNorm = activation, activation == model.ReLU
		golden := filepath.Join("testdata", "bits-"+string(activation)+".golden")
		if *update {
			bits := fingerprint(t, c, Options{Microbatch: 2, Slots: 2, Threads: 1, Path: "portable"})
			if err := os.WriteFile(golden, []byte(bits), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range kernel.Paths() {
			for _, threads := range []int{1, 2, 7} {
				if i > 0 && (threads != 2 || underRace) {
					continue // the division of the work does not depend on the path
				}
				got := fingerprint(t, c, Options{Microbatch: 2, Slots: 2, Threads: threads, Path: path.String()})
				if got != string(want) {
					t.Errorf("%v, %s, %d threads:\n%swant\n%s", activation, path, threads, got, want)
				}
			}
		}
	}
}

// Drawn shapes reach the edges of tiles, panels and vectors that the golden shape
// does not. The race detector looks into the portable path alone, not into assembly:
// two shapes of it show whole steps on three threads, more would take minutes.
func TestBitsAtDrawnShapes(t *testing.T) {
	rng, draws := rand.New(rand.NewPCG(7, 7)), 8
	if underRace {
		draws = 2
	}
	for range draws {
		c := model.DefaultSwitches()
		c.NHead, c.NLayer = 1+rng.IntN(3), 1
		c.DModel = c.NHead * (1 + rng.IntN(26))
		c.Context, c.Vocab = 2+rng.IntN(queryTile+20), 1+rng.IntN(300)
		c.EmbedNorm, c.FinalNorm = rng.IntN(2) == 0, rng.IntN(2) == 0
		windows, want := 1+rng.IntN(3), ""
		for i, path := range kernel.Paths() {
			got := fingerprint(t, c, Options{Microbatch: windows, Slots: 2, Threads: 1 + i, Path: path.String()})
			if i == 0 {
				want = got
			} else if got != want {
				t.Errorf("%+v, %s:\n%swant\n%s", c, path, got, want)
			}
		}
	}
}

func TestLossAtInitOf12M(t *testing.T) {
	if underRace {
		t.Skip("under the race detector drawing 12M weights takes half a minute: smaller shapes run the same code")
	}
	if len(kernel.Paths()) == 1 {
		t.Skip("only the portable path runs here: the forward pass would take half a minute")
	}
	c, err := model.Variant("12m")
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, c, Options{Microbatch: 1, Slots: 1})
	for b := range e.layout.Buckets() {
		lo, hi := e.layout.Bucket(b)
		w := make([]float32, hi-lo)
		e.layout.InitBucket(1, b, w)
		if err := e.Load(b, w, e.m[lo:hi], e.v[lo:hi]); err != nil {
			t.Fatal(err)
		}
	}
	loss, err := e.Eval(enginetest.DrawBatch(c, 1, 256, 1))
	if err != nil {
		t.Fatal(err)
	}
	if want := 7.820; math.Abs(loss.Mean()-want) > 0.1 {
		t.Errorf("loss %v, want %v within 0.1", loss.Mean(), want)
	}
}

// The parts add up to the time of the calls, and each call moves its own parts.
func TestPartsFollowTheCalls(t *testing.T) {
	c := small()
	e := open(t, c, Options{Microbatch: 1, Slots: 2, Threads: 2})
	if e.Parts() != (Parts{}) {
		t.Errorf("a new engine has used %+v", e.Parts())
	}
	if err := e.Fold(0, 1); err != nil {
		t.Fatal(err)
	}
	if p := e.Parts(); p.Optimizer <= 0 || p.Total() != p.Optimizer {
		t.Errorf("after Fold: %+v", p)
	}
	if _, err := e.Accumulate(0, enginetest.DrawBatch(c, 1, c.Context, 1)); err != nil {
		t.Fatal(err)
	}
	if p := e.Parts(); p.MatMul <= 0 || p.Attention <= 0 || p.Pointwise <= 0 || p.CrossEntropy <= 0 {
		t.Errorf("after Accumulate: %+v", p)
	}
}
