package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
	"andrea/watch"
)

// States of a run.
const (
	stateRunning    = "running"
	stateComplete   = "complete"
	stateNotRunning = "not running"
	stateUnknown    = "unknown" // it may run, but cannot be asked
)

// runStatus is what 'andrea status' says of a run, as JSON.
type runStatus struct {
	Run        string                `json:"run"`
	Dir        string                `json:"dir"`
	State      string                `json:"state"`
	Phase      string                `json:"phase,omitempty"`  // of a running one
	Reason     string                `json:"reason,omitempty"` // why it does not run, or cannot be asked
	Step       int64                 `json:"step"`             // last committed
	Steps      int64                 `json:"steps"`
	Loss       *pipeline.Float       `json:"loss,omitempty"` // of that step, nats per token
	GradNorm   *pipeline.Float       `json:"grad_norm,omitempty"`
	Speed      float64               `json:"tokens_per_second,omitempty"`
	ValLoss    *pipeline.Float       `json:"val_loss,omitempty"`
	ValStep    int64                 `json:"val_step,omitempty"`
	ETASeconds *pipeline.Float       `json:"eta_seconds,omitempty"` // of a running one
	Class      string                `json:"engine_class,omitempty"`
	Workers    []runner.WorkerReport `json:"workers,omitempty"`
	Generation uint64                `json:"generation"`
	Checkpoint int64                 `json:"checkpoint_step"` // -1: there is none
	Path       string                `json:"checkpoint,omitempty"`
	Resume     string                `json:"resume,omitempty"` // the command, of one that does not run and is not complete
}

func statusCommand(o outside) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:   "status RUN",
		Short: "How far a run is, whether it runs or not",
		Long: `How far a run is, whether it runs or not.

RUN is the run's folder, or its name below runs/. A running one is asked: phase,
steps, loss, speed, time left, worker, newest checkpoint. Of one that does not run,
its journal and checkpoints tell; checkpoints are listed, not verified. The exit code
is 0 in both cases, and 2 when there is no such run.`,
		Example: `  andrea status demo
  andrea status runs/demo --json | jq .step
  watch andrea status demo`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return status(c.Context(), o, args[0], json) },
	}
	c.Flags().BoolVar(&json, "json", false, "one JSON object")
	return c
}

func status(ctx context.Context, o outside, name string, asJSON bool) error {
	dir, err := findRun(o.fs, name)
	if err != nil {
		return badInput(err)
	}
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	ob := &observer{fs: o.fs, dir: dir}
	defer ob.close()
	var s runStatus
	switch report, link, reason := ob.ask(ctx); link {
	case watch.Answering:
		s = reported(o.fs, dir, report)
	default:
		if s, err = recorded(o.fs, dir, link, reason); err != nil {
			return badInput(err)
		}
	}
	if asJSON {
		return json.NewEncoder(o.stdout).Encode(s)
	}
	_, err = o.stdout.Write(s.text())
	return err
}

// reported is the status of a run whose coordinator answered.
func reported(fsys vfs.FS, dir string, r runner.Report) runStatus {
	s := runStatus{
		Run: r.Run, Dir: dir, State: stateRunning, Phase: r.Phase, Step: r.Step, Steps: r.Steps,
		Class: r.Class, Workers: r.Workers, Generation: r.Generation, ETASeconds: &r.ETASeconds,
	}
	s.records(r.Last, r.Validation)
	s.checkpoint(dirstore.Open(fsys, filepath.Join(dir, "checkpoints")), r.Checkpoint)
	return s
}

// recorded is the status that the files tell of a run that did not answer.
func recorded(fsys vfs.FS, dir string, link watch.Link, reason error) (s runStatus, err error) {
	data, err := vfs.ReadFile(fsys, filepath.Join(dir, "job.yaml"), pipeline.MaxJobSpecBytes)
	if err != nil {
		return s, err
	}
	spec, err := pipeline.ParseJobSpec(data)
	if err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(dir, "job.yaml"), err)
	}
	journal, err := runner.ReadJournal(fsys, filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		return s, err
	}
	s = runStatus{Run: spec.Name, Dir: dir, State: stateNotRunning, Reason: reason.Error(), Steps: spec.Steps}
	last, validation := runner.LastRecords(journal, journal.Last())
	if last != nil {
		s.Step = last.Step
	}
	s.records(last, validation)
	store := dirstore.Open(fsys, filepath.Join(dir, "checkpoints"))
	newest, err := newestListed(fsys, store)
	if err != nil {
		return s, err
	}
	s.checkpoint(store, newest)
	if s.Generation, err = newestGeneration(fsys, filepath.Join(dir, "generations")); err != nil {
		return s, err
	}
	switch {
	case s.Step == s.Steps && s.Checkpoint == s.Steps:
		s.State, s.Reason = stateComplete, ""
	case link == watch.Unknown:
		s.State = stateUnknown
	default:
		s.Resume = commandName() + " resume " + dir
	}
	return s, nil
}

// records takes over what the journal says of the last step.
func (s *runStatus) records(last, validation *pipeline.CommitRecord) {
	if last != nil {
		s.Loss, s.GradNorm, s.Speed = &last.Loss, &last.GradNorm, last.TokensPerSecond
	}
	if validation != nil {
		s.ValLoss, s.ValStep = validation.ValLoss, validation.Step
	}
}

func (s *runStatus) checkpoint(store *dirstore.Store, step int64) {
	s.Checkpoint = step
	if step >= 0 {
		s.Path = store.Path(int(step))
	}
}

// newestListed is the newest step whose checkpoint has a manifest, or -1. Nothing is
// verified.
func newestListed(fsys vfs.FS, store *dirstore.Store) (int64, error) {
	steps, err := store.List()
	if err != nil {
		return -1, err
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if _, err := fsys.Stat(filepath.Join(store.Path(steps[i]), checkpoints.ManifestFile)); err == nil {
			return int64(steps[i]), nil
		}
	}
	return -1, nil
}

// newestGeneration is the number of a run's last coordinator; 0: none was started.
func newestGeneration(fsys vfs.FS, folder string) (newest uint64, err error) {
	entries, err := fsys.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("listing the generations: %w", err)
	}
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 63); err == nil {
			newest = max(newest, n)
		}
	}
	return newest, nil
}
