package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"andrea/pipeline"
)

// Mode is how a run is shown.
type Mode int

// The three modes.
const (
	JSON  Mode = iota // one JSON object for every step, the rest to Notes
	Plain             // lines for people, on a terminal that cannot redraw
	Live              // rows that are redrawn, on a terminal
)

// ChooseMode returns the mode for an output, given whether JSON was asked for, whether the output is a
// terminal, and the environment's TERM and NO_COLOR; and whether to use colours.
func ChooseMode(json, terminal bool, term, noColor string) (m Mode, color bool) {
	switch {
	case json || !terminal:
		return JSON, false
	case term == "dumb":
		return Plain, false
	}
	return Live, noColor == ""
}

// Options are what a Display writes to, and how.
type Options struct {
	Mode  Mode
	Color bool             // in Live
	Out   io.Writer        // steps, and in Plain and Live all else
	Notes io.Writer        // in JSON all that is no step
	Width func() int       // columns of the terminal, asked before every redraw; in Live only
	Now   func() time.Time // the clock: times the phases
}

// Display shows one run from its preparation to its end. It is safe for concurrent use.
type Display struct {
	mu     sync.Mutex
	o      Options
	screen screen
	phase  *phase // being shown; nil: none
	run    *run   // nil before Train
	rows   func(width int) []row
	closed bool
	err    error // the first of a writer
}

// phase is a part of the preparation.
type phase struct {
	name         string
	done, total  int64
	start, drawn time.Time
}

// redrawEvery is the shortest time between two pictures of one phase.
const redrawEvery = 50 * time.Millisecond

// defaultWidth is taken for a terminal that does not tell its width, in columns.
const defaultWidth = 80

// plotHeight and maxPlotWidth are the size of the chart at the end of a run on a terminal.
const (
	plotHeight   = 9
	maxPlotWidth = 72
)

// New returns a display that has shown nothing yet.
func New(o Options) *Display {
	return &Display{o: o, screen: screen{out: o.Out, color: o.Color}}
}

// Phase shows that a part of the preparation has come to done of total; a total of 0 or less is not
// known. A new name ends the phase before, which stays as a line with the time it took.
func (d *Display) Phase(name string, done, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Now()
	if d.phase == nil || d.phase.name != name {
		d.endPhase()
		d.phase = &phase{name: name, start: now}
		d.rows = d.phaseRows
	} else if now.Sub(d.phase.drawn) < redrawEvery {
		d.phase.done, d.phase.total = done, total
		return
	}
	d.phase.done, d.phase.total, d.phase.drawn = done, total, now
	d.show()
}

// phaseRows are the live rows of the phase.
func (d *Display) phaseRows(width int) []row {
	p := d.phase
	text := plainRow(clip(printable(p.name, false)+"  "+formatSeconds(d.o.Now().Sub(p.start).Seconds()), width))
	if p.total <= 0 {
		return []row{text}
	}
	return []row{text, barRow(float64(p.done)/float64(p.total), "", width)}
}

// endPhase turns the phase into a line.
func (d *Display) endPhase() {
	if d.phase == nil {
		return
	}
	took := d.o.Now().Sub(d.phase.start).Seconds()
	line := printable(d.phase.name, false) + "  " + formatSeconds(took)
	d.phase, d.rows = nil, nil
	d.show(line)
}

// Train ends the preparation: from now on steps of a job of so many are shown.
func (d *Display) Train(steps int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endPhase()
	d.run = &run{steps: steps}
	d.rows = d.run.rows
	d.show()
}

// Notice shows what a coordinator announces. Steps come after Train.
func (d *Display) Notice(n pipeline.Notice) {
	switch n := n.(type) {
	case pipeline.StepDone:
		d.step(n)
	case pipeline.WorkerJoined:
		d.Note(fmt.Sprintf("worker %s holds state %d: %s", n.Worker, n.Step, n.Device))
	case pipeline.WorkerLeft:
		d.Warn(fmt.Sprintf("worker %s %s", n.Worker, n.Reason))
	case pipeline.StateChosen:
		if n.Holders > 0 { // else it is what the run was opened with, as was said then
			d.Note(fmt.Sprintf("going on from state %d (workers that hold it: %d)", n.Step, n.Holders))
		}
	case pipeline.WorkerRefused:
		d.Warn(fmt.Sprintf("worker %s was refused: %s", n.Worker, n.Reason))
	}
}

func (d *Display) step(done pipeline.StepDone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run == nil || d.closed {
		return
	}
	d.run.add(done)
	switch d.o.Mode {
	case JSON:
		line, err := d.run.line()
		d.keep(err)
		d.write(d.o.Out, string(line))
	case Plain:
		d.show(fit(d.run.fields(), 1<<10))
	default:
		d.show()
	}
}

// Note shows a text for people, of one or more lines. A phase that has come to its total ends before.
func (d *Display) Note(text string) { d.message(printable(text, true), "") }

// Warn is Note for what a person should act on.
func (d *Display) Warn(text string) { d.message("warning: "+printable(text, true), paintWarn) }

func (d *Display) message(text, paint string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.phase; p != nil && p.total > 0 && p.done >= p.total {
		d.endPhase()
	}
	if paint != "" && d.o.Mode == Live && d.o.Color {
		text = paint + text + paintReset
	}
	d.show(text)
}

// show draws the live rows anew below finished lines, or prints the lines where there are no live rows.
func (d *Display) show(finished ...string) {
	switch d.o.Mode {
	case Live:
		width := d.width()
		var rows []row
		if d.rows != nil && !d.closed {
			rows = d.rows(width)
		}
		d.keep(d.screen.draw(finished, rows, width))
	case Plain:
		d.lines(d.o.Out, finished)
	default:
		d.lines(d.o.Notes, finished)
	}
}

func (d *Display) lines(w io.Writer, lines []string) {
	if len(lines) > 0 {
		d.write(w, strings.Join(lines, "\n")+"\n")
	}
}

func (d *Display) write(w io.Writer, text string) {
	_, err := io.WriteString(w, text)
	d.keep(err)
}

func (d *Display) keep(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *Display) width() int {
	if w := d.o.Width(); w > 0 {
		return w
	}
	return defaultWidth
}

// Close ends the run's rows, which stay as they are, and says how much was done in what time; in Live it
// also draws the loss. Notes may still follow. It returns the first error of a writer.
func (d *Display) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.err
	}
	d.endPhase()
	var last []string
	if d.run != nil && d.run.seen > 0 {
		if d.o.Mode == Live {
			last = d.closing()
		}
		last = append(last, d.run.summary())
	}
	d.closed = true
	d.show(last...)
	return d.err
}

// closing are the last live rows as lines, and the chart.
func (d *Display) closing() []string {
	width := d.width()
	var lines []string
	for _, r := range d.run.rows(width) {
		if d.o.Color {
			lines = append(lines, r.painted)
		} else {
			lines = append(lines, r.plain)
		}
	}
	if chart := plot(d.run.curve, min(width, maxPlotWidth), plotHeight); chart != "" {
		lines = append(lines, "", strings.TrimSuffix(chart, "\n"), "")
	}
	return lines
}
