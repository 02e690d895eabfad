package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"andrea/pipeline"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs (-update writes it anew); got:\n%s\nwant:\n%s", path, text, want)
	}
}

// clock moves only when told.
type clock struct{ now time.Time }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

// step is step s of a run that learns, with a loss that jumps.
func step(s int64) pipeline.StepDone {
	loss := 4 + 3.8/(1+float64(s)/8) + 0.25*float64(s*s*7%11-5)/5
	done := pipeline.StepDone{Record: pipeline.CommitRecord{
		Step: s, Loss: pipeline.Float(loss), GradNorm: pipeline.Float(0.5 + 1/float64(s)), LR: 8.1e-4,
		Tokens: 8192, Epoch: uint64(s / 20), Seconds: 3.5, TokensPerSecond: 8192 / 3.5,
	}}
	if s%10 == 0 {
		val := pipeline.Float(loss + 0.1)
		done.Record.ValLoss = &val
		done.Record.Seconds = 9
	}
	return done
}

// story shows a whole run on d and calls look at moments worth seeing.
func story(d *Display, c *clock, look func(moment string)) {
	d.Phase("reading text", 0, 0)
	c.pass(1200 * time.Millisecond)
	d.Phase("reading text", 11_000, 0)
	look("reading")
	d.Phase("learning the tokenizer", 0, 100)
	c.pass(2 * time.Second)
	d.Phase("learning the tokenizer", 63, 100)
	look("learning")
	d.Note("the tokens of an earlier run are of other text")
	look("a note above the phase")
	c.pass(2 * time.Second)
	d.Phase("encoding text", 5, 5)
	c.pass(time.Second)
	d.Note("tokens written to tokens/src")
	look("a note after a phase that is complete")
	d.Train(50)
	look("before the first step")
	d.Notice(pipeline.WorkerJoined{Worker: "w1", Device: "a processor with AVX-512, 2 threads"})
	again := step(1)
	again.Again = true
	d.Notice(again)
	look("a step computed again")
	for s := int64(2); s <= 37; s++ {
		d.Notice(step(s))
	}
	look("37 steps")
	d.Notice(pipeline.WorkerRefused{Worker: "w2", Reason: "it speaks another protocol"})
	d.Notice(pipeline.WorkerLeft{Worker: "w1", Reason: "was lost: it has given no sign of life"})
	d.Notice(pipeline.StateChosen{Step: 37, Holders: 2})
	d.Notice(pipeline.StateChosen{Step: 25})
	d.Note("checkpoint 25 written\nsecond line")
	look("messages above the rows")
	for s := int64(38); s <= 50; s++ {
		d.Notice(step(s))
	}
	if err := d.Close(); err != nil {
		panic(err)
	}
	d.Note("resume with: andrea resume demo")
	look("the end")
}

func TestTerminal(t *testing.T) {
	for _, width := range []int{20, 40, 80, 120} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			c, screen := &clock{}, &terminal{t: t, width: width}
			d := New(Options{Mode: Live, Out: screen, Width: func() int { return width }, Now: func() time.Time { return c.now }})
			var b strings.Builder
			story(d, c, func(moment string) { fmt.Fprintf(&b, "=== %s\n%s", moment, screen) })
			golden(t, fmt.Sprintf("terminal-%d", width), b.String())
			if screen.paint {
				t.Error("there are colours")
			}
		})
	}
}

// Colours change nothing but the colours.
func TestColoursTakeNoRoom(t *testing.T) {
	var last [2]string
	for i, color := range []bool{false, true} {
		c, screen := &clock{}, &terminal{t: t, width: 80}
		d := New(Options{Mode: Live, Color: color, Out: screen, Width: func() int { return 80 }, Now: func() time.Time { return c.now }})
		story(d, c, func(string) { last[i] += screen.String() })
		if screen.paint != color {
			t.Errorf("color %v: colours %v", color, screen.paint)
		}
	}
	if last[0] != last[1] {
		t.Errorf("with colours:\n%s\nwithout:\n%s", last[1], last[0])
	}
}

// A terminal that gets narrower wraps the rows that stand there, and they must still go away whole.
func TestTerminalGetsNarrower(t *testing.T) {
	width := 80
	screen := &terminal{t: t, width: width}
	d := New(Options{Mode: Live, Out: screen, Width: func() int { return width }, Now: func() time.Time { return time.Time{} }})
	d.Note("stays")
	d.Train(5)
	d.Notice(step(1))
	// Wrap what is there as a terminal of 30 columns does.
	narrow := &terminal{t: t, width: 30}
	for i, line := range screen.lines {
		if i > 0 {
			narrow.put('\n')
		}
		for _, r := range line {
			narrow.put(r)
		}
	}
	*screen, width = *narrow, 30
	d.Notice(step(2))
	if len(screen.lines) != 3 || string(screen.lines[0]) != "stays" || !strings.HasPrefix(string(screen.lines[1]), "step 2/5") {
		t.Errorf("the screen is\n%s", screen)
	}
}

func TestPlainAndJSON(t *testing.T) {
	for name, mode := range map[string]Mode{"plain": Plain, "json": JSON} {
		c := &clock{}
		var out, notes bytes.Buffer
		d := New(Options{Mode: mode, Out: &out, Notes: &notes, Now: func() time.Time { return c.now }})
		story(d, c, func(string) {})
		golden(t, name+"-out", out.String())
		golden(t, name+"-notes", notes.String())
		if text := out.String() + notes.String(); strings.ContainsAny(text, "\x1b\r") {
			t.Errorf("%s: control characters in %q", name, text)
		}
	}
}

