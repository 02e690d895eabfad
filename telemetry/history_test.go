package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// direct is a bus that calls the handler of a subject at once.
type direct struct {
	transport.Bus
	handlers map[string]func(transport.Message)
	refused  string // subject that cannot be subscribed to
}

func (d *direct) Subscribe(subject string, handler func(transport.Message)) (transport.Subscription, error) {
	if subject == d.refused {
		return nil, transport.ErrDenied
	}
	d.handlers[subject] = handler
	return ended{d, subject}, nil
}

func (d *direct) Request(_ context.Context, subject string, data []byte) (answer []byte, err error) {
	handler, ok := d.handlers[subject]
	if !ok {
		return nil, transport.ErrNoResponders
	}
	err = transport.ErrTimeout
	handler(transport.NewMessage(subject, data, func(a []byte) error {
		answer, err = a, nil
		return nil
	}))
	return answer, err
}

func (d *direct) log(process, line string) {
	d.handlers[wire.Logs("demo")](transport.NewMessage("andrea.demo.log."+process+".info", []byte(line), nil))
}

type ended struct {
	of      *direct
	subject string
}

func (e ended) Unsubscribe() error {
	delete(e.of.handlers, e.subject)
	return nil
}

func keep(t *testing.T) (*direct, *History) {
	t.Helper()
	bus := &direct{handlers: map[string]func(transport.Message){}}
	h, err := KeepHistory(bus, "demo")
	if err != nil {
		t.Fatal(err)
	}
	return bus, h
}

// Who comes late gets the newest lines of all processes, in order, over as many answers as it takes.
func TestHistoryOfManyLines(t *testing.T) {
	for name, c := range map[string]struct {
		n, size, kept int
	}{
		"none":                       {0, 10, 0},
		"a few":                      {3, 10, 3},
		"several answers":            {40, 50 << 10, 40},
		"more than is kept by bytes": {200, 100 << 10, maxKeptBytes / (100 << 10)},
		"more than is kept by lines": {maxKeptLines + 5, 10, maxKeptLines},
		"a line fills an answer":     {3, pageBytes, 3},
		"no line fits an answer":     {3, pageBytes + 1, 0},
	} {
		bus, h := keep(t)
		for i := range c.n {
			bus.log(fmt.Sprint("w-", i%3), fmt.Sprintf("%0*d", c.size, i))
		}
		lines, err := AskHistory(t.Context(), bus, "demo")
		if err != nil || len(lines) != c.kept {
			t.Errorf("%s: %d lines, %v: want %d", name, len(lines), err, c.kept)
		}
		for j, l := range lines {
			i := c.n - c.kept + j
			if l.Process != fmt.Sprint("w-", i%3) || l.Line != fmt.Sprintf("%0*d", c.size, i) {
				t.Fatalf("%s: line %d is of %s: %.40s", name, j, l.Process, l.Line)
			}
		}
		if err := h.Close(); err != nil || len(bus.handlers) != 0 {
			t.Errorf("%s: closing left %d subscriptions, %v", name, len(bus.handlers), err)
		}
	}
}

func TestHistoryOfOddRequests(t *testing.T) {
	bus, _ := keep(t)
	bus.log("w", "a")
	for request, want := range map[string]string{
		`{"from":0}`:                    `"next":1`,
		`{}`:                            `"lines":[{"process":"w","line":"a"}]`,
		`{"from":1}`:                    `{"next":1,"lines":[]}`,
		`{"from":18446744073709551615}`: `{"next":1,"lines":[]}`,
	} {
		answer, err := bus.Request(t.Context(), wire.History("demo"), []byte(request))
		if err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s, %v", request, answer, err)
		}
	}
	if _, err := bus.Request(t.Context(), wire.History("demo"), []byte(`{"from":-1}`)); !errors.Is(err, transport.ErrTimeout) {
		t.Errorf("garbage was answered: %v", err)
	}
}

func TestHistoryTellsWhatWentWrong(t *testing.T) {
	bus := &direct{handlers: map[string]func(transport.Message){}, refused: wire.History("demo")}
	if _, err := KeepHistory(bus, "demo"); !errors.Is(err, transport.ErrDenied) || len(bus.handlers) != 0 {
		t.Errorf("%v, %d subscriptions left", err, len(bus.handlers))
	}
	if _, err := AskHistory(t.Context(), bus, "demo"); !errors.Is(err, transport.ErrNoResponders) {
		t.Errorf("nobody there: %v", err)
	}
	bus.handlers[wire.History("demo")] = func(m transport.Message) { _ = m.Respond([]byte("no JSON")) }
	if _, err := AskHistory(t.Context(), bus, "demo"); err == nil || !strings.Contains(err.Error(), "one version") {
		t.Errorf("an answer of another version: %v", err)
	}
}
