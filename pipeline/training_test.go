package pipeline_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"andrea/pipeline"
)

// undisturbed trains the tiny job in a world without faults.
func undisturbed(t testing.TB, plan *pipeline.Plan) (*world, *disk) {
	t.Helper()
	d := newDisk()
	w := newWorld(t, plan, d, 1)
	if w.run() || w.outcome.Err != nil || !w.outcome.Complete {
		t.Fatalf("the undisturbed run ended with %+v", w.outcome)
	}
	return w, d
}

func TestARunTrainsEvaluatesAndSaves(t *testing.T) {
	plan := tinyJob(t)
	w, d := undisturbed(t, plan)
	if w.outcome.Step != 7 || w.outcome.Checkpoint != 7 {
		t.Errorf("outcome = %+v, want step 7 with its checkpoint", w.outcome)
	}
	for _, step := range []int64{2, 4, 6, 7} {
		if _, ok := d.checkpoints[step]; !ok {
			t.Errorf("checkpoint %d is missing", step)
		}
	}
	j, err := pipeline.ParseJournal(d.journal)
	if err != nil || j.Last() != 7 || j.Torn != 0 {
		t.Fatalf("journal: last %d, torn %d, error %v", j.Last(), j.Torn, err)
	}
	for _, r := range j.Steps {
		due := r.Intent.Step%3 == 0 || r.Intent.Step == 7
		if r.Commit == nil || (r.Commit.ValLoss != nil) != due {
			t.Errorf("step %d: commit record %+v, validation due %v", r.Intent.Step, r.Commit, due)
		}
		if epoch := plan.Sampler.Epoch(uint64(r.Intent.Step)); r.Intent.Epoch != epoch || r.Commit.Epoch != epoch || epoch != uint64(r.Intent.Step/7) {
			t.Errorf("step %d: epochs %d and %d, want %d: 44 windows are one, 8 are a step", r.Intent.Step, r.Intent.Epoch, r.Commit.Epoch, epoch)
		}
		if r.Intent.Tokens != 32 || len(r.Intent.Leases) != 1 || len(r.Intent.Leases[0].LossSums) != 4 {
			t.Errorf("step %d: intent %+v", r.Intent.Step, r.Intent)
		}
	}
	first, last := float64(j.Steps[0].Commit.Loss), float64(j.Steps[6].Commit.Loss)
	if math.Abs(first-math.Log(11)) > 0.1 || last >= first {
		t.Errorf("loss went from %v to %v: it starts near ln 11 and falls", first, last)
	}
}

// Lost, repeated and reordered messages change nothing but the time it takes.
func TestALossyNetworkGivesTheSameBits(t *testing.T) {
	plan := tinyJob(t)
	_, want := undisturbed(t, plan)
	for seed := range uint64(60) {
		d := newDisk()
		w := newWorld(t, plan, d, seed)
		w.loss = float64(seed%6) * 0.12
		if w.run() || w.outcome.Err != nil || !w.outcome.Complete {
			t.Fatalf("seed %d: outcome %+v", seed, w.outcome)
		}
		if got := stripTimes(t, d.journal); got != stripTimes(t, want.journal) {
			t.Fatalf("seed %d: other bits\n%s", seed, got)
		}
	}
}

// The power fails at every write, once; the run that follows ends in the same bits,
// and the journal shows each step once.
func TestAPowerCutAtEveryWriteGivesTheSameBits(t *testing.T) {
	plan := tinyJob(t)
	_, want := undisturbed(t, plan)
	for failAt := 1; ; failAt++ {
		d := newDisk()
		d.failAt = failAt
		if !newWorld(t, plan, d, uint64(failAt)).run() {
			if failAt < 20 {
				t.Fatalf("only %d writes were seen", failAt)
			}
			return
		}
		w := newWorld(t, plan, d, uint64(failAt)+1000)
		if w.run() || w.outcome.Err != nil || !w.outcome.Complete {
			t.Fatalf("write %d: the resumed run ended with %+v", failAt, w.outcome)
		}
		if got := stripTimes(t, d.journal); got != stripTimes(t, want.journal) {
			t.Fatalf("write %d: other bits\n%s", failAt, got)
		}
		if d.checkpoints[7].digest != want.checkpoints[7].digest {
			t.Fatalf("write %d: another final state", failAt)
		}
	}
}

