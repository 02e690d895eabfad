package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/pipeline/ledger"
)

func verifyRunCommand(o outside) *cobra.Command {
	var data string
	var json bool
	c := &cobra.Command{
		Use:   "verify-run RUN",
		Short: "Show from journal and dataset that every window was trained exactly once",
		Long: `Show from journal and dataset that every window was trained exactly once.

RUN is the run's folder, or its name below runs/. Nothing is computed again and nothing
changed, and the run may be training meanwhile. Verified are

  the dataset    every byte against its SHA-256, and its fingerprint against the job's
  the tokens     which windows every lane of every step must have held; the digests of
                 their tokens are compared with those of what the workers received
  the leases     those of a step are all its lanes, each once
  the epochs     every training window exactly once in every finished epoch, at most
                 once in the running one
  the records    their chain, their order, sums, learning rate, clip factor
  checkpoints    their records, states and places in the data; that their files are there
                 and as long as they must be ('andrea checkpoints verify' reads their bytes)

What only a computation shows (gradients, weights, validation losses) is for
'andrea replay'. The exit code is 0 when all is true, 1 when something is not, which is
told with its step, a damaged journal or checkpoint too, and 2 when something could not
be read.`,
		Example: `  andrea verify-run runs/demo
  andrea verify-run demo --data /mnt/tokens/books-0123456789ab      the dataset has moved
  andrea verify-run demo --json | jq .faults`,
		Args: oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			return verifyRun(c.Context(), o, args[0], data, json)
		},
	}
	c.Flags().StringVar(&data, "data", "", "where the run's dataset lies now (default: where it lay)")
	c.Flags().BoolVar(&json, "json", false, "print the result as JSON, faults too")
	return c
}

// verifiedRun is what 'andrea verify-run' prints as JSON.
type verifiedRun struct {
	Run string `json:"run"` // its folder
	ledger.Report
	True   bool   `json:"true"`
	Unread string `json:"unread,omitempty"` // what could not be read
}

func verifyRun(ctx context.Context, o outside, name, data string, json bool) error {
	dir, err := findRun(o.fs, name)
	if err != nil {
		return badInput(err)
	}
	show := newScreen(o, json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	env := show.environment(o, guard)
	env.FS = &reading{FS: o.fs, ctx: guard.preparing, progress: func(int64) {}}
	show.Phase("reading "+dir, 0, 0)
	report, err := launch.VerifyRun(env, dir, data, func(step, steps int64) { show.Phase("verifying steps", step, steps) })
	show.close()
	if guard.preparing.Err() != nil && err != nil {
		return interrupted(guard, err, "not everything was verified")
	}
	result := verifiedRun{Run: dir, Report: report, True: err == nil && report.True()}
	if err != nil {
		result.Unread = err.Error()
	}
	if err := o.report(json, result, result.text()); err != nil {
		return err
	}
	if !report.True() {
		return exitError{exitFailed, errors.Join(faultsError(report.Faults, report.More), err)}
	}
	return badInput(err)
}

// text is the report for people; faults are told elsewhere.
func (v verifiedRun) text() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("run", "%s", v.Run)
	compared := "verified"
	if len(v.Faults) > 0 {
		compared = "compared"
	}
	row("steps", "%s "+compared+", %s of them committed, %s skipped", count(v.Steps), count(v.Committed), count(v.Skipped))
	row("tokens", "%s in %s windows, read again and compared", count(v.Tokens), count(v.Windows))
	row("epochs", "%s finished, of %s windows; %s windows of the next", count(v.Epochs), count(v.PerEpoch), count(v.Running))
	row("checkpoints", "%d compared with their records, and the sizes of their files", v.Checkpoints)
	if faults := int64(len(v.Faults)) + v.More; faults > 0 {
		row("not true", "%s, the first in step %s", count(faults), count(v.Faults[0].Step))
	}
	if v.True {
		row("verdict", "true: every window was trained exactly once in a finished epoch, at most once in the running one")
	} else {
		row("verdict", "not shown to be true")
	}
	return b.String()
}

// faultsError is the faults as one error; more is how many are left out.
func faultsError(faults []ledger.Fault, more int64) error {
	var errs []error
	for _, f := range faults {
		errs = append(errs, f)
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %s more", count(more)))
	}
	return errors.Join(errs...)
}
