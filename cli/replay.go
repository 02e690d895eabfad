package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/pipeline/ledger"
)

// replayFlags are the flags of 'andrea replay'.
type replayFlags struct {
	from, to int64
	data     string
	json     bool
	engine   engineFlags
}

func replayCommand(o outside) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay RUN --from STEP",
		Short: "Compute steps of a run again and name the first that differs from its record",
		Long: `Compute steps of a run again and name the first that differs from its record.

RUN is the run's folder, or its name below runs/. Computing begins at the newest intact
checkpoint before --from, or at the seed when there is none, and goes to --to, by
default the last recorded step. Compared are, of every step from there on, the tokens
and the loss of each lane, the gradient of each lease, the summed gradient, all numbers
of the update, the weights and moments after it, and the validation loss. All of it runs
on one engine in this process, whoever trained the run.

Nothing in RUN is changed, and the run may be training meanwhile: what is read of it
never changes. Both share this machine's processors and memory, of which a replay takes
what a run takes, without the copy for checkpoints.

The exit code is 0 when all steps are the same, 1 when one differs, and 2 when something
could not be read or computed.`,
		Example: `  andrea replay runs/demo --from 41            the last steps
  andrea replay runs/demo --from 1 --to 10     the first ones
  andrea replay demo --from 1 --json | jq .difference`,
		Args: oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			switch given := c.Flags().Changed; {
			case !given("from"):
				return badInput(errors.New("replaying a run: --from is not given: give the first step that must be compared, such as --from 1"))
			case given("to") && f.to < 1:
				return badInput(fmt.Errorf("replaying a run: --to is %d: steps count from 1", f.to))
			}
			return replay(c.Context(), o, args[0], f)
		},
	}
	c.Flags().Int64Var(&f.from, "from", 0, "the first step that must be compared")
	c.Flags().Int64Var(&f.to, "to", 0, "the last one (default: the last recorded)")
	c.Flags().StringVar(&f.data, "data", "", "where the run's dataset lies now (default: where it lay)")
	f.engine.add(c)
	c.Flags().BoolVar(&f.json, "json", false, "print the result as JSON")
	return c
}

// replayedRun is what 'andrea replay' prints as JSON.
type replayedRun struct {
	Run        string         `json:"run"`        // its folder
	After      int64          `json:"after"`      // the state it began with
	To         int64          `json:"to"`         // the last step that was to be computed
	Same       int64          `json:"same"`       // steps that are as recorded
	Difference []ledger.Fault `json:"difference"` // of the first step that is not; empty: all are
}

func replay(ctx context.Context, o outside, name string, f replayFlags) error {
	dir, err := findRun(o.fs, name)
	if err != nil {
		return badInput(err)
	}
	if o, err = f.engine.use(o, launch.TrainedClass(o.fs, dir)); err != nil {
		return err
	}
	show := newScreen(o, f.json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	defer frugal(gcPercent)()
	env := show.environment(o, guard)
	env.FS = &reading{FS: o.fs, ctx: guard.preparing, progress: func(int64) {}}
	show.Phase("reading "+dir, 0, 0)
	r, err := launch.Replay(env, dir, f.data, f.from, f.to, func(step, to int64) { show.Phase("computing steps again", step, to) })
	show.close()
	if guard.preparing.Err() != nil && err != nil {
		return interrupted(guard, err, fmt.Sprintf("%d steps were the same", r.Same))
	}
	if err != nil {
		return inputOrDisk(err)
	}
	for _, d := range r.Damaged {
		show.note("the checkpoint of step %d is passed over: %v", d.Step, d.Reason)
	}
	result := replayedRun{Run: dir, After: r.After, To: r.To, Same: r.Same, Difference: append([]ledger.Fault{}, r.Faults...)}
	if err := o.report(f.json, result, result.text()); err != nil {
		return err
	}
	if len(r.Faults) > 0 {
		return exitError{exitFailed, errors.Join(errors.New("a recomputed step differs from its record"), faultsError(r.Faults, 0))}
	}
	return nil
}

// text is the result for people; what differs is told elsewhere.
func (r replayedRun) text() string {
	begin := fmt.Sprintf("from the checkpoint of step %d", r.After)
	if r.After == 0 {
		begin = "from the seed"
	}
	if len(r.Difference) > 0 {
		return fmt.Sprintf("computed again %s: %s steps are as recorded, step %d is not\n", begin, count(r.Same), r.Difference[0].Step)
	}
	return fmt.Sprintf("computed again %s: steps %d to %d are as recorded, bit for bit\n", begin, r.After+1, r.To)
}
