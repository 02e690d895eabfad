package bench

import (
	"time"

	"andrea/model"
)

// Decoding is text read token by token.
type Decoding struct {
	Variant string
	Behind  int // tokens before the first
	Tokens  int // that a timed piece reads
	Timing
}

// decodedTokens is how many tokens are read behind half a context.
const decodedTokens = 16

// decode times generation without the choice of tokens.
func decode(m *meter, c model.Config) (Decoding, error) {
	e, batch, err := open(m, c, 1)
	if err != nil {
		return Decoding{}, err
	}
	defer e.Close()
	behind, logits, read := c.Context/2, make([]float32, c.Vocab), c.Context
	timing, err := m.time(4*time.Second, func() error {
		if read+decodedTokens > c.Context {
			read = behind
			if err := e.Begin(batch.Tokens[:behind], logits); err != nil {
				return err
			}
		}
		for range decodedTokens {
			if err := e.Next(batch.Tokens[read], logits); err != nil {
				return err
			}
			read++
		}
		return nil
	})
	return Decoding{Variant: c.Variant, Behind: behind, Tokens: decodedTokens, Timing: timing}, err
}
