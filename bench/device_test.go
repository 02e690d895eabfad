package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"andrea/cpuengine"
	"andrea/model"
)

func TestDevice(t *testing.T) {
	c := tiny()
	o := DeviceOptions{Model: c, Windows: 2, Microbatches: 3, Measurements: 3, Each: time.Nanosecond,
		Open: func(c model.Config, microbatch, slots int) (model.Engine, error) {
			return cpuengine.New(c, cpuengine.Options{Microbatch: microbatch, Slots: slots, Threads: 1})
		}}
	first, err := Device(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if first.Tokens != 6*c.Context || len(first.Rates) != 3 || first.Steps != 3 || !(first.Rate > 0) || first.EngineBytes <= 0 || first.Class != cpuengine.Class() || first.Ended < first.Started {
		t.Errorf("%+v", first)
	}
	if half := int64(6 * c.NLayer * c.Context * c.DModel); first.FullFLOPs-first.FLOPs != half {
		t.Errorf("%d FLOPs a token, %d with all of attention: the masked half is %d", first.FLOPs, first.FullFLOPs, half)
	}
	second, err := Device(t.Context(), o)
	if err != nil || second.Digest != first.Digest || len(first.Digest) != 32 {
		t.Errorf("digests %s and %s, %v", first.Digest, second.Digest, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Device(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := errors.New("broken")
	o.Open = func(model.Config, int, int) (model.Engine, error) { return nil, broken }
	if _, err := Device(t.Context(), o); !errors.Is(err, broken) {
		t.Errorf("an engine that does not open: %v", err)
	}
}
