package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"andrea/pipeline"
	"andrea/pipeline/transport"
)

// answering is a bus on which one side asks and the other answers.
type answering struct {
	transport.Bus
	answer []byte
	err    error
}

func (a answering) Request(_ context.Context, subject string, data []byte) ([]byte, error) {
	if subject != "andrea.demo.c.status" || len(data) != 0 {
		return nil, fmt.Errorf("asked on %s with %q", subject, data)
	}
	return a.answer, a.err
}

// serving is a bus that calls the one subscription of the coordinator.
type serving struct {
	transport.Bus
	handler func(transport.Message)
}

func (s *serving) Subscribe(_ string, handler func(transport.Message)) (transport.Subscription, error) {
	s.handler = handler
	return nil, nil
}

// asked is what the coordinator answers now.
func (s *serving) asked(t *testing.T) Report {
	t.Helper()
	var answer []byte
	s.handler(transport.NewMessage("andrea.demo.c.status", nil, func(data []byte) error { answer = data; return nil }))
	r, err := AskStatus(t.Context(), answering{answer: answer}, "demo")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func record(step int64, seconds float64, val *pipeline.Float) pipeline.CommitRecord {
	return pipeline.CommitRecord{Step: step, Tokens: 600, Loss: pipeline.Float(10 - step), ValLoss: val, Seconds: seconds}
}

// What is asked for is what the coordinator has announced, from the journal at first.
func TestStatusFollowsTheRun(t *testing.T) {
	val := pipeline.Float(3.5)
	second, third := record(2, 1, &val), record(3, 1, nil)
	journal := &pipeline.Journal{Steps: []pipeline.Recorded{{}, {Commit: &second}, {Commit: &third}, {}}}
	plan := &pipeline.Plan{Spec: pipeline.DefaultJobSpec()}
	plan.Spec.Steps = 10
	bus := &serving{}
	start := pipeline.Start{Step: 3, Checkpoint: true, Journal: journal}
	c := &coordinator{CoordinatorOptions: CoordinatorOptions{Generation: 7, Plan: plan, Start: start, Control: bus}, machine: pipeline.NewCoordinator(plan, start)}
	if _, err := c.openBoard("demo"); err != nil {
		t.Fatal(err)
	}
	r := bus.asked(t)
	if !math.IsNaN(float64(r.ETASeconds)) {
		t.Errorf("time left before the first step: %v", r.ETASeconds)
	}
	r.ETASeconds = 0
	want := Report{Run: "demo", Generation: 7, Precision: "fp32", Phase: "waiting for workers", Step: 3, Steps: 10, Workers: []WorkerReport{}, Last: &third, Validation: &second, Checkpoint: 3}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("at the start: %+v\nwant %+v", r, want)
	}
	fourth := record(4, 2, nil)
	now := pipeline.Status{Phase: "computing", Step: 4, Steps: 10, Workers: []pipeline.WorkerStatus{{Worker: "worker", Device: "a processor", Joined: true}}, Class: "cpu-1"}
	c.board.note(pipeline.StepDone{Record: fourth}, now)
	c.board.note(pipeline.CheckpointSaved{Step: 4}, now)
	want = Report{Run: "demo", Generation: 7, Precision: "fp32", Phase: "computing", Step: 4, Steps: 10, Class: "cpu-1", Workers: []WorkerReport{{"worker", "a processor", true}}, Last: &fourth, Validation: &second, TokensPerSecond: 300, ETASeconds: 12, Checkpoint: 4}
	if r := bus.asked(t); !reflect.DeepEqual(r, want) {
		t.Errorf("after a step: %+v\nwant %+v", r, want)
	}
}

// The time left is the median of the newest 15 steps for each step to do.
func TestRemainingTimeForgetsOldSteps(t *testing.T) {
	var b board
	b.begin("demo", 1, pipeline.Start{})
	for step := range int64(100) {
		seconds := 100.0
		if step >= 85 {
			seconds = 2
		}
		if step == 97 {
			seconds = 50 // with a validation loss
		}
		b.note(pipeline.StepDone{Record: record(step+1, seconds, nil)}, pipeline.Status{Step: step + 1, Steps: 110})
	}
	if r := b.shown.Load(); r.ETASeconds != 20 || r.TokensPerSecond != 300 {
		t.Errorf("%v seconds at %v tokens/s for 10 steps of 2 s and 600 tokens", r.ETASeconds, r.TokensPerSecond)
	}
}

// A step that is computed again has the seconds of an earlier run, maybe on another machine.
func TestRemainingTimeLeavesOutStepsComputedAgain(t *testing.T) {
	var b board
	b.begin("demo", 1, pipeline.Start{})
	b.note(pipeline.StepDone{Record: record(1, 50, nil), Again: true}, pipeline.Status{Step: 1, Steps: 12})
	if got := b.shown.Load().ETASeconds; !math.IsNaN(float64(got)) {
		t.Errorf("%v seconds before a step was measured", got)
	}
	b.note(pipeline.StepDone{Record: record(2, 3, nil)}, pipeline.Status{Step: 2, Steps: 12})
	if got := b.shown.Load().ETASeconds; got != 30 {
		t.Errorf("%v seconds for 10 steps of 3", got)
	}
}

func TestUnreadableStatusIsAnError(t *testing.T) {
	for _, c := range []struct {
		name string
		bus  answering
		want string
	}{
		{"no answer", answering{err: transport.ErrNoResponders}, "no responders"},
		{"no JSON", answering{answer: []byte("hello")}, "one version"},
		{"another shape", answering{answer: []byte(`{"step":"three"}`)}, "one version"},
		{"far too long", answering{answer: make([]byte, 2<<20)}, "1048576"},
	} {
		_, err := AskStatus(t.Context(), c.bus, "demo")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "demo") {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.bus.err != nil && !errors.Is(err, c.bus.err) {
			t.Errorf("%s: the bus's error is lost: %v", c.name, err)
		}
	}
}
