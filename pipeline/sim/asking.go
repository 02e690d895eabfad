package sim

import (
	"strings"

	"andrea/pipeline"
)

// question is what a coordinator asks a member, and what the member answers to.
type question struct {
	kind   string
	ticket int64
	step   int64
	round  int
	lo, hi int
}

// questionOf is the question that a message asks, or answers; kind is empty for others.
func questionOf(ticket int64, m pipeline.Message) question {
	switch m := m.(type) {
	case pipeline.Welcome:
		return question{kind: "load", ticket: ticket, step: m.Step}
	case pipeline.Joined:
		return question{kind: "load", ticket: ticket, step: m.Step}
	case pipeline.Lease:
		return question{kind: "compute", ticket: ticket, step: m.Step, round: m.Round, lo: m.Lo, hi: m.Hi}
	case pipeline.Answer:
		return question{kind: "compute", ticket: ticket, step: m.Step, round: m.Round, lo: m.Lo, hi: m.Hi}
	case pipeline.Commit:
		return question{kind: "apply", ticket: ticket, step: m.Step}
	case pipeline.Applied:
		return question{kind: "apply", ticket: ticket, step: m.Step}
	case pipeline.Eval:
		return question{kind: "evaluate", ticket: ticket, step: m.Step, lo: m.Lo, hi: m.Hi}
	case pipeline.Evaluated:
		return question{kind: "evaluate", ticket: ticket, step: m.Step, lo: m.Lo, hi: m.Hi}
	case pipeline.Snapshot:
		return question{kind: "copy", ticket: ticket, step: m.Step}
	case pipeline.SnapshotTaken:
		return question{kind: "copy", ticket: ticket, step: m.Step}
	}
	return question{}
}

// asking is the last question to a member, and what has become of it.
type asking struct {
	question question
	times    []*asked // that it was sent since an answer was heard, if one was
}

// asked is one of the times that a question was sent.
type asked struct {
	arrived  int64 // when it did; 0: it is under way, or lost
	answered bool  // since then
}

// ask notes that a message is sent. It returns nil if it asks nothing.
func (c *coordinator) ask(e pipeline.Send) *asked {
	q := questionOf(e.Ticket, e.Message)
	if q.kind == "" {
		return nil
	}
	a := c.asked[e.Worker]
	if a == nil || a.question != q {
		a = &asking{question: q}
		c.asked[e.Worker] = a
	}
	a.times = append(a.times, &asked{})
	return a.times[len(a.times)-1]
}

// arrive notes that a worker has what was sent. Of two copies the first counts.
func (a *asked) arrive(now int64) {
	if a != nil && a.arrived == 0 {
		a.arrived = now
	}
}

// answers notes that a worker sends a message; it may get lost.
func (c *coordinator) answers(k *worker, e pipeline.Reply) {
	if a := c.asked[k.id]; a != nil && a.question == questionOf(e.Membership.Ticket, e.Message) {
		for _, t := range a.times {
			t.answered = t.answered || t.arrived > 0
		}
	}
}

// hears notes that a worker's message is there. If it answers the question, what comes of that is up
// to the coordinator.
func (c *coordinator) hears(from pipeline.FromWorker) {
	if a := c.asked[from.Worker]; a != nil && a.question == questionOf(from.Ticket, from.Message) {
		a.times = nil
	}
}

const (
	// fewestTimes is how often a coordinator asks at least until it gives a member up that gets nothing done.
	fewestTimes = 6
	// answerTime is how long a worker that nothing keeps from work may need for an answer.
	answerTime = 5 * tick
)

// judgeHanging checks that a member that is given up because it gets nothing done gets nothing done: that
// something has kept it from work in this life, or that it was asked again and again, and the network
// brought every single question late or never, or its answer.
func (w *world) judgeHanging(c *coordinator, n pipeline.WorkerLeft) {
	k := w.worker(n.Worker)
	if !strings.Contains(n.Reason, "gets nothing done") || k.uneasy || c != w.newest() {
		return
	}
	a := c.asked[k.id]
	if a == nil || len(a.times) < fewestTimes {
		w.failf("%s is lost and nothing kept it from work, nor was it asked for long: %s", k.id, n.Reason)
	}
	for _, t := range a.times {
		if t.arrived > 0 && !t.answered && w.clock.now > t.arrived+answerTime {
			w.failf("%s is lost and nothing kept it from work, nor from an answer: it was asked to %s in step %d at tick %d: %s",
				k.id, a.question.kind, a.question.step, t.arrived/tick, n.Reason)
		}
	}
}
