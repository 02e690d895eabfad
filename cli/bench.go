package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"andrea/bench"
)

func benchCommand(o outside) *cobra.Command {
	var options bench.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this machine trains, and how close to its limit",
		Long: `Measure how fast this machine trains, and how close that is to its limit.

In one run: the peak of fused multiply-adds by a probe between registers, in GFLOP/s and
per cycle; the memory's bandwidth; every matrix product and attention of the variants,
forward and backward; whole training steps in tokens per second; and generation. Rates
count useful arithmetic only. A share is that of the peak probed in the same moments.

Without --variant everything is measured of 12m and 120m; training of 480m takes minutes and
9 GiB, so that it must be named. A probe below what the processor's units are known to do
fails the run with exit code 1: something else was using the processor, and the numbers
would mean nothing.`,
		Example: `  andrea bench --variant 12m
  andrea bench --variant 12m --path avx2
  andrea bench gpu --variant 120m
  andrea bench --json | jq '."train.12m.fp32.w4.share"'`,
		Args: noArgument,
		RunE: func(c *cobra.Command, _ []string) error { return measure(c.Context(), o, options, asJSON) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&options.Variants, "variant", nil, "measure only this variant; can be repeated")
	flags.StringVar(&options.Path, "path", "", "instruction set, such as avx2 or portable (default: the fastest of this machine)")
	flags.BoolVar(&asJSON, "json", false, "print the numbers as one JSON object with keys such as train.12m.fp32.w4.share")
	c.AddCommand(benchGPUCommand(o))
	return c
}

// measure runs the benchmark. What it is doing goes to standard error, for people who wait.
func measure(ctx context.Context, o outside, options bench.Options, asJSON bool) error {
	if err := options.Check(); err != nil {
		return badInput(err)
	}
	guard := newGuard(ctx, o)
	defer guard.close()
	options.Doing = func(what string) { fmt.Fprintln(o.stderr, "measuring", what) }
	report, err := bench.Run(guard.preparing, options)
	if err != nil {
		return interrupted(guard, exitError{exitFailed, err}, "nothing was measured to its end")
	}
	values := report.Values()
	values["version"], values["command"] = version(), benchLine(options)
	return o.report(asJSON, values, version()+": "+benchLine(options)+"\n"+report.Text())
}

// benchLine is the command that measures with these options.
func benchLine(options bench.Options) string {
	line := "andrea bench"
	for _, variant := range options.Variants {
		line += " --variant " + variant
	}
	if options.Path != "" {
		line += " --path " + options.Path
	}
	return line
}
