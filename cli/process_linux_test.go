package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Workers end with the process that started them, however it died.
func TestWorkersEndWithTheirParent(t *testing.T) {
	p := newPlace(t)
	p.text()
	run := p.start(append(endless(), "--workers", "2")...)
	run.waitForStep(2)
	children := processesIn(t, p.dir, run.cmd.Process.Pid)
	if len(children) != 2 {
		t.Fatalf("%d processes besides the parent, want 2", len(children))
	}
	run.end(syscall.SIGKILL)
	for _, child := range children {
		child.waitForEnd(t)
	}
	again := p.start("resume", "demo", "--workers", "2")
	again.waitForStep(1)
	if code := again.end(syscall.SIGTERM); code != 143 {
		t.Errorf("after the kill: exit %d\n%s", code, again.stderr.String())
	}
}

// process is a process that is no child of the test.
type process struct{ fd int }

// processesIn are the processes that work in a folder, except one.
func processesIn(t *testing.T, dir string, except int) (found []process) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if cwd, linkErr := os.Readlink(link); err != nil || linkErr != nil || cwd != dir || pid == except {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		found = append(found, process{fd})
	}
	return found
}

// waitForEnd returns when the process has ended.
func (p process) waitForEnd(t *testing.T) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, -1)
		if n == 1 {
			return
		}
		if err != unix.EINTR {
			t.Fatal(err)
		}
	}
}

// A service manager's SIGTERM to all processes of a run: the workers stay until the last
// checkpoint is written.
func TestASignalToAllProcessesOfARun(t *testing.T) {
	p := newPlace(t)
	p.text()
	run := p.start(append(endless(), "--workers", "2")...)
	run.waitForStep(2)
	for _, child := range processesIn(t, p.dir, run.cmd.Process.Pid) {
		if err := unix.PidfdSendSignal(child.fd, unix.SIGTERM, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if code := run.end(syscall.SIGTERM); code != 143 || p.newestCheckpoint("runs/demo") < 2 {
		t.Errorf("exit %d\n%s", code, run.stderr.String())
	}
}
