package pipeline

import (
	"math"
	"testing"

	"andrea/model"
)

// scheduled is the default job with another warm-up.
func scheduled(warmup int64) JobSpec {
	spec := DefaultJobSpec() // lr 1e-3, min_lr 1e-4, 50 steps
	spec.Optimizer.WarmupSteps = warmup
	return spec
}

func TestLearningRate(t *testing.T) {
	for _, c := range []struct {
		name   string
		warmup int64
		step   int64
		want   float64
	}{
		{"first", 20, 1, 5e-5},
		{"half of the warm-up", 20, 10, 5e-4},
		{"end of the warm-up", 20, 20, 1e-3},
		{"a third of the decay", 20, 30, 7.75e-4}, // cos(π/3) = 1/2
		{"half of the decay", 20, 35, 5.5e-4},
		{"two thirds of the decay", 20, 40, 3.25e-4},
		{"last", 20, 50, 1e-4},
		{"past the last", 20, 51, 1e-4},
		{"far past the last", 20, 1 << 40, 1e-4},
		{"no warm-up, half", 0, 25, 5.5e-4},
		{"no warm-up, first", 0, 1, 1e-4 + 9e-4*(1+math.Cos(math.Pi/50))/2},
		{"warm-up to the end", 50, 50, 1e-3},
		{"warm-up to the end, before", 50, 25, 5e-4},
		{"warm-up to the end, past", 50, 51, 1e-4},
		{"warm-up beyond the end", 100, 50, 5e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := scheduled(c.warmup).learningRate(c.step); math.Abs(got-c.want) > 1e-15 {
				t.Errorf("step %d: %v, want %v", c.step, got, c.want)
			}
		})
	}
}

func TestLearningRateRisesAndFalls(t *testing.T) {
	for _, warmup := range []int64{0, 1, 20, 49, 50, 60} {
		spec := scheduled(warmup)
		before := 0.0
		for step := int64(1); step <= spec.Steps; step++ {
			rate := spec.learningRate(step)
			if rising := step <= warmup; (rate > before) != rising && step > 1 {
				t.Errorf("warm-up %d: step %d has %v after %v", warmup, step, rate, before)
			}
			if rate <= 0 || rate > spec.Optimizer.LR {
				t.Errorf("warm-up %d: step %d has %v", warmup, step, rate)
			}
			before = rate
		}
	}
}

// The bits of the schedule are part of the bits of the weights, on every machine. An
// independent program computed these from the formulas of the doc comments.
func TestScheduleGolden(t *testing.T) {
	spec := scheduled(20)
	var rates, corrections []float32
	for step := int64(1); step <= 50; step++ {
		h := spec.hyper(step)
		rates = append(rates, h.LR)
		corrections = append(corrections, h.Correction1, h.Correction2)
	}
	if got, want := model.DigestOf(model.Weight, 0, rates).String(), "4aed32ed7536d15c2652e273a8c97498"; got != want {
		t.Errorf("rates have digest %s, want %s: %v", got, want, rates)
	}
	if got, want := model.DigestOf(model.Weight, 0, corrections).String(), "67c2f42bbf91e9308367497a72eb4390"; got != want {
		t.Errorf("corrections have digest %s, want %s: %v", got, want, corrections)
	}
}

func TestHyper(t *testing.T) {
	spec := scheduled(20)
	got := spec.hyper(3)
	want := model.Hyper{
		LR: 1.5e-4, Beta1: 0.9, OneMinusBeta1: float32(1 - 0.9), Beta2: 0.95, OneMinusBeta2: float32(1 - 0.95),
		Correction1: 0.271, Correction2: 0.142625, Eps: 1e-8, Decay: 0.1,
	}
	if got != want {
		t.Errorf("hyper = %+v, want %+v", got, want)
	}
	spec.Optimizer.Betas = []float64{0, 0.5}
	if h := spec.hyper(1 << 40); h.Correction1 != 1 || h.Correction2 != 1 || h.Beta1 != 0 || h.OneMinusBeta1 != 1 {
		t.Errorf("hyper = %+v: late corrections are 1", h)
	}
}

func TestNormAndScale(t *testing.T) {
	if got := gradNorm([]Float{9, 16}, 10); got != 0.5 {
		t.Errorf("the norm is %v, want sqrt(25)/10", got)
	}
	// The buckets are added in order: another order would lose the small ones.
	if got := gradNorm([]Float{1, 1, 0x1p53}, 1); got != math.Sqrt(0x1p53+2) {
		t.Errorf("the norm is %v", got)
	}
	spec := DefaultJobSpec()
	for _, c := range []struct {
		clip, norm float64
		want       float32
	}{
		{1, 0, 1.0 / 8}, {1, 0.5, 1.0 / 8}, {1, 1, 1.0 / 8}, {1, 2, 1.0 / 16}, {0.5, 2, 1.0 / 32},
		{0, 1e30, 1.0 / 8}, // no clipping
	} {
		spec.Optimizer.GradClip = c.clip
		if got := spec.scale(c.norm, 8); got != c.want {
			t.Errorf("clip %v, norm %v: scale %v, want %v", c.clip, c.norm, got, c.want)
		}
	}
}
