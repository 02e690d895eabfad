package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"andrea/bench"
	"andrea/cudaengine"
	"andrea/launch"
	"andrea/model"
)

// gpuFlags are the flags of 'andrea bench gpu'.
type gpuFlags struct {
	variant      string
	shape        string
	precision    string
	gemm         string
	device       int
	windows      int
	microbatches int
	measurements int
	seconds      float64
	json         bool
}

func benchGPUCommand(o outside) *cobra.Command {
	var f gpuFlags
	c := &cobra.Command{
		Use:   "gpu",
		Short: "Measure how fast a GPU trains",
		Long: `Measure how fast a GPU trains: whole steps (forward, backward, clip, update) of one engine,
without the exchange of gradients, in tokens per second; the median of several measurements.

The digest is that of the weights and moments after the steps that warm up, which begin with the
same weights every time: it is the same in every run on one model of GPU.`,
		Example: `  andrea bench gpu --variant 120m --precision bf16 --windows 64
  andrea bench gpu --variant 120m --gemm cublaslt
  andrea bench gpu --variant 12m --device 1 --json | jq .tokens_per_second`,
		Args: noArgument,
		RunE: func(c *cobra.Command, _ []string) error { return measureGPU(c.Context(), o, f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.variant, "variant", "120m", "shape of the model: 12m, 120m or 480m")
	flags.StringVar(&f.shape, "shape", "", "another shape: d_model,n_head,n_layer,context,vocab, such as 64,2,2,32,61")
	flags.StringVar(&f.precision, "precision", model.BF16, "bf16 or fp32")
	flags.StringVar(&f.gemm, "gemm", launch.OwnGEMM, "what multiplies matrices: own, or cublaslt: NVIDIA's library, where it is installed")
	flags.IntVar(&f.device, "device", 0, "which GPU, as nvidia-smi counts")
	flags.IntVar(&f.windows, "windows", 64, "windows of a microbatch")
	flags.IntVar(&f.microbatches, "microbatches", 1, "microbatches of a step")
	flags.IntVar(&f.measurements, "measurements", 5, "how often to measure; the median counts")
	flags.Float64Var(&f.seconds, "seconds", 2, "least length of a measurement")
	flags.BoolVar(&f.json, "json", false, "print the numbers as JSON")
	return c
}

// Bounds of what 'andrea bench gpu' measures.
const (
	maxMicrobatches = 1 << 16
	maxMeasurements = 1 << 10
	maxBenchSeconds = 3600
)

// options checks the flags, without the engine.
func (f gpuFlags) options() (o bench.DeviceOptions, err error) {
	if f.shape != "" {
		o.Model, err = parseShape(f.shape)
	} else {
		o.Model, err = model.Variant(f.variant)
	}
	errs := []error{err}
	for _, n := range []struct {
		flag       string
		value, max int
	}{{"windows", f.windows, cudaengine.MaxMicrobatch}, {"microbatches", f.microbatches, maxMicrobatches}, {"measurements", f.measurements, maxMeasurements}} {
		if n.value < 1 || n.value > n.max {
			errs = append(errs, fmt.Errorf("--%s is %d: must be between 1 and %d", n.flag, n.value, n.max))
		}
	}
	if !(f.seconds >= 0 && f.seconds <= maxBenchSeconds) {
		errs = append(errs, fmt.Errorf("--seconds is %v: must be between 0 and %d", f.seconds, maxBenchSeconds))
	}
	o.Windows, o.Microbatches, o.Measurements, o.Each = f.windows, f.microbatches, f.measurements, time.Duration(f.seconds*float64(time.Second))
	return o, errors.Join(errs...)
}

// parseShape reads d_model,n_head,n_layer,context,vocab.
func parseShape(text string) (model.Config, error) {
	c := model.DefaultSwitches()
	c.Variant = model.Custom
	parts := strings.Split(text, ",")
	to := []*int{&c.DModel, &c.NHead, &c.NLayer, &c.Context, &c.Vocab}
	if len(parts) != len(to) {
		return c, fmt.Errorf("--shape is %q: must be d_model,n_head,n_layer,context,vocab", text)
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return c, fmt.Errorf("--shape is %q: %q is no number", text, part)
		}
		*to[i] = n
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("--shape is %q: %w", text, err)
	}
	return c, nil
}

// measureGPU runs the benchmark.
func measureGPU(ctx context.Context, o outside, f gpuFlags) error {
	options, err := f.options()
	if err != nil {
		return badInput(err)
	}
	engine, err := launch.Choose(launch.EngineCUDA, f.device, f.gemm)
	if err != nil {
		return exitError{exitFailed, err}
	}
	if engine, err = engine.In(f.precision); err != nil {
		return badInput(err)
	}
	options.Open = engine.Open
	guard := newGuard(ctx, o)
	defer guard.close()
	report, err := bench.Device(guard.preparing, options)
	if err != nil {
		return interrupted(guard, exitError{exitFailed, err}, "nothing was measured to its end")
	}
	return o.report(f.json, report, gpuText(report))
}

// gpuText is the result for people.
func gpuText(r bench.DeviceReport) string {
	return fmt.Sprintf("%s, engine class %s\n%s, %d windows a microbatch, %s tokens a step: %s tokens/s (%.1f TFLOP/s of useful arithmetic)\n%.1f GiB on the device, %d steps measured, %.1f s to warm up, digest %s\n",
		r.Device, r.Class, r.Variant, r.Windows, count(r.Tokens), count(int64(r.Rate)), r.Rate*float64(r.FLOPs)/1e12,
		float64(r.EngineBytes)/(1<<30), r.Steps, r.WarmUpSeconds, r.Digest)
}
