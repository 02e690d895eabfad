package pipeline_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"andrea/model"
	"andrea/pipeline"
)

func readStory(t *testing.T, path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// workerTeller plays a worker. "work" takes what the engine shall do next; its
// results are events of their own.
type workerTeller struct{ machine *pipeline.Worker }

func (w *workerTeller) event(words []string) ([]string, error) {
	words, args := argumentsOf(words)
	var step int64
	if len(words) > 1 {
		step, _ = strconv.ParseInt(words[1], 10, 64)
	}
	switch words[0] {
	case "tick":
		return w.show(w.machine.Tick()), nil
	case "work":
		return w.show(w.machine.Work()), nil
	}
	event, err := workerResult(words[0], args)
	if errors.Is(err, errUnknownEvent) {
		var m pipeline.Message
		m, err = commandOf(words[0], step, args)
		event = pipeline.Received{Message: m}
	}
	if err != nil {
		return nil, err
	}
	return w.show(w.machine.Handle(event)), nil
}

// workerResult makes the result of an effect.
func workerResult(name string, args arguments) (pipeline.WorkerEvent, error) {
	switch name {
	case "loaded":
		return pipeline.StateLoaded{Digest: named(args["digest"])}, nil
	case "accumulated":
		return pipeline.Accumulated{Loss: model.Loss{Sum: float64(args.number("loss", 2)), Tokens: 2}, TokenDigest: named("t")}, nil
	case "measured":
		return pipeline.Measured{StateDigest: named(args["state"]), GradDigest: named(args["grad"]), SumSquares: []pipeline.Float{256}}, nil
	case "updated":
		return pipeline.Updated{Digest: named(args["digest"])}, nil
	case "window-done":
		return pipeline.WindowEvaluated{Loss: model.Loss{Sum: 3, Tokens: 2}}, nil
	case "copy-done":
		return pipeline.SnapshotCopied{}, nil
	case "work-failed":
		return pipeline.WorkFailed{Err: errors.New("the device is gone")}, nil
	}
	return nil, errUnknownEvent
}

// commandOf makes a coordinator's message.
func commandOf(name string, step int64, args arguments) (pipeline.Message, error) {
	switch name {
	case "welcome":
		return pipeline.Welcome{Job: jobText(args.text("job", "resolved")), Step: step, Stored: args.text("digest", "none") != "none", Digest: named(args.text("digest", "none"))}, nil
	case "refuse":
		return pipeline.Refuse{Reason: "no room"}, nil
	case "lease":
		return pipeline.Lease{Step: step, Lo: int(args.number("lo", 0)), Hi: int(args.number("hi", 2))}, nil
	case "cancel":
		return pipeline.Cancel{Step: step}, nil
	case "commit":
		return pipeline.Commit{Step: step, Action: args.text("action", pipeline.ActionApply), RootDigest: named(args["root"]), Scale: 0.5, Hyper: model.Hyper{LR: 0.25}}, nil
	case "eval":
		return pipeline.Eval{Step: step, Lo: int(args.number("lo", 0)), Hi: int(args.number("hi", 2))}, nil
	case "copy":
		return pipeline.Snapshot{Step: step}, nil
	case "finish":
		return pipeline.Finish{Complete: args["complete"] == "yes", Reason: args["reason"]}, nil
	}
	return nil, errUnknownEvent
}

// jobText is the job spec of a welcome: the resolved one, or one that no correct
// coordinator sends.
func jobText(kind string) string {
	full := strings.Replace(storyJob, "context: 2}", "context: 2, vocab: 11}", 1)
	switch kind {
	case "unresolved":
		return "name: story\nmodel: {variant: 12m}\n"
	case "half-resolved":
		return "name: story\nmodel: {variant: 12m, vocab: 2305}\n"
	case "four-lanes":
		return strings.Replace(full, "tokens_per_step: 8, microbatch: 1, lanes: 2", "tokens_per_step: 8, microbatch: 1, lanes: 4", 1)
	case "no-microbatch":
		return strings.Replace(full, "microbatch: 1", "microbatch: 0", 1)
	case "huge":
		return strings.Replace(full, "lanes: 2", "lanes: 4611686018427387904", 1)
	case "garbage":
		return "{"
	}
	return full
}

func (w *workerTeller) show(effects []pipeline.WorkerEffect) (lines []string) {
	for _, effect := range effects {
		lines = append(lines, plain(workerLine(effect)))
	}
	return lines
}

// workerLine is an effect in words.
func workerLine(effect pipeline.WorkerEffect) string {
	switch e := effect.(type) {
	case pipeline.Reply:
		return "reply: " + message(e.Message)
	case pipeline.OpenEngine:
		return fmt.Sprintf("open an engine with state %d, stored %v, for job %s", e.Step, e.Stored, e.Job.Name)
	case pipeline.Zero:
		return fmt.Sprintf("zero slot %d", e.Slot)
	case pipeline.Accumulate:
		return fmt.Sprintf("accumulate step %d, lane %d, microbatch %d into slot %d", e.Step, e.Lane, e.Microbatch, e.Slot)
	case pipeline.Fold:
		return fmt.Sprintf("fold slot %d into slot %d", e.Src, e.Dst)
	case pipeline.Measure:
		return "measure"
	case pipeline.Update:
		return fmt.Sprintf("update with scale %v, lr %v", e.Scale, e.Hyper.LR)
	case pipeline.EvalWindow:
		return fmt.Sprintf("evaluate window %d", e.Window)
	case pipeline.TakeSnapshot:
		return fmt.Sprintf("copy state %d", e.Step)
	case pipeline.Leave:
		return fmt.Sprintf("leave: %v", e.Err)
	}
	return fmt.Sprintf("%#v", effect)
}
