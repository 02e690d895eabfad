package pipeline_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"andrea/model"
	"andrea/pipeline"
)

// workerTeller plays a worker. "work" takes what the engine shall do next; its
// results are events of their own. Messages come under the membership of the newest
// welcome unless the event says generation=, ticket=.
type workerTeller struct {
	machine *pipeline.Worker
	newest  pipeline.Membership
}

func newWorkerTeller() *workerTeller {
	return &workerTeller{machine: pipeline.NewWorker("plain-fp32-n1", "a test"), newest: pipeline.Membership{Generation: 1}}
}

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
		event, err = w.received(words[0], step, args)
	}
	if err != nil {
		return nil, err
	}
	return w.show(w.machine.Handle(event)), nil
}

// received is a message under its membership, or the news that none comes.
func (w *workerTeller) received(name string, step int64, args arguments) (pipeline.WorkerEvent, error) {
	ticket := w.newest.Ticket
	if name == "welcome" && ticket == 0 {
		ticket = 1
	}
	under := pipeline.Membership{Generation: uint64(args.number("generation", int64(w.newest.Generation))), Ticket: args.number("ticket", ticket)}
	if name == "unheard" {
		return pipeline.Unheard{Membership: under}, nil
	}
	m, err := commandOf(name, step, args)
	if _, welcome := m.(pipeline.Welcome); welcome {
		w.newest = under
	}
	return pipeline.Received{Membership: under, Message: m}, err
}

func accumulatedOf(args arguments) pipeline.Accumulated {
	return pipeline.Accumulated{Loss: model.Loss{Sum: float64(args.number("loss", 2)), Tokens: 2}, TokenDigest: named("t"), Seconds: 0.25}
}

// workerResult makes the result of an effect, or a wish of the operator's.
func workerResult(name string, args arguments) (pipeline.WorkerEvent, error) {
	switch name {
	case "opened":
		return pipeline.EngineOpened{Buckets: int(args.number("buckets", 1))}, nil
	case "loaded":
		return pipeline.BucketLoaded{Digest: named(args["digest"])}, nil
	case "accumulated":
		return accumulatedOf(args), nil
	case "concluded":
		return pipeline.Concluded{Accumulated: accumulatedOf(args), StateDigest: named(args["state"]), GradDigest: named(args["grad"]), SumSquares: []pipeline.Float{256}}, nil
	case "root-pulled":
		return pipeline.RootPulled{Digest: named(args["digest"])}, nil
	case "updated":
		return pipeline.Updated{Digest: named(args["digest"])}, nil
	case "window-done":
		return pipeline.WindowEvaluated{Loss: model.Loss{Sum: 3, Tokens: 2}, StateDigest: named(args["state"])}, nil
	case "copy-done":
		return pipeline.SnapshotCopied{Digest: named(args["digest"])}, nil
	case "transfer-failed":
		return pipeline.TransferFailed{Err: errors.New("no responders")}, nil
	case "work-failed":
		return pipeline.WorkFailed{Err: errors.New("the device is gone")}, nil
	case "leave":
		return pipeline.LeaveRequested{Reason: "SIGTERM"}, nil
	}
	return nil, errUnknownEvent
}

// commandOf makes a coordinator's message.
func commandOf(name string, step int64, args arguments) (pipeline.Message, error) {
	switch name {
	case "welcome": // welcome 5 [digest=s5] [from=a,b | stored=yes] [job=]
		m := pipeline.Welcome{Job: jobText(args.text("job", "resolved")), Step: step, Digest: named(args.text("digest", "none")), Stored: args["stored"] == "yes"}
		for _, h := range args.list("from") {
			m.Holders = append(m.Holders, pipeline.WorkerID(h))
		}
		return m, nil
	case "wait":
		return pipeline.Wait{Reason: "the next step has to be confirmed first"}, nil
	case "rejoin":
		return pipeline.Rejoin{Reason: "the coordinator had lost it"}, nil
	case "refuse":
		return pipeline.Refuse{Reason: "no room"}, nil
	case "lease":
		return pipeline.Lease{Step: step, Round: int(args.number("round", 1)), Lo: int(args.number("lo", 0)), Hi: int(args.number("hi", 2))}, nil
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
	case "other":
		return strings.Replace(full, "steps: 2", "steps: 3", 1)
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
		if e.Membership == (pipeline.Membership{}) {
			return "to any coordinator: " + message(e.Message)
		}
		return fmt.Sprintf("under ticket %d of generation %d: %s", e.Membership.Ticket, e.Membership.Generation, message(e.Message))
	case pipeline.OpenEngine:
		return "open an engine for job " + e.Job.Name
	case pipeline.LoadBucket:
		return fmt.Sprintf("load bucket %d of state %d, %s", e.Bucket, e.Step, source(e.Step, e.Holders, e.Stored))
	case pipeline.Zero:
		return fmt.Sprintf("zero slot %d", e.Slot)
	case pipeline.Accumulate:
		return fmt.Sprintf("accumulate step %d, lane %d, microbatch %d into slot %d", e.Step, e.Lane, e.Microbatch, e.Slot)
	case pipeline.Fold:
		return fmt.Sprintf("fold slot %d into slot %d", e.Src, e.Dst)
	case pipeline.Conclude:
		return fmt.Sprintf("conclude lanes [%d, %d) of step %d with lane %d, microbatch %d into slot %d, folded %d times, squares %v", e.Lo, e.Hi, e.Step, e.Lane, e.Microbatch, e.Slot, e.Folds, e.SumSquares)
	case pipeline.PullRoot:
		return fmt.Sprintf("pull the root of step %d", e.Step)
	case pipeline.Update:
		return fmt.Sprintf("update to state %d with scale %v, lr %v", e.Step, e.Scale, e.Hyper.LR)
	case pipeline.Keep:
		return fmt.Sprintf("keep the state as state %d", e.Step)
	case pipeline.EvalWindow:
		if e.Last {
			return fmt.Sprintf("evaluate window %d, the last one", e.Window)
		}
		return fmt.Sprintf("evaluate window %d", e.Window)
	case pipeline.TakeSnapshot:
		return fmt.Sprintf("copy state %d", e.Step)
	case pipeline.Leave:
		return fmt.Sprintf("leave: %v", e.Err)
	}
	return fmt.Sprintf("%#v", effect)
}
