package cli

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
)

// A tiny run has 4 lanes of 2 microbatches a step.
const (
	tinyLanes     = 4
	tinyPerLane   = 2
	brokenStep    = 7
	brokenLane    = 2
	brokenAtBatch = (brokenStep-1)*tinyLanes*tinyPerLane + brokenLane*tinyPerLane + 1
)

// diverging is an engine whose loss, or gradient, is not finite at one place.
type diverging struct {
	model.Engine
	gradient    bool
	seen, norms int
}

func (d *diverging) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	loss, err := d.Engine.Accumulate(slot, b)
	if d.seen++; d.seen == brokenAtBatch && !d.gradient {
		loss.Sum = math.NaN()
	}
	return loss, err
}

func (d *diverging) SumSquares(slot int, sums []float64) error {
	err := d.Engine.SumSquares(slot, sums)
	if d.norms++; d.norms == brokenStep && d.gradient {
		sums[0] = math.Inf(1)
	}
	return err
}

func divergingOutside(t *testing.T, gradient bool) outside {
	t.Helper()
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	open := engine.Open
	engine.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
		e, err := open(c, microbatch, slots)
		return &diverging{Engine: e, gradient: gradient}, err
	}
	return outside{engine: engine}
}

// A step that is not finite stops the run before anything of it is recorded: step and
// lane are named, the state before it is kept, and a healthy engine goes on from there to
// the same bits.
func TestANonFiniteStepStopsTheRun(t *testing.T) {
	p := newPlace(t)
	data := p.prepared()
	want := trained(t, 1).sums("runs/demo")
	for _, c := range []struct {
		name     string
		gradient bool
		want     []string
	}{
		{"loss", false, []string{"step 7 ", "lanes [2]", "NaN", "on_nonfinite: skip"}},
		{"gradient", true, []string{"step 7 ", "gradient norm +Inf", "on_nonfinite: skip"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newPlace(t)
			r := q.here(divergingOutside(t, c.gradient), q.trainHere(data, "run")...)
			if r.code != 1 {
				t.Errorf("exit %d", r.code)
			}
			for _, words := range c.want {
				if !strings.Contains(r.stderr, words) {
					t.Errorf("%q is not said:\n%s", words, r.stderr)
				}
			}
			if j := q.journal("run"); j.Last() != brokenStep-1 || j.Step(brokenStep-1).Commit == nil {
				t.Errorf("the journal ends with step %d", j.Last())
			}
			if newest := q.newestCheckpoint("run"); newest != brokenStep-1 {
				t.Errorf("the newest checkpoint is of step %d", newest)
			}
			if r := q.here(outside{}, "resume", filepath.Join(q.dir, "run")); r.code != 0 {
				t.Fatalf("resume: exit %d\n%s", r.code, r.stderr)
			}
			if got := q.sums("run"); got != want {
				t.Errorf("other bits:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// With on_nonfinite: skip the state stays as it is in that step, and the run goes on.
func TestANonFiniteStepIsSkipped(t *testing.T) {
	p := newPlace(t)
	data := p.prepared()
	for _, gradient := range []bool{false, true} {
		run := map[bool]string{false: "loss", true: "gradient"}[gradient]
		if r := p.here(divergingOutside(t, gradient), p.trainHere(data, run, "--set", "on_nonfinite=skip")...); r.code != 0 {
			t.Fatalf("%s: exit %d\n%s", run, r.code, r.stderr)
		}
		j := p.journal(run)
		broken := j.Step(brokenStep)
		if broken.Intent.Action != pipeline.ActionSkip || broken.Commit.StateDigest != j.Step(brokenStep-1).Commit.StateDigest {
			t.Errorf("%s: step %d: %+v", run, brokenStep, broken)
		}
		for _, step := range []int64{brokenStep - 1, brokenStep + 1, 20} {
			if j.Step(step).Intent.Action != pipeline.ActionApply {
				t.Errorf("%s: step %d was skipped too", run, step)
			}
		}
	}
}

func (p place) journal(run string) *pipeline.Journal {
	p.t.Helper()
	journal, err := runner.ReadJournal(vfs.OS, filepath.Join(p.dir, run, "journal.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	return journal
}
