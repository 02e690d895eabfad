package pipeline_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"andrea/model"
	"andrea/pipeline"
)

// A story in testdata/coordinator or testdata/worker is a list of events, each with
// what the state machine wants done. Lines that begin with "> " are events, "#" are
// comments; the indented lines are effects, which -update writes anew. A digest goes
// by the name that the story gives it.

// teller knows the events and the effects of one state machine.
type teller interface {
	event(words []string) ([]string, error)
}

func TestCoordinatorStories(t *testing.T) {
	stories(t, "coordinator", func(t *testing.T) teller { return &coordinatorTeller{t: t} })
}

func TestWorkerStories(t *testing.T) {
	stories(t, "worker", func(t *testing.T) teller {
		return &workerTeller{machine: pipeline.NewWorker("plain-fp32-n1", "a test")}
	})
}

func stories(t *testing.T, folder string, newTeller func(*testing.T) teller) {
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		name := filepath.Join(folder, filepath.Base(path))
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			golden(t, name, tell(t, newTeller(t), readStory(t, path)))
		})
	}
}

// tell plays a story's events and returns it with the effects that they have.
func tell(t *testing.T, m teller, lines []string) string {
	var b strings.Builder
	for number, line := range lines {
		if strings.HasPrefix(line, "  ") {
			continue // an effect of an earlier telling
		}
		b.WriteString(line + "\n")
		event, found := strings.CutPrefix(line, "> ")
		if !found {
			continue
		}
		effects, err := m.event(strings.Fields(event))
		if err != nil {
			t.Fatalf("line %d: %q: %v", number+1, line, err)
		}
		if len(effects) == 0 {
			effects = []string{"(nothing)"}
		}
		for _, e := range effects {
			b.WriteString("  " + e + "\n")
		}
	}
	return b.String()
}

// named is the digest that a story calls name.
func named(name string) model.Digest {
	if name == "none" {
		return model.Digest{}
	}
	ids := make([]uint32, 0, len(name))
	for _, c := range name {
		ids = append(ids, uint32(c))
	}
	d := model.TokenDigestOf(0, ids)
	digestNames[d] = name
	return d
}

var digestNames = map[model.Digest]string{{}: "none"}

// plain replaces digests in a text by their names.
func plain(text string) string {
	for d, name := range digestNames {
		text = strings.ReplaceAll(text, d.String(), name)
	}
	return text
}

func nameOf(d model.Digest) string { return plain(d.String()) }

// arguments are the key=value words of an event.
type arguments map[string]string

func argumentsOf(words []string) (rest []string, a arguments) {
	a = arguments{}
	for _, w := range words {
		if key, value, found := strings.Cut(w, "="); found {
			a[key] = value
		} else {
			rest = append(rest, w)
		}
	}
	return rest, a
}

// number is an argument, or its default.
func (a arguments) number(key string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(a[key], 10, 64); err == nil {
		return n
	}
	return otherwise
}

func (a arguments) text(key, otherwise string) string {
	if text, given := a[key]; given {
		return text
	}
	return otherwise
}

var errUnknownEvent = errors.New("there is no such event")

// storyJob is a job of 2 lanes with 2 microbatches each, 8 tokens a step, and one
// bucket; its optimizer keeps the numbers of the stories round.
const storyJob = `
name: story
model: {d_model: 8, n_head: 2, n_layer: 1, context: 2}
data: {validation: 0.05}
batch: {tokens_per_step: 8, microbatch: 1, lanes: 2}
optimizer: {warmup_steps: 0, lr: 0.5, min_lr: 0.5, grad_clip: 1}
steps: 2
eval: {every: 0, windows: 2}
checkpoint: {every: 100}
`

