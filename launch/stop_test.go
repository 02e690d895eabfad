package launch_test

import (
	"errors"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/model"
	"andrea/pipeline"
)

// stopper asks for a stop in its n-th microbatch, and computes it when the coordinator
// has heard that.
type stopper struct {
	model.Engine
	n    int
	seen int
	stop chan<- string
}

func (s *stopper) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if s.seen++; s.seen == s.n {
		s.stop <- "the test"
	}
	return s.Engine.Accumulate(slot, b)
}

// Stopped in every single step, in warm-up, decay and where epochs end, a run ends in the
// same bits, with the same learning rates in the journal.
func TestARunStoppedInEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("it computes more than others and does nothing else beside that than they do: -short leaves it out")
	}
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	base, spec := memory(t)
	spec.Batch.TokensPerStep, spec.Data.Validation = 4096, 0.5 // two epochs
	perStep := spec.Batch.TokensPerStep / 16                   // microbatches of one window
	whole := base.Kill()
	if err := trainOn(t, whole, engine, spec); err != nil {
		t.Fatal(err)
	}
	often := base.Kill()
	for step := range int64(killSteps) {
		stop, stopping := make(chan string), engine
		stopping.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
			e, err := engine.Open(c, microbatch, slots)
			n := perStep + perStep/2 // in the second step that it computes
			if step == 0 {
				n = perStep / 2
			}
			return &stopper{Engine: e, n: n, stop: stop}, err
		}
		env := launch.Environment{FS: often, Engine: stopping, Version: "test", Stop: stop, Notify: func(pipeline.Notice) {}}
		var run *launch.Run
		if step == 0 {
			run, err = launch.Create(env, killRun, spec)
		} else {
			run, err = launch.Open(env, killRun, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := run.Train()
		if err = errors.Join(err, outcome.Err, run.Close()); err != nil {
			t.Fatal(err)
		}
		if outcome.Step != step || outcome.Checkpoint != step || outcome.Stopped != "the test" {
			t.Fatalf("stopped in step %d: %+v", step+1, outcome)
		}
	}
	if err := trainOn(t, often, engine, spec); err != nil {
		t.Fatal(err)
	}
	got, want := ending(t, often, killSteps), ending(t, whole, killSteps)
	if got != want {
		t.Errorf("other bits:\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(want, "epoch 0") || !strings.Contains(want, "epoch 1") {
		t.Errorf("the run is within one epoch:\n%s", want)
	}
}
