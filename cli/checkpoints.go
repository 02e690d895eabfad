package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"andrea/checkpoints"
	"andrea/checkpoints/audit"
	"andrea/pipeline"
	"andrea/vfs"
)

func checkpointsCommand(o outside) *cobra.Command {
	return group(&cobra.Command{
		Use:   "checkpoints",
		Short: "List the checkpoints of a run, and verify them",
		Long: `List the checkpoints of a run, and verify them.

A checkpoint is a folder below RUN/checkpoints: the weights in model.safetensors, the
moments of the optimizer, the tokenizer, and a manifest with the digest of each.
'andrea resume' takes the newest intact one.`,
		Example: `  andrea checkpoints list runs/demo
  andrea checkpoints verify runs/demo`,
	}, checkpointsListCommand(o), checkpointsVerifyCommand(o))
}

func checkpointsListCommand(o outside) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:   "list RUN",
		Short: "List the checkpoints of a run",
		Long: `List the checkpoints of a run, oldest first.

RUN is the run's folder, or its name below runs/. The losses come from the journal.
Only what is quickly read is checked: manifests, the sizes of the files, the place of
each checkpoint in the journal. 'andrea checkpoints verify' reads every byte.`,
		Example: `  andrea checkpoints list runs/demo
  andrea checkpoints list demo --json | jq -r '.checkpoints[-1].dir'      the newest`,
		Args: oneArgument,
		RunE: func(c *cobra.Command, args []string) error { return checkpointsList(c.Context(), o, args[0], json) },
	}
	c.Flags().BoolVar(&json, "json", false, "print the result as JSON")
	return c
}

func checkpointsVerifyCommand(o outside) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:   "verify RUN|CHECKPOINT",
		Short: "Read every byte of a run's checkpoints, or of one",
		Long: `Read every byte of a run's checkpoints, or of one checkpoint's folder.

Compared are sizes and SHA-256 of all files, the tensors with the model's shape, the
digest of the state, and the place in the run's journal. The exit code is 0 when all is
intact, 1 when a checkpoint, the journal or the job is damaged, and the message names the
file, and 2 when there is nothing to verify at that place.`,
		Example: `  andrea checkpoints verify runs/demo
  andrea checkpoints verify runs/demo/checkpoints/step-00000050`,
		Args: oneArgument,
		RunE: func(c *cobra.Command, args []string) error { return checkpointsVerify(c.Context(), o, args[0], json) },
	}
	c.Flags().BoolVar(&json, "json", false, "print the result as JSON, faults too")
	return c
}

// audited is what both commands print as JSON.
type audited struct {
	Checkpoints []audit.Checkpoint `json:"checkpoints"`
	Faults      []string           `json:"faults"` // of the run's job and journal
}

// faults are all faults of a run and its checkpoints.
func (a audited) faults() []error {
	var errs []error
	for _, fault := range a.Faults {
		errs = append(errs, errors.New(fault))
	}
	for _, c := range a.Checkpoints {
		if c.Fault != "" {
			errs = append(errs, fmt.Errorf("the checkpoint of step %d is damaged: %s", c.Step, c.Fault))
		}
	}
	return errs
}

// inspect lets look judge every checkpoint of a folder until ctx is done.
func inspect(ctx context.Context, folder *audit.Folder, look func(step int) (audit.Checkpoint, bool)) audited {
	a := audited{Checkpoints: []audit.Checkpoint{}, Faults: []string{}}
	for _, fault := range folder.Faults() {
		a.Faults = append(a.Faults, fault.Error())
	}
	for _, step := range folder.Steps() {
		if ctx.Err() != nil {
			break
		}
		if c, found := look(step); found {
			a.Checkpoints = append(a.Checkpoints, c)
		}
	}
	return a
}

func checkpointsList(ctx context.Context, o outside, name string, json bool) error {
	dir, err := findRun(o.fs, name)
	if err != nil {
		return badInput(err)
	}
	guard := newGuard(ctx, o)
	defer guard.close()
	folder, err := audit.Run(o.fs, dir)
	if err != nil {
		return badInput(err)
	}
	a := inspect(guard.preparing, folder, folder.Glance)
	if guard.preparing.Err() != nil {
		return interrupted(guard, guard.preparing.Err(), "not all checkpoints were listed")
	}
	var text strings.Builder
	writeTable(&text, a, "no fault seen")
	for _, fault := range a.faults() {
		fmt.Fprintf(&text, "%v\n", fault)
	}
	fmt.Fprintf(&text, "only names, sizes and records were compared: '%s checkpoints verify %s' reads every byte\n", commandName(), dir)
	return o.report(json, a, text.String())
}

