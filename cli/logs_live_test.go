package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// live is a command that runs beside the test. Its standard output is read all the
// time, so that it never waits for the test.
type live struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string   // of standard output; a test waits for them and may stop taking them
	done   chan struct{} // closed when standard output has ended
	stdout bytes.Buffer  // all of it, once done is closed
	stderr bytes.Buffer
}

// start types a command and goes on. The process does not outlive the test.
func (p place) start(args ...string) *live {
	p.t.Helper()
	l := &live{t: p.t, cmd: exec.Command(binary, args...), lines: make(chan string, 1), done: make(chan struct{})}
	l.cmd.Dir, l.cmd.Stderr = p.dir, &l.stderr
	l.cmd.Env = append(os.Environ(), "HOME="+p.dir)
	pipe, err := l.cmd.StdoutPipe()
	if err == nil {
		err = l.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	go l.read(pipe)
	p.t.Cleanup(func() {
		_ = l.cmd.Process.Kill() // it has ended, mostly
		<-l.done
	})
	return l
}

func (l *live) read(pipe io.Reader) {
	defer close(l.done)
	defer close(l.lines)
	from := bufio.NewReader(pipe)
	for {
		line, err := from.ReadString('\n')
		l.stdout.WriteString(line)
		if err != nil {
			return
		}
		select {
		case l.lines <- line:
		default: // the test is not waiting: what it wants comes again
		}
	}
}

// waitFor returns when a line of standard output satisfies a condition that later
// lines satisfy too.
func (l *live) waitFor(what string, condition func(line string) bool) {
	l.t.Helper()
	for line := range l.lines {
		if condition(line) {
			return
		}
	}
	l.t.Fatalf("standard output ended before %s\n%s%s", what, l.stdout.String(), l.stderr.String())
}

// waitForStep returns when a run has shown a step, or a later one.
func (l *live) waitForStep(step int) {
	l.t.Helper()
	l.waitFor("the step", func(line string) bool {
		var shown struct {
			Step int `json:"step"`
		}
		return json.Unmarshal([]byte(line), &shown) == nil && shown.Step >= step
	})
}

// end ends the process by a signal, waits for it and returns the exit code; -1 when
// it was killed. nil waits only.
func (l *live) end(signal os.Signal) int {
	l.t.Helper()
	if signal != nil {
		if err := l.cmd.Process.Signal(signal); err != nil {
			l.t.Fatal(err)
		}
	}
	<-l.done
	var exit *exec.ExitError
	if err := l.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	return l.cmd.ProcessState.ExitCode()
}

// endless trains the tiny model until it is stopped; long for a while.
func endless() []string { return tinyFor("1000000000") }
func long() []string    { return tinyFor("150") }

func tinyFor(steps string) []string {
	args := slices.Clone(tiny)
	args[slices.Index(args, "--steps")+1] = steps
	return args
}

// sameAsFiles checks that lines shown with --json are those of the log files, each
// once and in the order of its file.
func (p place) sameAsFiles(run, shown string) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.dir, run, "logs", "*.jsonl"))
	if err != nil || len(files) < 2 {
		p.t.Fatalf("log files %v, %v", files, err)
	}
	byProcess := map[string]*strings.Builder{}
	for _, file := range files {
		byProcess[strings.TrimSuffix(filepath.Base(file), ".jsonl")] = &strings.Builder{}
	}
	for line := range strings.Lines(shown) {
		var head struct {
			Process string `json:"process"`
		}
		if err := json.Unmarshal([]byte(line), &head); err != nil || byProcess[head.Process] == nil {
			p.t.Fatalf("a line of nobody: %q, %v", line, err)
		}
		byProcess[head.Process].WriteString(line)
	}
	for process, got := range byProcess {
		if want := p.read(filepath.Join(run, "logs", process+".jsonl")); got.String() != want {
			p.t.Errorf("the log of %s was shown with %d lines, its file has %d, or they differ", process,
				strings.Count(got.String(), "\n"), strings.Count(want, "\n"))
		}
	}
}

// From the middle of a run on, every line is shown once, whether it was in the file
// already or came later, and following ends with the run.
func TestFollowingARunShowsEveryLineOnce(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := newPlace(t)
	p.text()
	run := p.start(append(long(), "--workers", "2")...)
	run.waitForStep(5)
	follower := p.start("logs", "-f", "demo", "--json")
	if code := run.end(nil); code != 0 {
		t.Fatalf("the run: exit %d\n%s", code, run.stderr.String())
	}
	if code := follower.end(nil); code != 0 || follower.stderr.String() != "" {
		t.Errorf("exit %d\n%s", code, follower.stderr.String())
	}
	p.sameAsFiles("runs/demo", follower.stdout.String())
}

// When the server cannot be asked the files are followed to the same end.
func TestFollowingWithoutAServerShowsTheSame(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := newPlace(t)
	p.text()
	run := p.start(long()...)
	run.waitForStep(5)
	p.write("runs/demo/server.json", "nothing of use")
	follower := p.start("logs", "-f", "demo", "--json")
	if code := run.end(nil); code != 0 {
		t.Fatalf("the run: exit %d\n%s", code, run.stderr.String())
	}
	if code := follower.end(nil); code != 0 || !strings.Contains(follower.stderr.String(), "following its files") {
		t.Errorf("exit %d\n%s", code, follower.stderr.String())
	}
	p.sameAsFiles("runs/demo", follower.stdout.String())
}

// Following ends also with a run that was killed, and says so; Ctrl-C ends it before.
func TestFollowingEndsByCtrlCOrWithAKilledRun(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := newPlace(t)
	p.text()
	run := p.start(endless()...)
	run.waitForStep(5)
	interrupted, follower := p.start("logs", "-f", "demo"), p.start("logs", "-f", "demo", "--json")
	isStep := func(line string) bool { return strings.Contains(line, "tokens_per_second") }
	interrupted.waitFor("a step", isStep)
	if code := interrupted.end(os.Interrupt); code != 130 {
		t.Errorf("after Ctrl-C: exit %d\n%s", code, interrupted.stderr.String())
	}
	follower.waitFor("a step", isStep)
	if code := run.end(syscall.SIGKILL); code != -1 {
		t.Fatalf("the run: exit %d", code)
	}
	if code := follower.end(nil); code != 0 || !strings.Contains(follower.stderr.String(), "does not run") {
		t.Errorf("exit %d\n%s", code, follower.stderr.String())
	}
	p.sameAsFiles("runs/demo", follower.stdout.String())
}
