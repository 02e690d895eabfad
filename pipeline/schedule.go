package pipeline

import (
	"math"

	"andrea/model"
	"andrea/numeric"
)

// learningRate is the rate of step t, counted from 1, in float64: linear to lr over
// the warm-up, then a half cosine down to min_lr at the last step, and min_lr after.
func (s JobSpec) learningRate(t int64) float64 {
	o := s.Optimizer
	switch {
	case t <= o.WarmupSteps:
		return o.LR * float64(t) / float64(o.WarmupSteps)
	case t >= s.Steps:
		return o.MinLR
	}
	phase := math.Pi * float64(t-o.WarmupSteps) / float64(s.Steps-o.WarmupSteps)
	return o.MinLR + float64(float64(o.LR-o.MinLR)*(1+numeric.Cos(phase)))/2
}

// hyper is what AdamW uses in step t, each value rounded to float32 once.
func (s JobSpec) hyper(t int64) model.Hyper {
	o := s.Optimizer
	b1, b2 := o.Betas[0], o.Betas[1]
	return model.Hyper{
		LR:            float32(s.learningRate(t)),
		Beta1:         float32(b1),
		OneMinusBeta1: float32(1 - b1),
		Beta2:         float32(b2),
		OneMinusBeta2: float32(1 - b2),
		Correction1:   float32(1 - numeric.PowInt(b1, t)),
		Correction2:   float32(1 - numeric.PowInt(b2, t)),
		Eps:           float32(o.Eps),
		Decay:         float32(o.WeightDecay),
	}
}

// gradNorm is the norm of the mean gradient: the sums of squares of the buckets are
// added by bucket index.
func gradNorm(sumSquares []Float, tokens int64) float64 {
	var sum float64
	for _, s := range sumSquares {
		sum += float64(s)
	}
	return math.Sqrt(sum) / float64(tokens)
}

// scale turns the gradient of the loss sum into the clipped mean gradient.
func (s JobSpec) scale(norm float64, tokens int64) float32 {
	clip := 1.0
	if max := s.Optimizer.GradClip; max > 0 && norm > max {
		clip = max / norm
	}
	return float32(clip / float64(tokens))
}
