package runner_test

import (
	"bytes"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// A lie is sent just before a true message of the same kind and the same sender.
type lie struct {
	name string
	kind pipeline.Message // of the true message; of step 2, where it has one
	// told is the lie; earlier is the sender's message of that kind for step 1.
	told func(truth, earlier wire.Control) []byte
	// reason is in the words of who expels the liar; empty: nobody minds.
	reason string
}

// encoded is a control message as bytes.
func encoded(c wire.Control) []byte {
	data, err := wire.EncodeControl(c)
	if err != nil {
		panic(err) // a message of this package's own
	}
	return data
}

// as makes a lie of changing a message of one kind.
func as[M pipeline.Message](change func(m *M)) func(truth, earlier wire.Control) []byte {
	return func(truth, _ wire.Control) []byte {
		m := truth.Message.(M)
		change(&m)
		truth.Message = m
		return encoded(truth)
	}
}

// posing makes a lie of changing who and under which membership a message with other content is sent.
func posing[M pipeline.Message](content func(m *M), change func(c *wire.Control)) func(truth, earlier wire.Control) []byte {
	return func(truth, _ wire.Control) []byte {
		m := truth.Message.(M)
		content(&m)
		truth.Message = m
		change(&truth)
		return encoded(truth)
	}
}

// raw are lies about any message: bytes that are none.
func raw(kind pipeline.Message) []lie {
	return []lie{
		{"nothing", kind, func(_, _ wire.Control) []byte { return nil }, ""},
		{"garbage", kind, func(_, _ wire.Control) []byte { return []byte("\x00\xff{]") }, ""},
		{"no message", kind, func(_, _ wire.Control) []byte { return []byte(`{"kind":"shutdown"}`) }, ""},
		{"torn", kind, func(c, _ wire.Control) []byte { data := encoded(c); return data[:len(data)-1] }, ""},
		{"twice in one", kind, func(c, _ wire.Control) []byte { return bytes.Repeat(encoded(c), 2) }, ""},
		{"far too long", kind, func(_, _ wire.Control) []byte { return bytes.Repeat([]byte(" "), wire.MaxControlBytes+1) }, ""},
		{"replayed", kind, func(_, earlier wire.Control) []byte { return encoded(earlier) }, ""},
	}
}

// stepOf is the step that a message is about; 0: it names none.
func stepOf(m pipeline.Message) int64 {
	switch m := m.(type) {
	case pipeline.Lease:
		return m.Step
	case pipeline.Answer:
		return m.Step
	case pipeline.Commit:
		return m.Step
	case pipeline.Applied:
		return m.Step
	case pipeline.Eval:
		return m.Step
	case pipeline.Evaluated:
		return m.Step
	}
	return 0
}

// sameKind reports that two messages are of one type.
func sameKind(a, b pipeline.Message) bool { return encodedKind(a) == encodedKind(b) }

func encodedKind(m pipeline.Message) string {
	data := encoded(wire.Control{Worker: "w", Incarnation: "1", Message: m})
	kind, _, _ := strings.Cut(string(data), ",")
	return kind
}

// liar is a hook for what a bus publishes: it tells one lie to or of worker x.
type liar struct {
	lie
	mu      sync.Mutex
	earlier *wire.Control
	told    bool
}

func (l *liar) publish(bus *bus) func(subject string, data []byte) bool {
	return func(subject string, data []byte) bool {
		c, err := wire.DecodeControl(data)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil || c.Worker != "x" || !sameKind(c.Message, l.kind) || l.told {
			return false
		}
		if stepOf(c.Message) == 1 {
			l.earlier = &c
			return false
		}
		l.told = true
		_ = bus.Bus.Publish(subject, l.lie.told(c, *l.earlier))
		return false
	}
}

var (
	wrongGradient = func(a *pipeline.Answer) { a.GradDigest[0]++ }
	wrongState    = func(a *pipeline.Applied) { a.Digest[0]++ }
	wrongUpdate   = func(c *pipeline.Commit) { c.Scale *= 2; c.Hyper.LR = 1 }
)

func liesOfWorkers() []lie {
	answer, applied, evaluated := pipeline.Answer{}, pipeline.Applied{}, pipeline.Evaluated{}
	lies := append(raw(answer), raw(applied)...)
	return append(lies, []lie{
		{"under an old generation", answer, posing(wrongGradient, func(c *wire.Control) { c.Generation-- }), ""},
		{"under a later generation", answer, posing(wrongGradient, func(c *wire.Control) { c.Generation++ }), ""},
		{"under an old ticket", answer, posing(wrongGradient, func(c *wire.Control) { c.Ticket-- }), ""},
		{"under a later ticket", answer, posing(wrongGradient, func(c *wire.Control) { c.Ticket += 3 }), ""},
		{"as in another life", answer, posing(wrongGradient, func(c *wire.Control) { c.Incarnation = "life-0" }), ""},
		{"as somebody else", answer, posing(wrongGradient, func(c *wire.Control) { c.Worker = "y" }), ""},
		{"to an earlier round", answer, as(func(a *pipeline.Answer) { wrongGradient(a); a.Round-- }), ""},
		{"to a later round", answer, as(func(a *pipeline.Answer) { wrongGradient(a); a.Round++ }), ""},
		{"to a later step", answer, as(func(a *pipeline.Answer) { wrongGradient(a); a.Step++ }), ""},
		{"to other lanes", answer, as(func(a *pipeline.Answer) { wrongGradient(a); a.Lo, a.Hi = 0, 8 }), ""},
		{"with lanes that there are not", answer, as(func(a *pipeline.Answer) { wrongGradient(a); a.Lo, a.Hi = -1, 1<<40 }), ""},
		{"too few losses", answer, as(func(a *pipeline.Answer) { a.Lanes = nil }), "reported 0 losses"},
		{"too many losses", answer, as(func(a *pipeline.Answer) { a.Lanes = make([]pipeline.LaneResult, 1000) }), "reported 1000 losses"},
		{"sums that it cannot know", answer, as(func(a *pipeline.Answer) { a.SumSquares = []pipeline.Float{1} }), "reported 1 sums of squares"},
		{"another number of tokens", answer, as(func(a *pipeline.Answer) { a.Lanes[0].Tokens++ }), "trained on"},
		{"from another state", answer, as(func(a *pipeline.Answer) { a.StateDigest[1]++ }), "from a state with digest"},
		{"a loss that is no number", answer, as(func(a *pipeline.Answer) { a.Lanes[0].LossSum = pipeline.Float(math.NaN()) }), "computed a wrong gradient"},
		{"an infinite loss", answer, as(func(a *pipeline.Answer) { a.Lanes[0].LossSum = pipeline.Float(math.Inf(1)) }), "computed a wrong gradient"},
		{"a gradient that it does not have", answer, as(wrongGradient), "sent another gradient"},
		{"a time that is no number", answer, as(func(a *pipeline.Answer) { a.Seconds = -1e308 }), ""},
		{"another state", applied, as(wrongState), "reports a state with digest"},
		{"another state under an old ticket", applied, posing(wrongState, func(c *wire.Control) { c.Ticket-- }), ""},
		{"a state of a later step", applied, as(func(a *pipeline.Applied) { wrongState(a); a.Step++ }), ""},
		{"too few evaluated windows", evaluated, as(func(e *pipeline.Evaluated) { e.Sums = nil }), "evaluated 0 windows"},
		{"other evaluated windows", evaluated, as(func(e *pipeline.Evaluated) { e.Lo, e.Hi = e.Lo+1, e.Hi+1 }), ""},
		{"another number of evaluated tokens", evaluated, as(func(e *pipeline.Evaluated) { e.Tokens = math.MinInt64 }), "evaluated"},
	}...)
}

func liesOfCoordinators() []lie {
	lease, commit, eval := pipeline.Lease{}, pipeline.Commit{}, pipeline.Eval{}
	instead := func(m pipeline.Message, change func(*wire.Control)) func(truth, _ wire.Control) []byte {
		return func(truth, _ wire.Control) []byte {
			truth.Message = m
			change(&truth)
			return encoded(truth)
		}
	}
	old := func(c *wire.Control) { c.Ticket-- }
	lies := append(raw(lease), raw(commit)...)
	return append(lies, []lie{
		{"an end of an old generation", lease, instead(pipeline.Finish{}, func(c *wire.Control) { c.Generation-- }), ""},
		{"an end under an old ticket", lease, instead(pipeline.Finish{}, old), ""},
		{"an end for who hails", lease, instead(pipeline.Finish{}, func(c *wire.Control) { c.Ticket = 0 }), ""},
		{"an end for another life", lease, instead(pipeline.Finish{}, func(c *wire.Control) { c.Incarnation = "life-0" }), ""},
		{"an end for somebody else", lease, instead(pipeline.Finish{}, func(c *wire.Control) { c.Worker = "y" }), ""},
		{"a dismissal under an old ticket", lease, instead(pipeline.Rejoin{}, old), ""},
		{"a refusal under an old ticket", lease, instead(pipeline.Refuse{}, old), ""},
		{"a welcome under an old ticket", lease, instead(pipeline.Welcome{Step: 7, Digest: model.Digest{1}}, old), ""},
		{"an update under an old ticket", commit, posing(wrongUpdate, old), ""},
		{"an update of an old generation", commit, posing(wrongUpdate, func(c *wire.Control) { c.Generation-- }), ""},
		{"an update of a later generation", commit, posing(wrongUpdate, func(c *wire.Control) { c.Generation++ }), ""},
		{"an update of a later step", commit, as(func(c *pipeline.Commit) { wrongUpdate(c); c.Step++ }), ""},
		{"lanes that are no subtree", lease, as(func(l *pipeline.Lease) { l.Lo, l.Hi = 1, 3 }), ""},
		{"lanes that there are not", lease, as(func(l *pipeline.Lease) { l.Lo, l.Hi = 8, 16 }), ""},
		{"negative lanes", lease, as(func(l *pipeline.Lease) { l.Lo, l.Hi = math.MinInt64, math.MaxInt64 }), ""},
		{"lanes of a later step", lease, as(func(l *pipeline.Lease) { l.Step += 5 }), ""},
		{"lanes of an earlier round", lease, as(func(l *pipeline.Lease) { l.Round-- }), ""},
		{"windows that there are not", eval, as(func(e *pipeline.Eval) { e.Lo, e.Hi = 0, math.MaxInt64 }), ""},
		{"no windows", eval, as(func(e *pipeline.Eval) { e.Lo, e.Hi = 1, 1 }), ""},
	}...)
}

// Whatever comes before a true message, from a worker or from what looks like a coordinator, the
// weights are those of an undisturbed run. A worker that can only have said it because something
// is wrong with it is expelled.
func TestLiesChangeNothing(t *testing.T) {
	for sender, lies := range map[string][]lie{"worker": liesOfWorkers(), "coordinator": liesOfCoordinators()} {
		for _, l := range lies {
			t.Run(strings.Trim(encodedKind(l.kind), `{":`)+" of a "+sender+": "+l.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { oneLie(t, &liar{lie: l}, sender == "worker") })
			})
		}
	}
}

func oneLie(t *testing.T, l *liar, ofWorker bool) {
	r := newQuietRig(t, "batch={tokens_per_step: 32, lanes: 8}", "steps=3", "eval={every: 1, windows: 3}", "checkpoint.every=100")
	want := r.reference(t)
	fsys := crashfs.New()
	f, err := open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	f.start.Workers = 3
	if !ofWorker {
		r.coordinator.control.publish = l.publish(r.coordinator.control)
	}
	said := r.conduct(t, f, nil, func() {
		for _, id := range []string{"w", "x", "y"} {
			s := r.connect(t, "worker")
			if ofWorker && id == "x" {
				s.control.publish = l.publish(s.control)
			}
			r.start(t, id, s, nil)
		}
	})
	if !l.told {
		t.Fatal("it was not told")
	}
	if l.reason != "" {
		r.mustExpel(t, fsys, said, l.reason, want)
		return
	}
	if gone := said.gone(); len(gone) > 0 {
		t.Errorf("gone: %+v", gone)
	}
	r.mustComplete(t, fsys, said, want)
}
