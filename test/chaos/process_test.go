package chaos

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that was started.
type process struct {
	name string // for people
	cmd  *exec.Cmd
	log  *log
	done chan struct{} // closed when it has ended
	code int           // then: its exit code; -1: SIGKILL ended it

	mu         sync.Mutex
	killed     bool // SIGKILL was sent
	terminated bool // SIGTERM was sent
}

// log is what a process has written. It can be read while the process lives.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	more *sync.Cond
	end  bool
}

func newLog() *log {
	l := &log{}
	l.more = sync.NewCond(&l.mu)
	return l
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more.Broadcast()
	return l.text.Write(p)
}

func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = true
	l.more.Broadcast()
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs a program with the test's environment, on one processor, until the test ends at the latest.
func start(t testing.TB, dir, name, program string, args ...string) *process {
	t.Helper()
	return startWith(t, dir, name, exec.Command(filepath.Join(programs, program), args...))
}

func startWith(t testing.TB, dir, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, log: newLog(), done: make(chan struct{})}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stdout, cmd.Stderr = io.Writer(p.log), io.Writer(p.log)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the code tells
		p.code = codeOf(cmd.ProcessState)
		p.log.close()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, mostly
		<-p.done
	})
	return p
}

// codeOf is a process's exit code. One that SIGTERM finds before it listens to signals ends by it,
// which is as good as the code that shells show for that.
func codeOf(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM {
		return 128 + int(syscall.SIGTERM)
	}
	return s.ExitCode()
}

// signal sends a signal, unless the process has ended, and remembers those that explain an end.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = p.killed || s == syscall.SIGKILL
	p.terminated = p.terminated || s == syscall.SIGTERM
	_ = p.cmd.Process.Signal(s)
}

// explained reports that the process ended as it may in a run that is not complete: by the
// signal that it was sent, or, a worker, because its coordinator was told to stop.
func (p *process) explained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed && p.code == -1 || p.terminated && p.code == 143 || p.isWorker() && p.code == 3
}

func (p *process) isWorker() bool { return strings.HasPrefix(p.name, "w") }

// waitFor returns when the process has written all the texts, each after the one before. It
// fails when the process ends without, or has had more time than it can need.
func (p *process) waitFor(t testing.TB, texts ...string) {
	t.Helper()
	late := false
	defer time.AfterFunc(patience, func() {
		p.log.mu.Lock()
		defer p.log.mu.Unlock()
		late = true
		p.log.more.Broadcast()
	}).Stop()
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	for {
		rest, found := p.log.text.String(), true
		for _, text := range texts {
			if _, rest, found = strings.Cut(rest, text); !found {
				break
			}
		}
		if found {
			return
		}
		if p.log.end || late {
			t.Fatalf("%s did not write %q:\n%s", p.name, texts, lastLines(p.log.text.String()))
		}
		p.log.more.Wait()
	}
}

// wait returns the exit code when the process has ended.
func (p *process) wait() int {
	<-p.done
	return p.code
}
