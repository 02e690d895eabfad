package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"andrea/dataset/prepare"
	"andrea/launch"
	"andrea/pipeline"
	"andrea/progress"
)

// screen shows a command's work to people, or as JSON lines to programs.
type screen struct{ *progress.Display }

// newScreen looks at what standard output is.
func newScreen(o outside, json bool) *screen {
	file, isFile := o.file()
	terminal := isFile && term.IsTerminal(int(file.Fd()))
	mode, color := progress.ChooseMode(json, terminal, os.Getenv("TERM"), os.Getenv("NO_COLOR"))
	width := func() int {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
		return 80
	}
	return &screen{progress.New(progress.Options{Mode: mode, Color: color, Out: o.stdout, Notes: o.stderr, Width: width, Now: time.Now})}
}

// note shows a text for people.
func (s *screen) note(format string, args ...any) { s.Note(fmt.Sprintf(format, args...)) }

// environment is what a run works with under this command.
func (s *screen) environment(o outside, g *guard) launch.Environment {
	return launch.Environment{FS: o.fs, Engine: o.engine, Bus: o.bus, Version: version(), Notify: s.Notice, Preparing: g.preparing, Stop: g.stop, Warn: func(err error) { s.Warn(err.Error()) }}
}

// prepared says what became of the text.
func (s *screen) prepared(r prepare.Result) {
	verb := "tokens written to"
	if r.Reused {
		verb = "tokens reused, the text has not changed:"
	}
	s.note("%s %s: %d documents, %d tokens, tokenizer %s", verb, r.Dir, r.Info.Documents, r.Info.Tokens, r.Tokenizer.Spec())
}

// sampleTokens is the length of the text that a finished run shows.
const sampleTokens = 96

// summary says how a run ended, where its checkpoint lies and, unless nothing is left to train here, what to
// type next: again.
func (s *screen) summary(o outside, run *launch.Run, outcome pipeline.Outcome, again string) {
	_ = s.Close() // what could not be shown cannot be complained about either
	if there, err := launch.Exists(o.fs, run.Dir); err == nil && !there {
		return // the error says that the folder has gone
	}
	if outcome.Checkpoint < 0 {
		s.note("no checkpoint was written: %s", begun(max(outcome.Step, run.Start.Journal.Last())))
	} else {
		s.note("checkpoint  %s", launch.CheckpointPath(run.Dir, outcome.Checkpoint))
	}
	if outcome.Complete {
		s.sample(o, run, outcome.Checkpoint)
	}
	if goesOn(outcome) {
		s.note("resume with %s", again)
	}
}

// goesOn reports that there is something left to train, and not by another coordinator.
func goesOn(outcome pipeline.Outcome) bool {
	return !outcome.Complete && !errors.As(outcome.Err, new(launch.SupersededError))
}

// begun says what there is of a run without a checkpoint whose newest recorded step is last.
func begun(last int64) string {
	if last == 0 {
		return "nothing was trained yet"
	}
	return fmt.Sprintf("resume begins at step 0; steps 1 to %d are recorded and computed again", last)
}

// resumeLine is the command that goes on with a run; data is where its dataset lies, empty:
// where its job says.
func resumeLine(dir, data string) string {
	line := commandName() + " resume " + dir
	if data != "" {
		line += " --data " + data
	}
	return line
}

// sample shows what the trained model writes.
func (s *screen) sample(o outside, run *launch.Run, step int64) {
	environment := launch.Environment{FS: o.fs, Engine: o.engine}
	text, err := launch.Sample(context.Background(), environment, run.Dir, step, launch.Sampling{MaxTokens: sampleTokens, Temperature: 0.8, TopK: 40, Seed: 1})
	if err != nil {
		s.Warn(fmt.Sprintf("no sample of text: %v", err))
		return
	}
	s.note("sample      %s", strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\n", "\n            "))
}

// commandName is how this program was started, as a person would type it.
func commandName() string {
	path, err := os.Executable()
	switch {
	case err != nil:
		return program
	case strings.Contains(path, "go-build"):
		return "go run ./cmd/" + program
	}
	return withAllCommands(os.Args[0])
}

// program is the name of the program that has all commands.
const program = "andrea"

// withAllCommands is how the program with all commands is started where this one is started as
// started: a daemon, which has one command only, lies beside it.
func withAllCommands(started string) string {
	dir, name := filepath.Split(started)
	switch strings.TrimSuffix(name, ".exe") {
	case "coordinator", "worker":
		return dir + program
	}
	return started
}

func (s *screen) close() { _ = s.Close() }