// Several power cuts in one run, on a lossy network.
func TestManyPowerCutsGiveTheSameBits(t *testing.T) {
	plan := tinyJob(t)
	_, want := undisturbed(t, plan)
	for seed := range uint64(30) {
		d := newDisk()
		for life := uint64(0); ; life++ {
			w := newWorld(t, plan, d, seed*100+life)
			w.loss = 0.2
			d.writes, d.failAt = 0, 3+w.rng.IntN(25)
			if !w.run() {
				if w.outcome.Err != nil || !w.outcome.Complete {
					t.Fatalf("seed %d life %d: outcome %+v", seed, life, w.outcome)
				}
				break
			}
			if life > 100 {
				t.Fatalf("seed %d: no progress in 100 lives", seed)
			}
		}
		if got := stripTimes(t, d.journal); got != stripTimes(t, want.journal) {
			t.Fatalf("seed %d: other bits\n%s", seed, got)
		}
	}
}

// A stop at every moment leaves a checkpoint of the last confirmed state, and going
// on from it ends in the same bits.
func TestAStopAtEveryMomentCanBeResumed(t *testing.T) {
	plan := tinyJob(t)
	reference, want := undisturbed(t, plan)
	for stopAt := 1; stopAt < reference.events; stopAt += 7 {
		d := newDisk()
		w := newWorld(t, plan, d, 1)
		w.stopAt = stopAt
		if w.run() || w.outcome.Err != nil {
			t.Fatalf("stop at %d: outcome %+v", stopAt, w.outcome)
		}
		if !w.outcome.Complete && w.outcome.Checkpoint != w.outcome.Step && w.outcome.Step > 0 {
			t.Fatalf("stop at %d: outcome %+v: the last state is not saved", stopAt, w.outcome)
		}
		w = newWorld(t, plan, d, 2)
		if w.run() || w.outcome.Err != nil || !w.outcome.Complete {
			t.Fatalf("stop at %d: the resumed run ended with %+v", stopAt, w.outcome)
		}
		if got := stripTimes(t, d.journal); got != stripTimes(t, want.journal) {
			t.Fatalf("stop at %d: other bits\n%s", stopAt, got)
		}
	}
}

// Any number of workers gives the bits that one gives, on a lossy network too.
func TestAnyNumberOfWorkersGivesTheSameBits(t *testing.T) {
	plan := tinyJob(t)
	_, want := undisturbed(t, plan)
	for _, workers := range []int{2, 3, 4, 7} {
		for seed := range uint64(6) {
			d := newDisk()
			w := newGroup(t, plan, d, seed, workers)
			w.loss = float64(seed) * 0.06
			if w.run() || w.outcome.Err != nil || !w.outcome.Complete {
				t.Fatalf("%d workers, seed %d: outcome %+v", workers, seed, w.outcome)
			}
			if got := stripTimes(t, d.journal); got != stripTimes(t, want.journal) {
				t.Fatalf("%d workers, seed %d: other bits\n%s", workers, seed, got)
			}
		}
	}
}

// A worker dies at every moment, seen by the coordinator or not: the run ends with an
// error and a checkpoint of the last confirmed state, from which another group goes on to
// the same bits.
func TestALostWorkerStopsTheRunWithACheckpoint(t *testing.T) {
	plan := tinyJob(t)
	_, want := undisturbed(t, plan)
	whole := newGroup(t, plan, newDisk(), 1, 3)
	whole.run()
	for dieAt := 1; dieAt < whole.events; dieAt += 11 {
		d := newDisk()
		w := newGroup(t, plan, d, 1, 3)
		w.dieAt, w.unseen = dieAt, dieAt%2 == 0
		w.run()
		if w.outcome.Complete {
			continue // it died after the last step
		}
		if err := w.outcome.Err; err == nil || !strings.Contains(err.Error(), "w2 was lost") && !(w.unseen && strings.Contains(err.Error(), "summing the gradients")) {
			t.Fatalf("death at %d: outcome %+v", dieAt, w.outcome)
		}
		if w.outcome.Step > 0 && w.outcome.Checkpoint != w.outcome.Step {
			t.Fatalf("death at %d: outcome %+v: the last state is not saved", dieAt, w.outcome)
		}
		w = newGroup(t, plan, d, 2, 2)
		if w.run() || w.outcome.Err != nil || !w.outcome.Complete {
			t.Fatalf("death at %d: the resumed run ended with %+v", dieAt, w.outcome)
		}
		if got := stripTimes(t, d.journal); got != stripTimes(t, want.journal) {
			t.Fatalf("death at %d: other bits\n%s", dieAt, got)
		}
	}
}

