package launch_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"andrea/launch"
	"andrea/pipeline"
	"andrea/vfs"
)

// Stopped exactly where an epoch ends, a run goes on with the first window of the next
// one: the same bits as without the stop.
func TestResumeOnAnEpochBoundary(t *testing.T) {
	if testing.Short() {
		t.Skip("it computes more than others and does nothing else beside that than they do: -short leaves it out")
	}
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	base, spec := memory(t)
	data, err := launch.OpenData(base, spec.Data.Path)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pipeline.NewPlan(spec, data.Info)
	if err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	// One step is one epoch, so wherever the run stops is a boundary.
	spec.Batch.Lanes, spec.Batch.TokensPerStep, spec.Steps = 1, int(plan.Index.Training)*plan.Model.Context, 4
	spec.Checkpoint.Every = 100
	whole := base.Kill()
	if err := trainOn(t, whole, engine, spec); err != nil {
		t.Fatal(err)
	}
	stopped := base.Kill()
	stop := make(chan string, 1)
	env := launch.Environment{FS: stopped, Engine: engine, Version: "test", Stop: stop, Notify: func(n pipeline.Notice) {
		if done, ok := n.(pipeline.StepDone); ok && done.Record.Step == 2 {
			stop <- "the end of an epoch"
		}
	}}
	run, err := launch.Create(env, killRun, spec)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := run.Train()
	if closeErr := run.Close(); err != nil || closeErr != nil || outcome.Err != nil || outcome.Complete || outcome.Checkpoint < 2 {
		t.Fatalf("%+v, %v, %v", outcome, err, closeErr)
	}
	if _, err := vfs.ReadFile(stopped, filepath.Join(killRun, "checkpoints", fmt.Sprintf("step-%08d", outcome.Step), "manifest.json"), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := trainOn(t, stopped, engine, spec); err != nil {
		t.Fatal(err)
	}
	if got, want := ending(t, stopped, spec.Steps), ending(t, whole, spec.Steps); got != want {
		t.Errorf("other bits:\n%s\nwant\n%s", got, want)
	}
}
