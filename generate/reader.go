package generate

import "andrea/dataset"

// reader shows a text to a predictor, as far as its context goes.
type reader struct {
	predictor   Predictor
	incremental Incremental // the same, nil if it is none
	context     int
	tokens      []uint32 // what the predictor is to see
	begun       bool     // an incremental one has read all but the last of them
}

// newReader returns the reader of a text that begins with BOS and the prompt.
func newReader(p Predictor, o Options) *reader {
	r := &reader{predictor: p, context: o.Context, tokens: append([]uint32{dataset.BOS}, o.Prompt...)}
	r.incremental, _ = p.(Incremental)
	r.slide()
	return r
}

// predict writes the logits of what follows the text.
func (r *reader) predict(logits []float32) error {
	last := len(r.tokens) - 1
	var err error
	switch {
	case r.incremental == nil:
		return r.predictor.Logits(r.tokens, last, logits)
	case !r.begun:
		err = r.incremental.Begin(r.tokens, logits)
	default:
		err = r.incremental.Next(r.tokens[last], logits)
	}
	r.begun = err == nil
	return err
}

// append adds a token to the text.
func (r *reader) append(id uint32) {
	r.tokens = append(r.tokens, id)
	r.slide()
}

// slide keeps the last half of a context of the text when that is longer than the context. Half, because
// a text that moved on by one token each time would be read at the last position only, and at the full
// context's cost for every token.
func (r *reader) slide() {
	if len(r.tokens) <= r.context {
		return
	}
	keep := max(1, r.context/2)
	r.tokens = r.tokens[:copy(r.tokens, r.tokens[len(r.tokens)-keep:])]
	r.begun = false // positions have changed
}
