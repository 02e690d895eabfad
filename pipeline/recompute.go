package pipeline

import "andrea/model"

// What follows is for whoever recomputes a run from its plan and its records, and compares: the numbers that a
// coordinator settles.

// Hyper is what AdamW uses in a step, counted from 1.
func (p *Plan) Hyper(step int64) model.Hyper { return p.Spec.hyper(step) }

// Scale is what the summed gradient of a step is multiplied by: clip factor / tokens. norm is that of the mean
// gradient.
func (p *Plan) Scale(norm float64, tokens int64) float32 { return p.Spec.scale(norm, tokens) }

// SquaresOf returns the sums of squares of an engine's slot, by bucket.
func SquaresOf(e model.Engine, slot, buckets int) ([]Float, error) {
	sums := make([]float64, buckets)
	if err := e.SumSquares(slot, sums); err != nil {
		return nil, err
	}
	squares := make([]Float, buckets)
	for i, sum := range sums {
		squares[i] = Float(sum)
	}
	return squares, nil
}

// GradNorm is the norm of the mean gradient, from the sums of squares of the summed one, by bucket.
func GradNorm(sumSquares []Float, tokens int64) float64 { return gradNorm(sumSquares, tokens) }

// EvalDue reports that a step's commit record carries a validation loss.
func (p *Plan) EvalDue(step int64) bool {
	every := p.Spec.Eval.Every
	return len(p.ValidationWindows) > 0 && (step%every == 0 || step == p.Spec.Steps)
}