func TestJSONOfNumbersThatAreNone(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		var out bytes.Buffer
		d := New(Options{Mode: JSON, Out: &out, Notes: io.Discard, Now: time.Now})
		d.Train(0)
		f := pipeline.Float(x)
		d.Notice(pipeline.StepDone{Record: pipeline.CommitRecord{
			Loss: f, ValLoss: &f, GradNorm: f, LR: float32(x), Seconds: x, TokensPerSecond: x,
		}})
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", out.String(), err)
		}
		want := map[string]string{"NaN": "NaN", "+Inf": "+Inf", "-Inf": "-Inf"}[fmt.Sprint(x)]
		for _, key := range []string{"loss", "val_loss", "grad_norm", "lr", "tokens_per_second"} {
			if line[key] != want {
				t.Errorf("%s of %v is %v", key, x, line[key])
			}
		}
		if eta, there := line["eta_seconds"]; there && !(x > 0) {
			t.Errorf("eta_seconds of %v is %v", x, eta)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Before a step was measured, as while recorded ones are computed again, there is no time left to tell.
func TestNoETABeforeAStepWasMeasured(t *testing.T) {
	var out bytes.Buffer
	d := New(Options{Mode: JSON, Out: &out, Notes: io.Discard, Now: time.Now})
	d.Train(3)
	record := pipeline.CommitRecord{Step: 1, Seconds: 2, Tokens: 8, TokensPerSecond: 4}
	d.Notice(pipeline.StepDone{Record: record, Again: true})
	record.Step = 2
	d.Notice(pipeline.StepDone{Record: record})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if strings.Contains(lines[0], "eta_seconds") || !strings.Contains(lines[1], `"eta_seconds":2,`) {
		t.Errorf("%s", out.String())
	}
}

// Names and reasons may come from elsewhere; they must not reach the terminal as commands.
func TestMessagesCannotCommandTheTerminal(t *testing.T) {
	screen := &terminal{t: t, width: 80} // it fails on what it does not know
	d := New(Options{Mode: Live, Out: screen, Width: func() int { return 80 }, Now: func() time.Time { return time.Time{} }})
	evil := "\x1b]0;title\a\x1b[2J\r\x9b31m\b"
	d.Phase(evil, 1, 2)
	d.Notice(pipeline.WorkerRefused{Worker: pipeline.WorkerID(evil), Reason: evil})
	d.Notice(pipeline.WorkerJoined{Worker: pipeline.WorkerID(evil), Device: evil})
	d.Note(evil)
	d.Warn(evil)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestPhasesAreNotRedrawnTooOften(t *testing.T) {
	c, writes := &clock{}, &counter{}
	d := New(Options{Mode: Live, Out: writes, Width: func() int { return 80 }, Now: func() time.Time { return c.now }})
	for i := range int64(1000) {
		d.Phase("encoding", i, 1000)
		c.pass(time.Millisecond)
	}
	if writes.n != 20 {
		t.Errorf("%d writes in a second, want 20", writes.n)
	}
}

type counter struct {
	n   int
	err error
}

func (w *counter) Write(p []byte) (int, error) {
	w.n++
	return len(p), w.err
}

func TestFirstErrorOfAWriterIsKept(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, mode := range []Mode{JSON, Plain, Live} {
		w := &counter{err: broken}
		d := New(Options{Mode: mode, Out: w, Notes: io.Discard, Width: func() int { return 0 }, Now: time.Now})
		d.Train(2)
		d.Notice(step(1))
		w.err = errors.New("later")
		d.Notice(step(2))
		for range 2 {
			if err := d.Close(); err != broken {
				t.Errorf("mode %d: error %v", mode, err)
			}
		}
	}
}

func TestChooseMode(t *testing.T) {
	for _, test := range []struct {
		json, terminal bool
		term, noColor  string
		mode           Mode
		color          bool
	}{
		{false, true, "xterm-256color", "", Live, true},
		{false, true, "xterm", "1", Live, false},
		{false, true, "dumb", "", Plain, false},
		{false, false, "xterm", "", JSON, false},
		{true, true, "xterm", "", JSON, false},
	} {
		if mode, color := ChooseMode(test.json, test.terminal, test.term, test.noColor); mode != test.mode || color != test.color {
			t.Errorf("%+v: mode %d, color %v", test, mode, color)
		}
	}
}

// Callers from several goroutines never mix their lines.
func TestConcurrentCallsKeepLinesWhole(t *testing.T) {
	var out, notes bytes.Buffer
	d := New(Options{Mode: JSON, Out: &out, Notes: &notes, Now: time.Now})
	d.Train(100)
	var callers sync.WaitGroup
	for i := range int64(4) {
		callers.Go(func() {
			for s := range int64(25) {
				d.Notice(step(1 + 25*i + s))
				d.Note("a note")
			}
		})
	}
	callers.Wait()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for line := range strings.Lines(out.String()) {
		var l stepLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		seen[l.Step] = true
	}
	if len(seen) != 100 || strings.Count(notes.String(), "a note\n") != 100 {
		t.Errorf("%d steps, %d notes; want 100 of each", len(seen), strings.Count(notes.String(), "a note\n"))
	}
}
