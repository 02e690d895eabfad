package cli

import (
	"math"
	"strings"
	"testing"

	"andrea/pipeline"
	"andrea/pipeline/runner"
)

func TestStatusText(t *testing.T) {
	loss, eta, none := pipeline.Float(math.Inf(1)), pipeline.Float(3725.4), pipeline.Float(math.NaN())
	running := runStatus{
		Dir: "runs/demo", State: stateRunning, Phase: "computing", Step: 1, Steps: 3, Loss: &loss, Speed: 12345.6, ETASeconds: &eta,
		Workers: []runner.WorkerReport{{ID: "worker", Device: "a \x1b[2Jprocessor\n", Joined: true}, {ID: "late", Device: "another"}}, Class: "cpu-1", Generation: 2, Checkpoint: -1,
	}
	want := `run         runs/demo
state       running: computing
step        1 of 3 (33.3 %)
loss        +Inf
speed       12346 tokens/s, 1h2m5s left
worker      worker on a ?[2Jprocessor?
worker      late on another, loading the state
engine      cpu-1
generation  2
checkpoint  none yet
`
	if got := string(running.text()); got != want {
		t.Errorf("\n%s want\n%s", got, want)
	}
	running.ETASeconds = &none
	if got := string(running.text()); !strings.Contains(got, "tokens/s\n") {
		t.Errorf("before the first step:\n%s", got)
	}
	stopped := runStatus{Dir: "runs/demo", State: stateUnknown, Reason: "no answer", Path: "there", Resume: "andrea resume runs/demo"}
	want = `run         runs/demo
state       unknown, it may be running: no answer
step        0 of 0 (0.0 %)
generation  0
checkpoint  there
go on with  andrea resume runs/demo
`
	if got := string(stopped.text()); got != want {
		t.Errorf("\n%s want\n%s", got, want)
	}
}
