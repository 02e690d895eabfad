//go:build cuda && cgo && linux

package cudaengine

import (
	"fmt"
	"math"
	"testing"

	"andrea/cpuengine"
	"andrea/enginetest"
	"andrea/model"
	"andrea/numeric"
)

// small is a shape with all parts, fast heads and a ragged vocabulary.
func small() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 64, 2, 2, 20, 61
	return c
}

func load(t testing.TB, e model.Engine, c model.Config, s enginetest.State) {
	t.Helper()
	l := model.NewLayout(c)
	for b := range l.Buckets() {
		lo, hi := l.Bucket(b)
		if err := e.Load(b, s.W[lo:hi], s.M[lo:hi], s.V[lo:hi]); err != nil {
			t.Fatal(err)
		}
	}
}

func save(t testing.TB, e model.Engine, c model.Config) enginetest.State {
	t.Helper()
	l := model.NewLayout(c)
	s := enginetest.State{W: make([]float32, l.Size), M: make([]float32, l.Size), V: make([]float32, l.Size)}
	for b := range l.Buckets() {
		lo, hi := l.Bucket(b)
		if err := e.Save(b, s.W[lo:hi], s.M[lo:hi], s.V[lo:hi]); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// initial is the state in which training begins.
func initial(c model.Config) enginetest.State {
	l := model.NewLayout(c)
	s := enginetest.State{W: make([]float32, l.Size), M: make([]float32, l.Size), V: make([]float32, l.Size)}
	for b := range l.Buckets() {
		lo, hi := l.Bucket(b)
		l.InitBucket(1, b, s.W[lo:hi])
	}
	return s
}

// train takes an engine from step first to step last, each of two lanes that are folded, on batches that the step alone
// decides. It returns the mean loss of every step and the last state's digest.
func train(t testing.TB, e model.Engine, c model.Config, first, last int) (losses []float64, digest model.Digest) {
	t.Helper()
	for s := first; s <= last; s++ {
		var total model.Loss
		for lane := range 2 {
			if err := e.Zero(lane); err != nil {
				t.Fatal(err)
			}
			loss, err := e.Accumulate(lane, patterned(c, 1+s%2, uint64(2*s+lane)))
			if err != nil {
				t.Fatal(err)
			}
			total = total.Add(loss)
		}
		if err := e.Fold(0, 1); err != nil {
			t.Fatal(err)
		}
		h := model.Hyper{
			LR: 0.01, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05, Eps: 1e-8, Decay: 0.1,
			Correction1: float32(1 - numeric.PowInt(0.9, int64(s))), Correction2: float32(1 - numeric.PowInt(0.95, int64(s))),
		}
		var err error
		if digest, err = e.Update(0, 1/float32(total.Tokens), h); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, total.Mean())
	}
	return losses, digest
}

// patterned is a batch with something to learn: a token is followed by its triple.
func patterned(c model.Config, windows int, seed uint64) model.Batch {
	b := enginetest.DrawBatch(c, windows, c.Context, seed)
	for w := range windows {
		window := b.Window(w)
		for i := 1; i < len(window); i++ {
			if window[i]%8 != 0 {
				window[i] = window[i-1] * 3 % uint32(c.Vocab)
			}
		}
	}
	return b
}

// modes are the orders in which the software device may run threads, land copies and work off streams.
func modes() (list []map[string]string) {
	for _, order := range []string{"fwd", "rev", "rand:1"} {
		for _, copies := range []string{"late", "early"} {
			for _, streams := range []string{"eager", "lazy", "rand:1"} {
				list = append(list, map[string]string{"SOFTCUDA_ORDER": order, "SOFTCUDA_CP": copies, "SOFTCUDA_STREAMS": streams})
			}
		}
	}
	return list
}

// The bits of a step are the same in every mode of the software device.
func TestModesComputeTheSameBits(t *testing.T) {
	softwareOnly(t)
	c := small()
	for _, precision := range precisions {
		var want model.Digest
		for i, mode := range modes() {
			if testing.Short() && i%7 != 0 {
				continue
			}
			for name, value := range mode {
				t.Setenv(name, value)
			}
			e := open(t, c, Options{Microbatch: 2, Slots: 2, Precision: precision})
			load(t, e, c, enginetest.DrawState(c, 1))
			_, got := train(t, e, c, 1, 1)
			if i == 0 {
				want = got
			} else if got != want {
				t.Errorf("%s in mode %v: state %v, want %v", precision, mode, got, want)
			}
		}
	}
}

// goldenFP32 is the digest of the state after 20 steps in fp32, on every device.
const goldenFP32 = "bf01219dab493115f827419edaf716df"

// A run that is ended after step 8 and resumed by another engine from what it saved ends in the same bits.
func TestResumeGivesTheSameBits(t *testing.T) {
	c := small()
	for _, precision := range precisions {
		o := Options{Microbatch: 2, Slots: 2, Precision: precision}
		whole := open(t, c, o)
		load(t, whole, c, initial(c))
		_, want := train(t, whole, c, 1, 20)
		if precision == FP32 && want.String() != goldenFP32 {
			t.Errorf("in fp32 the state after 20 steps is %v, want %v: if the change of bits is meant, raise model.Numerics", want, goldenFP32)
		}

		first := open(t, c, o)
		load(t, first, c, initial(c))
		train(t, first, c, 1, 8)
		second := open(t, c, Options{Microbatch: 5, Slots: 3, Precision: precision})
		load(t, second, c, save(t, first, c))
		if _, got := train(t, second, c, 9, 20); got != want {
			t.Errorf("%s: resumed %v, uninterrupted %v", precision, got, want)
		}
	}
}

// Both engines learn alike: losses agree over a run, and either goes on from the other's state.
func TestAgreesWithTheCPUEngine(t *testing.T) {
	c := small()
	cpu := func() model.Engine {
		e, err := cpuengine.New(c, cpuengine.Options{Microbatch: 2, Slots: 2, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	for precision, tolerance := range map[string]float64{FP32: 1e-4, BF16: 2e-2} {
		t.Run(precision, func(t *testing.T) {
			other, gpu := cpu(), open(t, c, Options{Microbatch: 2, Slots: 2, Precision: precision})
			load(t, other, c, initial(c))
			load(t, gpu, c, initial(c))
			want, _ := train(t, other, c, 1, 20)
			got, _ := train(t, gpu, c, 1, 20)
			compareLosses(t, "over 20 steps", got, want, tolerance)
			if !(want[19] < want[0]-0.5) {
				t.Errorf("the loss went from %v to %v: nothing was learnt, so nothing was compared", want[0], want[19])
			}

			exchanged, back := cpu(), open(t, c, Options{Microbatch: 2, Slots: 2, Precision: precision})
			load(t, exchanged, c, save(t, gpu, c))
			load(t, back, c, save(t, other, c))
			fromGPU, _ := train(t, exchanged, c, 21, 22)
			fromCPU, _ := train(t, back, c, 21, 22)
			compareLosses(t, "from each other's state", fromGPU, fromCPU, 2*tolerance)
		})
	}
}

func compareLosses(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(got[i] - want[i]); !(d <= tolerance) {
			t.Errorf("%s: the loss of step %d is %v, want %v to %v", what, i+1, got[i], want[i], tolerance)
		}
	}
}

// BenchmarkStep is a step of a small model on the software device, whose speed says nothing about a GPU.
func BenchmarkStep(b *testing.B) {
	c := small()
	for _, precision := range precisions {
		b.Run(fmt.Sprint(precision), func(b *testing.B) {
			e := open(b, c, Options{Microbatch: 2, Slots: 2, Precision: precision})
			load(b, e, c, initial(c))
			for i := 0; b.Loop(); i++ {
				train(b, e, c, i+1, i+1)
			}
			b.ReportMetric(float64(b.N*3*c.Context)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