func storyPlan(t *testing.T, settings []string) *pipeline.Plan {
	spec, err := pipeline.ParseJobSpec([]byte(storyJob))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if err := spec.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := pipeline.NewPlan(spec, tinyData)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// coordinatorTeller plays a coordinator. Its world has one worker, "w" in its life
// "1", unless the event says worker=, life=.
type coordinatorTeller struct {
	t        *testing.T
	settings []string
	machine  *pipeline.Coordinator
	journal  pipeline.Journal
}

func (c *coordinatorTeller) event(words []string) ([]string, error) {
	words, args := argumentsOf(words)
	switch words[0] {
	case "job": // job steps=5 checkpoint.every=1
		for key, value := range args {
			c.settings = append(c.settings, key+"="+value)
		}
		slices.Sort(c.settings)
		return []string{"(the job is changed)"}, nil
	case "begin": // begin [step=2 digest=s2 class=... workers=2]
		return c.begin(args), nil
	}
	if c.machine == nil {
		c.begin(arguments{})
	}
	switch words[0] {
	case "tick":
		return c.show(c.machine.Tick()), nil
	case "status":
		return []string{fmt.Sprintf("%+v", c.machine.Status())}, nil
	}
	event, err := c.eventOf(words, args)
	if err != nil {
		return nil, err
	}
	return c.show(c.machine.Handle(event)), nil
}

func (c *coordinatorTeller) begin(args arguments) []string {
	step := args.number("step", 0)
	start := pipeline.Start{Step: step, Digest: named(args.text("digest", "none")), Checkpoint: step > 0, Class: args["class"], Workers: int(args.number("workers", 1)), Journal: &c.journal}
	c.machine = pipeline.NewCoordinator(storyPlan(c.t, c.settings), start)
	return []string{fmt.Sprintf("(a coordinator begins at state %d, the journal holds %d steps)", step, c.journal.Last())}
}

// eventOf makes the event; words are its name and, where it has one, its step.
func (c *coordinatorTeller) eventOf(words []string, args arguments) (pipeline.CoordinatorEvent, error) {
	var step int64
	if len(words) > 1 {
		step, _ = strconv.ParseInt(words[1], 10, 64)
	}
	switch words[0] {
	case "durable":
		return pipeline.IntentDurable{Step: step}, nil
	case "saved":
		e := pipeline.CheckpointWritten{Step: step, Path: fmt.Sprintf("step-%d", step), Worker: pipeline.WorkerID(args.text("worker", "w")), CopyLost: args["copy"] == "lost"}
		if reason, failed := args["error"]; failed {
			e.Err = errors.New(reason)
		}
		return e, nil
	case "reduced":
		return pipeline.Reduced{Step: step, RootDigest: named(fmt.Sprintf("g%d", step)), SumSquares: []pipeline.Float{256}}, nil
	case "process-ended":
		return pipeline.WorkerLost{Worker: pipeline.WorkerID(args.text("worker", "w")), Reason: "killed"}, nil
	case "disk-failed":
		return pipeline.DiskFailed{Err: errors.New("no space")}, nil
	case "stop":
		return pipeline.StopRequested{Reason: args.text("reason", "interrupted")}, nil
	}
	m, err := messageOf(words[0], step, args)
	return pipeline.FromWorker{Worker: pipeline.WorkerID(args.text("worker", "w")), Incarnation: args.text("life", "1"), Message: m}, err
}

// messageOf makes a worker's message.
func messageOf(name string, step int64, args arguments) (pipeline.Message, error) {
	switch name {
	case "hello":
		return pipeline.Hello{Protocol: int(args.number("protocol", pipeline.Protocol)), Class: args.text("class", "plain-fp32-n1"), Device: "a test"}, nil
	case "joined":
		return pipeline.Joined{Step: step, Digest: named(args.text("digest", "none"))}, nil
	case "answer":
		return answerOf(step, args), nil
	case "applied":
		return pipeline.Applied{Step: step, Digest: named(args["digest"])}, nil
	case "evaluated":
		e := pipeline.Evaluated{Step: step, Lo: int(args.number("lo", 0)), Hi: int(args.number("hi", 2)), Tokens: args.number("tokens", 4)}
		for range args.number("windows", 2) {
			e.Sums = append(e.Sums, 3)
		}
		return e, nil
	case "copied":
		return pipeline.SnapshotTaken{Step: step, Digest: named(args["digest"])}, nil
	case "failed":
		return pipeline.Failed{Reason: args["reason"]}, nil
	}
	return nil, errUnknownEvent
}

// answerOf is the answer that a correct worker gives, but for the arguments: a loss
// sum of 4 for each lane of 4 tokens, and a gradient with norm 16.
func answerOf(step int64, args arguments) pipeline.Answer {
	a := pipeline.Answer{
		Step: step, Lo: int(args.number("lo", 0)), Hi: int(args.number("hi", 2)),
		StateDigest: named(args.text("state", "none")), GradDigest: named(args.text("grad", fmt.Sprintf("g%d", step))),
		SumSquares: []pipeline.Float{256},
	}
	for lane := range args.number("lanes", 2) {
		l := pipeline.LaneResult{LossSum: 4, Tokens: args.number("tokens", 4), TokenDigest: named(fmt.Sprintf("t%d", lane))}
		if args.number("nan", -1) == lane {
			l.LossSum = pipeline.Float(math.NaN())
		}
		if args.number("short", -1) == lane {
			l.Tokens--
		}
		a.Lanes = append(a.Lanes, l)
	}
	switch args["norm"] {
	case "inf":
		a.SumSquares[0] = pipeline.Float(math.Inf(1))
	case "missing":
		a.SumSquares = nil
	}
	return a
}

func (c *coordinatorTeller) show(effects []pipeline.CoordinatorEffect) (lines []string) {
	for _, effect := range effects {
		lines = append(lines, plain(c.line(effect)))
	}
	return lines
}

// line is an effect in words. Records go into the journal, as the runner does it.
func (c *coordinatorTeller) line(effect pipeline.CoordinatorEffect) string {
	switch e := effect.(type) {
	case pipeline.Send:
		return fmt.Sprintf("to %s in life %s: %s", e.Worker, e.Incarnation, message(e.Message))
	case pipeline.WriteIntent:
		if _, err := c.journal.AppendIntent(e.Intent); err != nil {
			c.t.Fatal(err)
		}
		i := e.Intent
		return fmt.Sprintf("write intent %d: %s, loss sum %v of %d tokens, norm %v, scale %v, lr %v, root %s", i.Step, i.Action, i.LossSum, i.Tokens, i.GradNorm, i.Scale, i.LR, nameOf(i.RootDigest))
	case pipeline.WriteCommit:
		if _, err := c.journal.AppendCommit(e.Record); err != nil {
			c.t.Fatal(err)
		}
		return fmt.Sprintf("write record %d: loss %v%s, state %s", e.Record.Step, e.Record.Loss, validation(e.Record), nameOf(e.Record.StateDigest))
	case pipeline.Reduce:
		var from []string
		for _, part := range e.Contributions {
			from = append(from, fmt.Sprintf("lanes [%d, %d) of %s", part.Lo, part.Hi, part.Worker))
		}
		return fmt.Sprintf("sum the gradients of step %d: %s", e.Step, strings.Join(from, ", "))
	case pipeline.WriteCheckpoint:
		return fmt.Sprintf("write checkpoint %d from %s: state %s", e.Step, e.Worker, nameOf(e.Digest))
	case pipeline.Announce:
		return "announce " + notice(e.Notice)
	case pipeline.End:
		o := e.Outcome
		return fmt.Sprintf("end at state %d: complete %v, checkpoint %d, stopped %q, error %v", o.Step, o.Complete, o.Checkpoint, o.Stopped, o.Err)
	}
	return fmt.Sprintf("%#v", effect)
}

func validation(r pipeline.CommitRecord) string {
	if r.ValLoss == nil {
		return ""
	}
	return fmt.Sprintf(", validation %v", *r.ValLoss)
}

func notice(n pipeline.Notice) string {
	switch n := n.(type) {
	case pipeline.WorkerJoined:
		return fmt.Sprintf("%s holds state %d", n.Worker, n.Step)
	case pipeline.WorkerRefused:
		return fmt.Sprintf("%s is refused: %s", n.Worker, n.Reason)
	case pipeline.StepDone:
		return fmt.Sprintf("step %d done, again %v", n.Record.Step, n.Again)
	case pipeline.CheckpointSaved:
		return fmt.Sprintf("checkpoint %d saved", n.Step)
	}
	return fmt.Sprintf("%#v", n)
}

// message is a message in words.
func message(m pipeline.Message) string {
	switch m := m.(type) {
	case pipeline.Hello:
		return fmt.Sprintf("hello, class %s, protocol %d", m.Class, m.Protocol)
	case pipeline.Welcome:
		return fmt.Sprintf("welcome, load state %d, %s", m.Step, nameOf(m.Digest))
	case pipeline.Refuse:
		return "refuse: " + m.Reason
	case pipeline.Joined:
		return fmt.Sprintf("joined with state %d, %s", m.Step, nameOf(m.Digest))
	case pipeline.Lease:
		return fmt.Sprintf("lease of step %d, lanes [%d, %d)", m.Step, m.Lo, m.Hi)
	case pipeline.Cancel:
		return fmt.Sprintf("cancel step %d", m.Step)
	case pipeline.Answer:
		var lanes []string
		for _, l := range m.Lanes {
			lanes = append(lanes, fmt.Sprintf("%v of %d", l.LossSum, l.Tokens))
		}
		return fmt.Sprintf("answer to step %d, lanes [%d, %d): losses %s; from state %s, gradient %s, squares %v", m.Step, m.Lo, m.Hi, strings.Join(lanes, ", "), nameOf(m.StateDigest), nameOf(m.GradDigest), m.SumSquares)
	case pipeline.Commit:
		return fmt.Sprintf("commit step %d: %s, root %s, scale %v, lr %v", m.Step, m.Action, nameOf(m.RootDigest), m.Scale, m.Hyper.LR)
	case pipeline.Applied:
		return fmt.Sprintf("applied step %d, state %s", m.Step, nameOf(m.Digest))
	case pipeline.Eval:
		return fmt.Sprintf("evaluate state %d on windows [%d, %d)", m.Step, m.Lo, m.Hi)
	case pipeline.Evaluated:
		return fmt.Sprintf("evaluated state %d: %v of %d tokens", m.Step, m.Sums, m.Tokens)
	case pipeline.Snapshot:
		return fmt.Sprintf("copy state %d", m.Step)
	case pipeline.SnapshotTaken:
		return fmt.Sprintf("copied state %d, %s", m.Step, nameOf(m.Digest))
	case pipeline.Finish:
		return fmt.Sprintf("finish, complete %v, %q", m.Complete, m.Reason)
	case pipeline.Failed:
		return "failed: " + m.Reason
	}
	return fmt.Sprintf("%#v", m)
}
