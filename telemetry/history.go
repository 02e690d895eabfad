package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// Bounds of what a history keeps and sends.
const (
	maxKeptLines = 10_000
	maxKeptBytes = 8 << 20
	pageBytes    = 256 << 10 // of lines in one answer, which is less than a message even when all is escaped
)

// Kept is a log line of some process.
type Kept struct {
	Process string `json:"process"`
	Line    string `json:"line"` // without its newline
}

// historyRequest asks for the lines from number From on; the first line ever has number 0.
type historyRequest struct {
	From uint64 `json:"from"`
}

// historyPage answers it. No lines: there are no more for now.
type historyPage struct {
	Next  uint64 `json:"next"` // number of the line after the last one here
	Lines []Kept `json:"lines"`
}

// History keeps the newest log lines of all processes of a run in memory, for those who come later and
// cannot see the files.
type History struct {
	mu            sync.Mutex
	lines         []Kept
	first         uint64 // number of lines[0]
	bytes         int
	subscriptions []transport.Subscription
}

// KeepHistory listens to a run's log lines on the bus and answers who asks for the newest, until Close.
func KeepHistory(bus transport.Bus, run string) (*History, error) {
	h := &History{}
	for _, s := range []struct {
		subject string
		handle  func(transport.Message)
	}{{wire.Logs(run), h.hear}, {wire.History(run), h.answer}} {
		subscription, err := bus.Subscribe(s.subject, s.handle)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("keep the log lines of run %s: %w", run, err), h.Close())
		}
		h.subscriptions = append(h.subscriptions, subscription)
	}
	return h, nil
}

// Close stops listening and answering.
func (h *History) Close() error {
	var errs []error
	for _, s := range h.subscriptions {
		errs = append(errs, s.Unsubscribe())
	}
	return errors.Join(errs...)
}

func (h *History) hear(m transport.Message) {
	if process, ok := wire.LoggedBy(m.Subject); ok && len(m.Data) <= pageBytes {
		h.keep(Kept{Process: process, Line: string(m.Data)})
	}
}

// keep adds a line and drops the oldest ones that have no room any more.
func (h *History) keep(line Kept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
	h.bytes += len(line.Line)
	drop := 0
	for len(h.lines)-drop > maxKeptLines || h.bytes > maxKeptBytes {
		h.bytes -= len(h.lines[drop].Line)
		h.lines[drop] = Kept{}
		drop++
	}
	h.lines, h.first = h.lines[drop:], h.first+uint64(drop)
}

func (h *History) answer(m transport.Message) {
	var r historyRequest
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return // who asks like this understands no answer
	}
	if data, err := json.Marshal(h.page(r.From)); err == nil {
		_ = m.Respond(data) // who asked asks again, or has gone
	}
}

// page collects the lines from a number on, as many as fit into one answer.
func (h *History) page(from uint64) historyPage {
	h.mu.Lock()
	defer h.mu.Unlock()
	from = min(max(from, h.first), h.first+uint64(len(h.lines)))
	p := historyPage{Next: from, Lines: []Kept{}}
	bytes := 0
	for _, line := range h.lines[from-h.first:] {
		if bytes += len(line.Line); bytes > pageBytes && len(p.Lines) > 0 {
			break
		}
		p.Lines = append(p.Lines, line)
	}
	p.Next += uint64(len(p.Lines))
	return p
}

// AskHistory asks the coordinator of a run for the newest lines of all processes, oldest first. The
// error is the bus's, or tells of an answer that cannot be read.
func AskHistory(ctx context.Context, bus transport.Bus, run string) (lines []Kept, err error) {
	var page historyPage
	for len(lines) < 2*maxKeptLines { // a run that logs faster than this reads would have no end
		request, err := json.Marshal(historyRequest{From: page.Next})
		if err != nil {
			return nil, err
		}
		data, err := bus.Request(ctx, wire.History(run), request)
		if err != nil {
			return nil, fmt.Errorf("asking the coordinator of run %s for its log lines: %w", run, err)
		}
		page = historyPage{}
		if err := json.Unmarshal(data, &page); err != nil {
			return nil, fmt.Errorf("reading the log lines of run %s: %w: are both programs of one version?", run, err)
		}
		if len(page.Lines) == 0 {
			break
		}
		lines = append(lines, page.Lines...)
	}
	return lines, nil
}
