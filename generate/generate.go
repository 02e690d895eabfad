package generate

import (
	"context"
	"errors"
	"fmt"
	"math"

	"andrea/dataset"
)

// Predictor computes logits; model.Engine is one.
type Predictor interface {
	// Logits runs the forward pass over 1 to context tokens and writes the logits of what follows
	// tokens[position] into dst.
	Logits(tokens []uint32, position int, dst []float32) error
}

// Incremental is a predictor that keeps what it computed of the tokens read so far, so that a further
// one costs little. It must give the logits that Logits gives for all of them: Text uses it where it can.
type Incremental interface {
	Predictor
	// Begin forgets what was read, reads 1 to context tokens and writes the logits of what follows
	// them into dst.
	Begin(tokens []uint32, dst []float32) error
	// Next reads one token behind those and writes the logits of what follows it into dst.
	Next(token uint32, dst []float32) error
}

// Options say what to sample, and how.
type Options struct {
	Context     int      // T, tokens that the model sees; 1 or more
	ModelVocab  int      // logits of the model; at least Vocab
	Vocab       int      // ids of the tokenizer; ids from here on stand for nothing and are never sampled
	Prompt      []uint32 // what follows BOS; may be empty. Only read
	MaxTokens   int      // tokens to sample
	Temperature float64  // divides the logits: below 1 likely tokens become likelier, 0 always takes the likeliest
	TopK        int      // only the K likeliest tokens are sampled; 0: all
	Seed        uint64
	PastEnd     bool // go on when the model ends its document by BOS; else that ends the text
}

// check returns every fault of the options.
func (o Options) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Context < 1 {
		fault("context: %d: must be 1 or more", o.Context)
	}
	if o.Vocab <= dataset.BOS || o.Vocab > o.ModelVocab {
		fault("vocab: the tokenizer has %d ids and the model %d: must be %d up to the model's: does the tokenizer belong to the model?",
			o.Vocab, o.ModelVocab, dataset.BOS+1)
	}
	for i, id := range o.Prompt {
		if int64(id) >= int64(o.Vocab) {
			fault("prompt: token %d has id %d: the tokenizer has %d ids", i, id, o.Vocab)
			break
		}
	}
	if o.MaxTokens < 0 {
		fault("max_tokens: %d: must not be negative", o.MaxTokens)
	}
	if !(o.Temperature >= 0) || math.IsInf(o.Temperature, 1) {
		fault("temperature: %v: must be a number from 0 up", o.Temperature)
	}
	if o.TopK < 0 {
		fault("top_k: %d: must not be negative", o.TopK)
	}
	if len(faults) > 0 {
		return fmt.Errorf("generating text: %w", errors.Join(faults...))
	}
	return nil
}

// Text samples MaxTokens tokens and hands each to emit, BOS too when PastEnd is set. It ends earlier
// when the model ends its document, with ctx's error when ctx is done, and with emit's error as it is
// when emit fails. Logits that are not finite are an error.
func Text(ctx context.Context, p Predictor, o Options, emit func(id uint32) error) error {
	if err := o.check(); err != nil {
		return err
	}
	r := newReader(p, o)
	logits := make([]float32, o.ModelVocab)
	s := newSampler(o)
	for n := range o.MaxTokens {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.predict(logits); err != nil {
			return fmt.Errorf("generating token %d: %w", n, err)
		}
		id, err := s.sample(logits[:o.Vocab], uint64(n))
		if err != nil {
			return fmt.Errorf("generating token %d: %w", n, err)
		}
		if id == dataset.BOS && !o.PastEnd {
			return nil
		}
		if err := emit(id); err != nil {
			return err
		}
		r.append(id)
	}
	return nil
}
