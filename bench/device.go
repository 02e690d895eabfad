package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"andrea/model"
)

// DeviceOptions say what to measure of an engine that is no CPU engine.
type DeviceOptions struct {
	Model        model.Config
	Windows      int           // of a microbatch
	Microbatches int           // of a step
	Measurements int           // of which the median counts
	Each         time.Duration // of a measurement, at least
	// Open allocates the engine.
	Open func(c model.Config, microbatch, slots int) (model.Engine, error)
}

// DeviceReport is how an engine trains, without the exchange of gradients.
type DeviceReport struct {
	Class         string    `json:"engine_class"`
	Device        string    `json:"device"`
	Variant       string    `json:"variant"`
	Windows       int       `json:"windows"`
	Tokens        int       `json:"tokens_per_step"`
	FLOPs         int64     `json:"flops_per_token"`            // useful ones: model.Config.FLOPsPerToken
	FullFLOPs     int64     `json:"full_flops_per_token"`       // 6·N + 12·L·T·d: attention as if nothing were masked
	EngineBytes   int64     `json:"engine_bytes"`               // on the device
	Rate          float64   `json:"tokens_per_second"`          // median
	Rates         []float64 `json:"tokens_per_second_measured"` // in order
	Steps         int       `json:"steps"`                      // measured
	Started       float64   `json:"started_unix"`               // the measurements, in seconds since 1970
	Ended         float64   `json:"ended_unix"`
	WarmUpSeconds float64   `json:"warm_up_seconds"` // from opening to the first measurement
	// Digest is that of the state after digestSteps steps from a fixed one. It is the same every time.
	Digest string `json:"digest"`
}

// digestSteps is how many steps warm up and decide the digest.
const digestSteps = 3

// Device measures how an engine trains.
func Device(ctx context.Context, o DeviceOptions) (r DeviceReport, err error) {
	begin := time.Now()
	e, err := o.Open(o.Model, o.Windows, 1)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	batch, err := draw(e, o.Model, o.Windows)
	if err != nil {
		return r, fmt.Errorf("training for a moment: %w", err)
	}
	c, info := o.Model, e.Info()
	r = DeviceReport{
		Class: info.Class, Device: info.Device, Variant: c.Variant, Windows: o.Windows, Tokens: o.Microbatches * o.Windows * c.Context,
		FLOPs: c.FLOPsPerToken(), FullFLOPs: c.FLOPsPerToken() + 6*int64(c.NLayer)*int64(c.Context)*int64(c.DModel), EngineBytes: info.Bytes,
	}
	sums := make([]float64, model.NewLayout(c).Buckets())
	step := func() (model.Digest, error) {
		digest, err := deviceStep(ctx, e, batch, o.Microbatches, sums)
		if err != nil {
			err = fmt.Errorf("training for a moment: %w", err)
		}
		return digest, err
	}
	for range digestSteps {
		digest, err := step()
		if err != nil {
			return r, err
		}
		r.Digest = digest.String()
	}
	r.Started, r.WarmUpSeconds = unixSeconds(time.Now()), time.Since(begin).Seconds()
	for range o.Measurements {
		steps, start := 0, time.Now()
		for steps == 0 || time.Since(start) < o.Each {
			if _, err := step(); err != nil {
				return r, err
			}
			steps++
		}
		r.Rates = append(r.Rates, float64(steps*r.Tokens)/time.Since(start).Seconds())
		r.Steps += steps
	}
	r.Ended = unixSeconds(time.Now())
	r.Rate = median(append([]float64{}, r.Rates...))
	return r, nil
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// deviceStep is one optimizer update as a run of one lane makes it.
func deviceStep(ctx context.Context, e model.Engine, b model.Batch, microbatches int, sums []float64) (model.Digest, error) {
	if err := errors.Join(ctx.Err(), e.Zero(0)); err != nil {
		return model.Digest{}, err
	}
	var loss model.Loss
	for range microbatches {
		l, err := e.Accumulate(0, b)
		if err != nil {
			return model.Digest{}, err
		}
		loss = loss.Add(l)
	}
	scale, err := clip(e, sums, loss.Tokens)
	if err != nil {
		return model.Digest{}, err
	}
	return e.Update(0, scale, stepHyper)
}