// writeTable writes a line for every checkpoint. good is what is said of one without
// a fault.
func writeTable(b *strings.Builder, a audited, good string) {
	if len(a.Checkpoints) == 0 {
		b.WriteString("there are no checkpoints\n")
		return
	}
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tBYTES\tSTATE\tLOSS\tVAL LOSS\t")
	for _, c := range a.Checkpoints {
		state, verdict := "-", good
		if c.StateDigest != "" {
			state = c.StateDigest[:12]
		}
		if c.Fault != "" {
			verdict = "DAMAGED"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", c.Step, count(c.Bytes), state, lossText(c.Loss), lossText(c.ValLoss), verdict)
	}
	_ = w.Flush() // a strings.Builder takes everything
}

// lossText is a loss with four decimals, or a dash where none is known.
func lossText(loss *pipeline.Float) string {
	if loss == nil {
		return "-"
	}
	return strconv.FormatFloat(float64(*loss), 'f', 4, 64)
}

func checkpointsVerify(ctx context.Context, o outside, name string, json bool) error {
	show := newScreen(o, json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	read := &verifying{show: show}
	folder, err := openFolder(&reading{FS: o.fs, ctx: guard.preparing, progress: read.progress}, name)
	if err != nil {
		return interrupted(guard, badInput(err), "nothing was verified")
	}
	a := inspect(guard.preparing, folder, func(step int) (audit.Checkpoint, bool) {
		c, _ := folder.Glance(step)
		read.begin(step, c.Bytes)
		c, found := folder.Verify(step)
		return c, found
	})
	show.close()
	if guard.preparing.Err() != nil {
		return interrupted(guard, guard.preparing.Err(), "not everything was verified")
	}
	var text strings.Builder
	writeTable(&text, a, "intact")
	if !folder.InRun() {
		text.WriteString("the folder lies in no run: the record was not looked up in a journal\n")
	}
	if err := o.report(json, a, text.String()); err != nil {
		return err
	}
	if faults := a.faults(); len(faults) > 0 {
		return exitError{exitFailed, errors.Join(faults...)}
	}
	return nil
}

// verifying shows how much of a checkpoint has been read.
type verifying struct {
	show         *screen
	phase        string // empty: nothing is shown
	total        int64  // bytes of the checkpoint
	before, done int64  // bytes read before it, and at all
}

func (v *verifying) begin(step int, total int64) {
	v.phase, v.total, v.before = fmt.Sprintf("verifying the checkpoint of step %d", step), total, v.done
}

func (v *verifying) progress(done int64) {
	if v.done = done; v.phase != "" {
		v.show.Phase(v.phase, min(v.total, done-v.before), v.total)
	}
}

// openFolder is the checkpoint of that path, or else the run of that name.
func openFolder(fsys vfs.FS, name string) (*audit.Folder, error) {
	dir, isOne, err := checkpointAt(fsys, name)
	if err != nil {
		return nil, err
	}
	if isOne {
		return audit.One(fsys, dir)
	}
	if dir, err = findRun(fsys, name); err != nil {
		return nil, err
	}
	return audit.Run(fsys, dir)
}

// checkpointAt reports whether a path is, or claims to be, a checkpoint's folder, and
// cleans it so that it ends in the folder's name.
func checkpointAt(fsys vfs.FS, path string) (dir string, isOne bool, err error) {
	dir = filepath.Clean(path)
	if base := filepath.Base(dir); base == "." || base == ".." {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", false, fmt.Errorf("looking at %s: %w", path, err)
		}
	}
	_, named := checkpoints.ParseStepFolder(filepath.Base(dir))
	_, err = fsys.Stat(filepath.Join(dir, checkpoints.ManifestFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && named {
		return "", false, fmt.Errorf("looking at %s: %w", path, err)
	}
	return dir, named || err == nil, nil
}
