package pipeline_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"andrea/pipeline"
)

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
// "1", unless the event says worker=, life=. A worker answers to what it was asked last,
// under its newest ticket, as a correct one does, unless the event says otherwise.
type coordinatorTeller struct {
	t          *testing.T
	settings   []string
	plan       *pipeline.Plan
	machine    *pipeline.Coordinator
	journal    pipeline.Journal
	generation int64
	seats      map[string]*seat
	attempt    int // the newest Reduce
}

// seat is what a worker knows of the run.
type seat struct {
	life     string
	ticket   int64
	lease    pipeline.Lease
	eval     pipeline.Eval
	progress uint64
}

func newCoordinatorTeller(t *testing.T) *coordinatorTeller {
	return &coordinatorTeller{t: t, seats: map[string]*seat{}}
}

func (c *coordinatorTeller) seat(worker string) *seat {
	if c.seats[worker] == nil {
		c.seats[worker] = &seat{life: "1"}
	}
	return c.seats[worker]
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
		return c.ticks(words, args), nil
	case "status":
		return c.status(), nil
	}
	event, err := c.eventOf(words, args)
	if err != nil {
		return nil, err
	}
	return c.show(c.machine.Handle(event)), nil
}

func (c *coordinatorTeller) begin(args arguments) []string {
	step := args.number("step", 0)
	c.generation++
	for earlier := c.journal.Last() + 1; earlier <= step; earlier++ {
		c.trained(earlier)
	}
	start := pipeline.Start{
		Step: step, Digest: named(args.text("digest", "none")), Checkpoint: step > 0, Class: args["class"],
		Workers: int(args.number("workers", 1)), Generation: uint64(c.generation), Journal: &c.journal,
	}
	c.plan = storyPlan(c.t, c.settings)
	c.machine = pipeline.NewCoordinator(c.plan, start)
	checkpoint := "no checkpoint"
	if start.Checkpoint {
		checkpoint = fmt.Sprintf("checkpoint %d", step)
	}
	return []string{fmt.Sprintf("(coordinator %d begins: %s, a journal of %d steps)", c.generation, checkpoint, c.journal.Last())}
}

