package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"andrea/dataset/prepare"
	"andrea/launch"
	"andrea/pipeline"
	"andrea/tokenizer"
	"andrea/vfs"
)

// trainFlags are the flags of 'andrea train'.
type trainFlags struct {
	variant   string
	text      []string
	data      string
	tokenizer string
	job       string
	run       string
	steps     wholeNumber
	seed      wholeNumber
	set       []string
	printJob  bool
	json      bool
	workers   int
	engine    engineFlags
}

// wholeNumber is the value of a flag that stands for a key of the job. It is kept as it was typed, so
// that 010 is refused as it is in a file; flags of package pflag would take it for 8.
type wholeNumber string

// Set implements pflag.Value.
func (w *wholeNumber) Set(text string) error {
	if !digits.MatchString(text) {
		return errors.New("it must be a whole number in decimal digits, without zeros in front")
	}
	*w = wholeNumber(text)
	return nil
}

// String implements pflag.Value.
func (w *wholeNumber) String() string { return string(*w) }

// Type implements pflag.Value; it is what the help shows.
func (*wholeNumber) Type() string { return "int" }

var digits = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func trainCommand(o outside) *cobra.Command {
	var f trainFlags
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a model in a new run",
		Long: `Train a model in a new run.

Give text (files or folders; a tokenizer is learnt from it) or a dataset prepared
before. The job can be written down in a YAML file; flags replace single keys of it.
The run's folder holds everything: job, journal, logs and checkpoints. Ctrl-C writes
a checkpoint and stops; 'andrea resume' goes on.`,
		Example: `  andrea train --variant 12m --text ~/books --steps 50
  andrea train --text ~/books --set model.d_model=64 --set model.n_head=4 --set model.n_layer=2
  andrea train --job jobs/12m.yaml --data tokens/books-0123456789ab
  andrea train --print-job > job.yaml`,
		Args: noArgument,
		RunE: func(c *cobra.Command, _ []string) error { return train(c.Context(), o, f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.variant, "variant", "", "shape of the model: 12m, 120m or 480m (default 12m)")
	flags.StringArrayVar(&f.text, "text", nil, "file or folder of text to learn from; can be repeated")
	flags.StringVar(&f.data, "data", "", "folder of a prepared token dataset")
	flags.StringVar(&f.tokenizer, "tokenizer", "", "how --text becomes tokens: bytes or harris:N with N learnt segments\n(default harris:2048; harris:8192 for 120m and 480m)")
	flags.StringVar(&f.job, "job", "", "job spec in YAML")
	flags.StringVar(&f.run, "run", "", "folder of the run (default runs/NAME, NAME being the job's name, numbered)")
	flags.Var(&f.steps, "steps", "number of optimizer steps (default 50)")
	flags.Var(&f.seed, "seed", "seed of the weights and of the order of the data (default 1)")
	flags.StringArrayVar(&f.set, "set", nil, "set one key of the job, such as optimizer.lr=6e-4; can be repeated")
	flags.IntVar(&f.workers, "workers", 1, "how many worker processes train together; the bits do not depend on it")
	f.engine.add(c)
	flags.BoolVar(&f.printJob, "print-job", false, "print the job and train nothing")
	flags.BoolVar(&f.json, "json", false, "one JSON line a step on standard output, also on a terminal")
	c.PreRun = func(c *cobra.Command, _ []string) { f.given(c) }
	return c
}

// given turns the flags that were given into keys of the job, --set last.
func (f *trainFlags) given(c *cobra.Command) {
	var keys []string
	for flag, assignment := range map[string]string{
		"steps": "steps=" + f.steps.String(),
		"seed":  "seed=" + f.seed.String(),
	} {
		if c.Flags().Changed(flag) {
			keys = append(keys, assignment)
		}
	}
	f.set = append(keys, f.set...)
}

// jobSpec is the job that the flags describe.
func (f *trainFlags) jobSpec(fsys vfs.FS) (pipeline.JobSpec, error) {
	spec := pipeline.DefaultJobSpec()
	if f.variant != "" {
		spec = pipeline.DefaultJobSpecFor(f.variant)
	}
	if f.job != "" {
		data, err := vfs.ReadFile(fsys, f.job, pipeline.MaxJobSpecBytes)
		if err != nil {
			return spec, fmt.Errorf("reading the job spec: %w", err)
		}
		if spec, err = pipeline.ParseJobSpec(data); err != nil {
			return spec, fmt.Errorf("%s: %w", f.job, err)
		}
	}
	if f.variant != "" {
		spec.Model.Variant = f.variant
	}
	if f.data != "" {
		spec.Data.Path = f.data
	}
	var errs []error
	for _, assignment := range f.set {
		errs = append(errs, spec.Set(assignment))
	}
	return spec, errors.Join(errs...)
}

// train is the whole command.
func train(ctx context.Context, o outside, f trainFlags) error {
	spec, err := f.jobSpec(o.fs)
	if err != nil {
		return badInput(err)
	}
	if f.printJob {
		return f.print(o, spec)
	}
	if err := checkWorkers(f.workers); err != nil {
		return badInput(err)
	}
	if o, err = f.engine.use(o, ""); err != nil {
		return err
	}
	crew, err := f.engine.crew(o, f.workers)
	if err != nil {
		return err
	}
	if err := f.checkRun(o.fs); err != nil {
		return badInput(err)
	}
	o.goOnWithout()
	show := newScreen(o, f.json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	if err := f.prepare(guard.preparing, o, &spec, show); err != nil {
		return guard.explain(err)
	}
	environment := show.environment(o, guard)
	environment.Crew = crew
	run, err := createRun(environment, f.run, spec)
	if err != nil {
		return guard.explain(inputOrDisk(err))
	}
	show.note("%s", strings.TrimSpace(string(run.Plan.Spec.Marshal())))
	return trainRun(o, run, guard, show, resumeLine(run.Dir, ""))
}

// print checks what shows without a dataset, and prints the job. What this machine can compute on says nothing: the
// job may be for another.
func (f *trainFlags) print(o outside, spec pipeline.JobSpec) error {
	vocab := 0 // a dataset says it, which need not be here
	if f.tokenizer != "" || len(f.text) > 0 {
		tokens, err := f.tokenizerSpec(&spec)
		if err != nil {
			return badInput(err)
		}
		vocab = tokens.Vocab()
	}
	if err := launch.CheckSpec(spec, vocab); err != nil {
		return badInput(err)
	}
	_, err := o.stdout.Write(spec.Marshal())
	return err
}

// checkRun refuses a run that exists before any text is read.
func (f *trainFlags) checkRun(fsys vfs.FS) error {
	if f.run == "" {
		return nil
	}
	exists, err := launch.Exists(fsys, f.run)
	if err == nil && exists {
		err = fmt.Errorf("there is a run at %s already: go on with it by 'andrea resume', or choose another folder with --run", f.run)
	}
	return err
}

// prepare makes spec name a dataset: the one that was given, or tokens made of text.
func (f *trainFlags) prepare(ctx context.Context, o outside, spec *pipeline.JobSpec, show *screen) error {
	switch {
	case len(f.text) == 0 && spec.Data.Path == "":
		return badInput(errors.New("there is nothing to train on: give --text with files or folders of text, or --data with a prepared dataset"))
	case len(f.text) == 0 && f.tokenizer != "":
		return badInput(errors.New("--tokenizer is given without --text: a prepared dataset has its tokenizer: leave --tokenizer out, or give the text in place of the dataset"))
	case len(f.text) == 0:
		return nil
	case f.data != "":
		return badInput(errors.New("both --text and --data are given: give one"))
	}
	tokens, err := f.tokenizerSpec(spec)
	if err != nil {
		return badInput(err)
	}
	if err := errors.Join(launch.CheckSpec(*spec, tokens.Vocab()), o.engine.CheckJob(*spec)); err != nil {
		return badInput(err)
	}
	result, err := prepare.Text(ctx, prepare.Options{FS: o.fs, Paths: f.text, Tokenizer: tokens, Out: "tokens", Progress: show.Phase})
	if err != nil {
		return inputOrDisk(err)
	}
	spec.Data.Path = result.Dir
	show.prepared(result)
	return nil
}

func (f *trainFlags) tokenizerSpec(spec *pipeline.JobSpec) (tokenizer.Spec, error) {
	if f.tokenizer != "" {
		return tokenizer.ParseSpec(f.tokenizer)
	}
	if v := spec.Model.Variant; v == "120m" || v == "480m" {
		return tokenizer.ParseSpec("harris:8192")
	}
	return tokenizer.ParseSpec("harris:2048")
}

// createRun makes the folder of a new run. Without a name for it it is runs/NAME, or runs/NAME-2
// and so on where that is taken, and the job is named like its folder.
func createRun(environment launch.Environment, dir string, spec pipeline.JobSpec) (*launch.Run, error) {
	if dir != "" {
		return launch.Create(environment, filepath.Clean(dir), spec)
	}
	base := spec.Name
	for n := 1; n < 10000; n++ {
		if n > 1 {
			spec.Name = fmt.Sprintf("%s-%d", base, n)
		}
		dir := filepath.Join("runs", spec.Name)
		exists, err := launch.Exists(environment.FS, dir)
		if err != nil {
			return nil, fmt.Errorf("choosing a folder for the run: %w", err)
		}
		if exists {
			continue
		}
		run, err := launch.Create(environment, dir, spec)
		if !errors.Is(err, launch.ErrTaken) { // else another process has just chosen it
			return run, err
		}
	}
	return nil, fmt.Errorf("choosing a folder for the run: runs/%s and its numbered siblings exist: name one with --run", base)
}
