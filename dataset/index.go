package dataset

import (
	"errors"
	"fmt"
	"math"
)

// Far above any model and any corpus, these keep all sums and products far from overflow.
const (
	maxContext = 1 << 24 // T
	maxTokens  = 1 << 56
)

// Index says how the tokens of a dataset fall into windows for one context length, and which windows
// are held out:
//
//	Windows    N = (Tokens-1) / T           window w = tokens w·T .. w·T+T (both ends included)
//	Leftover     = Tokens - (N·T + 1)       tokens at the end that no window holds
//	Validation   = ceil(fraction · N)       the last windows of the stream, never trained on
//	Training     = N - Validation           windows 0 .. Training-1
//
// Neighbouring windows share one token: the last target of one is the first input of the next. So
// the first validation window's first input is seen in training as a target, but no token that is
// predicted in validation is ever predicted in training.
type Index struct {
	Tokens     uint64 // in the whole dataset
	Context    uint64 // T, inputs per window
	Windows    uint64
	Training   uint64
	Validation uint64
	Leftover   uint64 // tokens
}

// NewIndex computes the index of a dataset of so many tokens for context length T (context) and a
// validation fraction in [0, 1). The product fraction·N is taken in float64 and rounded up, so any
// fraction above zero holds out at least one window. It fails, naming every fault, when the context
// is out of range, the fraction is, or the dataset has fewer than T+1 tokens.
func NewIndex(tokens uint64, context int, fraction float64) (Index, error) {
	var faults []error
	if context < 1 || context > maxContext {
		faults = append(faults, fmt.Errorf("context: %d is not in 1..%d", context, maxContext))
	} else if tokens < uint64(context)+1 {
		faults = append(faults, fmt.Errorf("dataset: it has %d tokens, but one window of context %d needs %d: use more text or a smaller context",
			tokens, context, context+1))
	}
	if tokens > maxTokens {
		faults = append(faults, fmt.Errorf("dataset: %d tokens are more than the %d that can be counted", tokens, uint64(maxTokens)))
	}
	if !(fraction >= 0 && fraction < 1) { // written so that NaN is refused
		faults = append(faults, fmt.Errorf("validation fraction: %v is not in [0, 1)", fraction))
	}
	if len(faults) > 0 {
		return Index{}, errors.Join(faults...)
	}
	ix := Index{Tokens: tokens, Context: uint64(context)}
	ix.Windows = (tokens - 1) / ix.Context
	ix.Leftover = (tokens - 1) % ix.Context
	ix.Validation = min(ix.Windows, uint64(math.Ceil(fraction*float64(ix.Windows))))
	ix.Training = ix.Windows - ix.Validation
	return ix, nil
}

// Span returns where window w lies in the token stream: its first token and its T+1 tokens.
func (ix Index) Span(w uint64) (start uint64, tokens int) {
	return w * ix.Context, int(ix.Context) + 1
}

// ValidationWindows returns the first n validation windows in stream order, the same for every step
// and run; fewer when the validation slice has fewer, none for n <= 0. The caller owns the slice.
func (ix Index) ValidationWindows(n int) []uint64 {
	count := min(uint64(max(n, 0)), ix.Validation)
	windows := make([]uint64, count)
	for i := range windows {
		windows[i] = ix.Training + uint64(i)
	}
	return windows
}