// trained puts a step into the journal that a coordinator before the story confirmed.
func (c *coordinatorTeller) trained(step int64) {
	if _, err := c.journal.AppendIntent(pipeline.Intent{Step: step, Action: pipeline.ActionApply}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.journal.AppendCommit(pipeline.CommitRecord{Step: step, StateDigest: named(fmt.Sprintf("s%d", step))}); err != nil {
		c.t.Fatal(err)
	}
}

// ticks passes time: tick [3] [alive=a,b] [hanging=c]. Before each tick the workers named
// give a sign of life; those that hang have got nothing done. What happens in several ticks
// is told once.
func (c *coordinatorTeller) ticks(words []string, args arguments) (lines []string) {
	if len(words) == 1 {
		return c.tick(args)
	}
	n, _ := strconv.Atoi(words[1])
	at := map[string][]string{}
	for i := range n {
		for _, line := range c.tick(args) {
			if at[line] == nil {
				lines = append(lines, line)
			}
			at[line] = append(at[line], strconv.Itoa(i+1))
		}
	}
	for i, line := range lines {
		lines[i] = fmt.Sprintf("tick %s: %s", strings.Join(at[line], ", "), line)
	}
	return lines
}

func (c *coordinatorTeller) tick(args arguments) (lines []string) {
	for _, worker := range args.list("alive") {
		c.seat(worker).progress++
		lines = append(lines, c.beat(worker)...)
	}
	for _, worker := range args.list("hanging") {
		lines = append(lines, c.beat(worker)...)
	}
	return append(lines, c.show(c.machine.Tick())...)
}

func (c *coordinatorTeller) beat(worker string) []string {
	s := c.seat(worker)
	return c.show(c.machine.Handle(pipeline.FromWorker{
		Worker: pipeline.WorkerID(worker), Incarnation: s.life, Ticket: s.ticket, Message: pipeline.Heartbeat{Progress: s.progress},
	}))
}

func (c *coordinatorTeller) status() []string {
	s := c.machine.Status()
	lines := []string{fmt.Sprintf("%s, step %d of %d, class %q", s.Phase, s.Step, s.Steps, s.Class)}
	if s.LeftOut > 0 {
		lines = append(lines, fmt.Sprintf("%d audits left out", s.LeftOut))
	}
	for _, w := range s.Workers {
		lines = append(lines, fmt.Sprintf("%s on %s, joined %v: %s", w.Worker, w.Device, w.Joined, w.Doing))
	}
	return lines
}

// eventOf makes the event; words are its name and, where it has one, its step.
func (c *coordinatorTeller) eventOf(words []string, args arguments) (pipeline.CoordinatorEvent, error) {
	var step int64
	if len(words) > 1 {
		step, _ = strconv.ParseInt(words[1], 10, 64)
	}
	worker := args.text("worker", "w")
	switch words[0] {
	case "durable":
		return pipeline.IntentDurable{Step: step}, nil
	case "saved":
		e := pipeline.CheckpointWritten{Step: step, Path: fmt.Sprintf("step-%d", step), Worker: pipeline.WorkerID(worker), CopyLost: args["copy"] == "lost"}
		if reason, failed := args["error"]; failed {
			e.Err = errors.New(reason)
		}
		return e, nil
	case "reduced":
		return c.reduced(step, args), nil
	case "process-ended":
		return pipeline.WorkerLost{Worker: pipeline.WorkerID(worker), Reason: "killed"}, nil
	case "nobody-comes":
		return pipeline.NobodyComes{Reason: "all workers have ended"}, nil
	case "paused":
		return pipeline.Paused{}, nil
	case "disk-failed":
		return pipeline.DiskFailed{Err: errors.New("no space")}, nil
	case "stop":
		return pipeline.StopRequested{Reason: args.text("reason", "interrupted")}, nil
	}
	m, err := c.messageOf(words[0], step, args)
	s := c.seat(worker)
	e := pipeline.FromWorker{Worker: pipeline.WorkerID(worker), Incarnation: args.text("life", s.life), Ticket: args.number("ticket", s.ticket), Message: m}
	if words[0] == "hello" {
		e.Ticket = 0
	}
	return e, err
}

// reduced is the result of the newest reduction: the gradient that a lone worker answers
// with, or error=, worker= and wrong=yes.
func (c *coordinatorTeller) reduced(step int64, args arguments) pipeline.Reduced {
	r := pipeline.Reduced{
		Step: step, Attempt: int(args.number("attempt", int64(c.attempt))), RootDigest: named(args.text("root", fmt.Sprintf("g%d", step))),
		SumSquares: []pipeline.Float{256}, Seconds: args.seconds(),
	}
	if args["norm"] == "inf" {
		r.SumSquares[0] = pipeline.Float(math.Inf(1))
	}
	if reason, failed := args["error"]; failed {
		r.Err, r.Worker, r.Wrong = errors.New(reason), pipeline.WorkerID(args["worker"]), args["wrong"] == "yes"
	}
	return r
}

// messageOf makes a worker's message.
func (c *coordinatorTeller) messageOf(name string, step int64, args arguments) (pipeline.Message, error) {
	s := c.seat(args.text("worker", "w"))
	switch name {
	case "hello": // hello [holds=2 digest=s2] [generation=1 ticket=1] [class= protocol=]
		h := pipeline.Hello{
			Protocol: int(args.number("protocol", pipeline.Protocol)), Class: args.text("class", "plain-fp32-n1"), Device: "a test",
			Generation: uint64(args.number("generation", 0)), Ticket: args.number("ticket", 0),
		}
		if _, holds := args["holds"]; holds {
			h.Holds, h.Step, h.Digest = true, args.number("holds", 0), named(args["digest"])
		}
		return h, nil
	case "beat":
		return pipeline.Heartbeat{Progress: uint64(args.number("progress", 0))}, nil
	case "joined":
		return pipeline.Joined{Step: step, Digest: named(args.text("digest", "none"))}, nil
	case "answer":
		return c.answerOf(s, step, args), nil
	case "applied":
		return pipeline.Applied{Step: step, Digest: named(args["digest"])}, nil
	case "evaluated":
		e := pipeline.Evaluated{Step: step, Lo: int(args.number("lo", int64(s.eval.Lo))), Hi: int(args.number("hi", int64(s.eval.Hi)))}
		for range args.number("windows", int64(e.Hi-e.Lo)) {
			e.Sums = append(e.Sums, 3)
		}
		e.Tokens = args.number("tokens", int64(2*len(e.Sums)))
		e.StateDigest = named(args.text("state", fmt.Sprintf("s%d", step)))
		return e, nil
	case "copied":
		return pipeline.SnapshotTaken{Step: step, Digest: named(args["digest"])}, nil
	case "leaving":
		return pipeline.Leaving{Reason: args.text("reason", "SIGTERM")}, nil
	case "failed":
		return pipeline.Failed{Reason: args["reason"]}, nil
	}
	return nil, errUnknownEvent
}

// answerOf is the answer that a correct worker gives to its newest lease, but for the
// arguments: a loss sum of 4 for each lane, and a gradient with norm 16.
func (c *coordinatorTeller) answerOf(s *seat, step int64, args arguments) pipeline.Answer {
	lanes := c.plan.Spec.Batch.Lanes
	a := pipeline.Answer{
		Step: step, Round: int(args.number("round", int64(s.lease.Round))), Seconds: args.seconds(),
		Lo: int(args.number("lo", int64(s.lease.Lo))), Hi: int(args.number("hi", int64(s.lease.Hi))),
		StateDigest: named(args.text("state", fmt.Sprintf("s%d", step-1))),
	}
	gradient := fmt.Sprintf("g%d", step)
	if a.Hi-a.Lo < lanes {
		gradient = fmt.Sprintf("g%d[%d,%d)", step, a.Lo, a.Hi)
	} else {
		a.SumSquares = []pipeline.Float{256}
	}
	a.GradDigest = named(args.text("grad", gradient))
	for lane := range args.number("lanes", int64(a.Hi-a.Lo)) {
		number := int64(a.Lo) + lane
		l := pipeline.LaneResult{LossSum: 4, Tokens: int64(c.plan.Spec.Batch.TokensPerStep / lanes), TokenDigest: named(fmt.Sprintf("t%d", number))}
		if args.number("nan", -1) == number {
			l.LossSum = pipeline.Float(math.NaN())
		}
		if args.number("short", -1) == number {
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

// line is an effect in words.
func (c *coordinatorTeller) line(effect pipeline.CoordinatorEffect) string {
	switch e := effect.(type) {
	case pipeline.Send:
		c.seat(string(e.Worker)).learn(e)
		ticket := "without a ticket"
		if e.Ticket > 0 {
			ticket = fmt.Sprintf("ticket %d", e.Ticket)
		}
		return fmt.Sprintf("to %s, life %s, %s: %s", e.Worker, e.Incarnation, ticket, message(e.Message))
	case pipeline.Reduce:
		c.attempt = e.Attempt
		return fmt.Sprintf("sum the gradients of step %d, attempt %d: %s", e.Step, e.Attempt, contributions(e.Contributions))
	case pipeline.Anticipate:
		return fmt.Sprintf("expect the gradients of step %d: %s", e.Step, contributions(e.Contributions))
	case pipeline.CancelReduce:
		return "stop summing"
	case pipeline.WriteCheckpoint:
		return fmt.Sprintf("write checkpoint %d from %s: state %s", e.Step, e.Worker, nameOf(e.Digest))
	case pipeline.Announce:
		return "announce: " + notice(e.Notice)
	case pipeline.End:
		o := e.Outcome
		return fmt.Sprintf("end at state %d: complete %v, checkpoint %d, stopped %q, error %v", o.Step, o.Complete, o.Checkpoint, o.Stopped, o.Err)
	}
	return c.written(effect)
}

// written is a record in words. It goes into the journal, as the runner does it.
func (c *coordinatorTeller) written(effect pipeline.CoordinatorEffect) string {
	var err error
	var line string
	switch e := effect.(type) {
	case pipeline.WriteIntent:
		_, err = c.journal.AppendIntent(e.Intent)
		i := e.Intent
		var leases []string
		for _, l := range i.Leases {
			leases = append(leases, fmt.Sprintf("[%d, %d) by %s", l.Lo, l.Hi, l.Worker))
		}
		line = fmt.Sprintf("write intent %d: %s, loss sum %v of %d tokens, norm %v, scale %v, lr %v, root %s, lanes %s", i.Step, i.Action, i.LossSum, i.Tokens, i.GradNorm, i.Scale, i.LR, nameOf(i.RootDigest), strings.Join(leases, ", "))
	case pipeline.WriteCommit:
		_, err = c.journal.AppendCommit(e.Record)
		line = fmt.Sprintf("write record %d: loss %v%s, state %s", e.Record.Step, e.Record.Loss, validation(e.Record), nameOf(e.Record.StateDigest))
	}
	if err != nil || line == "" {
		c.t.Fatalf("%#v: %v", effect, err)
	}
	return line
}

func validation(r pipeline.CommitRecord) string {
	if r.ValLoss == nil {
		return ""
	}
	return fmt.Sprintf(", validation %v", *r.ValLoss)
}

// learn takes in what the coordinator sent to the worker.
func (s *seat) learn(e pipeline.Send) {
	switch m := e.Message.(type) {
	case pipeline.Welcome:
		s.life, s.ticket = e.Incarnation, e.Ticket
	case pipeline.Lease:
		s.lease = m
	case pipeline.Eval:
		s.eval = m
	}
}

func contributions(cs []pipeline.Contribution) string {
	var from []string
	for _, part := range cs {
		from = append(from, fmt.Sprintf("lanes [%d, %d) of %s, %s", part.Lo, part.Hi, part.Worker, nameOf(part.Digest)))
	}
	return strings.Join(from, "; ")
}
