package generate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"andrea/numeric"
)

// sampler draws ids from logits.
type sampler struct {
	temperature float64
	topK        int
	seed        uint64
	ids         []uint32  // candidates of the present token
	weights     []float64 // theirs, not divided by their sum
}

func newSampler(o Options) *sampler {
	k := o.TopK
	if k == 0 || k > o.Vocab {
		k = o.Vocab
	}
	return &sampler{
		temperature: o.Temperature, topK: k, seed: o.Seed,
		ids: make([]uint32, 0, o.Vocab), weights: make([]float64, 0, k),
	}
}

// sample returns the id of token n of the text. Of equal logits the one with the lower id comes first,
// so that nothing but the logits and (seed, n) decides.
func (s *sampler) sample(logits []float32, n uint64) (uint32, error) {
	best := 0
	for i, x := range logits {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, fmt.Errorf("the logit of id %d is %v: the model is broken: take an earlier checkpoint", i, x)
		}
		if x > logits[best] {
			best = i
		}
	}
	if s.temperature == 0 || s.topK == 1 {
		return uint32(best), nil
	}
	s.candidates(logits)
	return s.draw(logits, float64(logits[best]), uniform(s.seed, n)), nil
}

// candidates fills s.ids with the topK ids to draw from.
func (s *sampler) candidates(logits []float32) {
	s.ids = s.ids[:0]
	for i := range logits {
		s.ids = append(s.ids, uint32(i))
	}
	if s.topK == len(logits) {
		return // all are drawn from: by id is as good an order
	}
	slices.SortFunc(s.ids, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
	s.ids = s.ids[:s.topK]
}

// draw returns the candidate at which the running sum of weights e^((logit-top)/temperature) passes the
// part u of the whole sum.
func (s *sampler) draw(logits []float32, top, u float64) uint32 {
	s.weights = s.weights[:0]
	total := 0.0
	for _, id := range s.ids {
		w := numeric.Exp((float64(logits[id]) - top) / s.temperature)
		s.weights = append(s.weights, w)
		total += w
	}
	target := float64(u * total)
	sum, last := 0.0, s.ids[0]
	for i, w := range s.weights {
		if w == 0 {
			continue
		}
		sum, last = sum+w, s.ids[i]
		if target < sum {
			break
		}
	}
	return last // of all that weigh something, where rounding took target up to the whole sum
}

// uniform returns number n of the sequence of seed: the middle of one of 2^52 equal parts of (0, 1).
func uniform(seed, n uint64) float64 {
	return (float64(numeric.Mix64(numeric.Mix64(seed)+n)>>12) + 0.5) * 0x1p-52
}
