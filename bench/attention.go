package bench

import (
	"fmt"
	"time"

	"andrea/model"
)

// Attention is causal attention of one window in one layer of a variant.
type Attention struct {
	Variant string
	Way     string  // forward or backward
	FLOPs   float64 // of the visible half: 2·T²·d forward, twice that backward
	Timing
}

// attentionLayers is the depth of the model that attention is timed in, attentionVocab its
// vocabulary: as little as possible of all else.
const (
	attentionLayers = 2
	attentionVocab  = 64
)

// attentions times attention where it stands in a pass, by the engine's own clock.
func attentions(m *meter, c model.Config) ([]Attention, error) {
	variant := c.Variant
	c.Variant, c.NLayer, c.Vocab = model.Custom, attentionLayers, attentionVocab
	e, batch, err := open(m, c, 1)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	spent := func(f func() error) (float64, error) {
		before := e.Parts().Attention
		err := f()
		return (e.Parts().Attention - before).Seconds() / attentionLayers, err
	}
	eval := func() error { _, err := e.Eval(batch); return err }
	accumulate := func() error { _, err := e.Accumulate(0, batch); return err }
	half := float64(c.Context) * float64(c.Context) * float64(c.DModel)
	all := []Attention{{Variant: variant, Way: "forward", FLOPs: 2 * half}, {Variant: variant, Way: "backward", FLOPs: 4 * half}}
	if err := accumulate(); err != nil { // touches the memory
		return nil, err
	}
	if all[0].Timing, err = m.rounds(2*time.Second, func() (float64, error) { return spent(eval) }); err != nil {
		return nil, fmt.Errorf("timing attention of %s: %w", variant, err)
	}
	if all[1].Timing, err = m.rounds(3*time.Second, func() (float64, error) {
		forward, err := spent(eval)
		if err != nil {
			return 0, err
		}
		both, err := spent(accumulate)
		return both - forward, err
	}); err != nil {
		return nil, fmt.Errorf("timing attention of %s: %w", variant, err)
	}
	return all, nil
}