// A worker that falls silent is given up like one that dies.
func TestASilentWorkerIsGivenUp(t *testing.T) {
	plan := tinyJob(t)
	w := newGroup(t, plan, newDisk(), 5, 2)
	w.poison = func(step int64, _ int) bool {
		if step == 3 {
			w.workers[1].left = true // it hears and says nothing more
		}
		return false
	}
	w.run()
	if w.outcome.Err == nil || !strings.Contains(w.outcome.Err.Error(), "no sign of life") || w.outcome.Checkpoint != 2 {
		t.Fatalf("outcome = %+v, want the loss of w1 and a checkpoint of step 2", w.outcome)
	}
}

func TestARecordThatDiffersStopsTheRun(t *testing.T) {
	plan := tinyJob(t)
	_, d := undisturbed(t, plan)
	delete(d.checkpoints, 7)
	delete(d.checkpoints, 6)
	w := newWorld(t, plan, d, 3)
	r := w.journal.Steps[5]
	r.Intent.LossSum += 1e-9
	w.journal.Steps[5] = r
	w.coordinator = pipeline.NewCoordinator(plan, w.start)
	w.run()
	if w.outcome.Err == nil || !strings.Contains(w.outcome.Err.Error(), "recomputing step 6") {
		t.Fatalf("outcome = %+v, want a refusal at step 6", w.outcome)
	}
}

func TestNonfiniteStepsStopOrAreSkipped(t *testing.T) {
	for _, policy := range []string{pipeline.OnNonfiniteStop, pipeline.OnNonfiniteSkip} {
		t.Run(policy, func(t *testing.T) {
			plan := tinyJob(t)
			plan.Spec.OnNonfinite = policy
			d := newDisk()
			w := newWorld(t, plan, d, 1)
			w.poison = func(step int64, lane int) bool { return step == 3 && lane == 2 }
			w.run()
			j, err := pipeline.ParseJournal(d.journal)
			if err != nil {
				t.Fatal(err)
			}
			if policy == pipeline.OnNonfiniteStop {
				if w.outcome.Err == nil || !strings.Contains(w.outcome.Err.Error(), "step 3 is not finite") || !strings.Contains(w.outcome.Err.Error(), "lanes [2]") {
					t.Fatalf("outcome = %+v, want step 3 and lane 2 named", w.outcome)
				}
				if w.outcome.Checkpoint != 2 || j.Last() != 2 {
					t.Fatalf("checkpoint %d and journal up to %d: the state before the step is kept, the step is not published", w.outcome.Checkpoint, j.Last())
				}
				return
			}
			if w.outcome.Err != nil || !w.outcome.Complete {
				t.Fatalf("outcome = %+v", w.outcome)
			}
			third := j.Step(3)
			if third.Intent.Action != pipeline.ActionSkip || third.Commit.StateDigest != j.Step(2).Commit.StateDigest {
				t.Fatalf("step 3 is %+v, want a skip that keeps the state", third)
			}
			_, again := newWorld(t, plan, d, 4), d
			if got := stripTimes(t, again.journal); strings.Count(got, "\n") != 7 {
				t.Fatalf("journal: %s", got)
			}
		})
	}
}

func TestUnfitWorkersAreRefused(t *testing.T) {
	plan := tinyJob(t)
	plan.Spec.Engine = "cpu"
	for _, c := range []struct {
		name  string
		hello pipeline.Hello
		want  string
	}{
		{"protocol", pipeline.Hello{Protocol: 99, Class: "cpu-fp32-n1"}, "protocol 99"},
		{"kind", pipeline.Hello{Protocol: pipeline.Protocol, Class: "cuda-bf16-n1"}, "the job asks for cpu"},
		{"class", pipeline.Hello{Protocol: pipeline.Protocol, Class: "cpu-fp32-n9"}, "the run began with cpu-fp32-n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := pipeline.NewCoordinator(plan, pipeline.Start{Class: "cpu-fp32-n1"})
			effects := machine.Handle(pipeline.FromWorker{Worker: "w", Incarnation: "1", Message: c.hello})
			if text := fmt.Sprintf("%+v", effects); !strings.Contains(text, c.want) || strings.Contains(text, "Welcome") {
				t.Errorf("effects = %s, want a refusal with %q", text, c.want)
			}
		})
	}
}
