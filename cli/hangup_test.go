//go:build unix

package cli

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A run whose output nobody reads any more trains on, and ends with a checkpoint when its terminal is closed.
func TestTrainingOutlivesItsTerminal(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // or the program inherits that it is ignored, where the tests run under nohup
	defer signal.Stop(heard)
	p := newPlace(t)
	p.text()
	run := exec.Command(binary, endless()...)
	run.Dir = p.dir
	stdout, outErr := run.StdoutPipe()
	stderr, errErr := run.StderrPipe()
	if outErr != nil || errErr != nil || run.Start() != nil {
		t.Fatal("the program cannot be started")
	}
	defer func() { _ = run.Process.Kill() }()
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = stdout.Close()
	said, lost := "", 0
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "going on without it") {
			lost++
			_ = run.Process.Signal(syscall.SIGHUP)
		}
	}
	_ = run.Wait() // its exit code is looked at
	if code := run.ProcessState.ExitCode(); code != exitHangup || lost != 1 || !strings.Contains(said, "checkpoint  ") {
		t.Errorf("exit %d\n%s", code, said)
	}
}

// A run whose folder is deleted ends, and nobody is told to resume it.
func TestARunWhoseFolderIsDeleted(t *testing.T) {
	p := newPlace(t)
	p.text()
	run := p.start(endless()...)
	run.waitForStep(2)
	if err := os.Rename(filepath.Join(p.dir, "runs"), filepath.Join(p.dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if code := run.end(nil); code != 1 || !strings.Contains(run.stderr.String(), "deleted or moved") || strings.Contains(run.stderr.String(), "resume with") {
		t.Errorf("exit %d\n%s", code, run.stderr.String())
	}
}
