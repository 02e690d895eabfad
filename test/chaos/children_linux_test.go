package chaos

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// children are the processes that a process has started and that live.
func (p *process) children(t *testing.T) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lists {
		list, _ := os.ReadFile(name) // the thread may have ended
		for _, field := range bytes.Fields(list) {
			pid, err := strconv.Atoi(string(field))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// 'andrea train' starts workers again that are killed, does without one that stands still, and is
// killed itself: 'andrea resume' goes on at once, while the workers still notice it.
func TestChildrenAreStruck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	parent := start(t, dir, "train", "andrea", "train", "--job", jobFile, "--run", run, "--workers", "3", "--json")
	for _, c := range []struct {
		step   int
		signal syscall.Signal
	}{{2, syscall.SIGKILL}, {6, syscall.SIGTERM}, {9, syscall.SIGSTOP}} {
		parent.waitFor(t, fmt.Sprintf(`"step":%d,`, c.step))
		for _, pid := range parent.children(t)[:1] {
			if err := syscall.Kill(pid, c.signal); err != nil {
				t.Fatal(err)
			}
			if c.signal == syscall.SIGSTOP {
				time.AfterFunc(4*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
			}
		}
	}
	parent.waitFor(t, "was lost", `"step":12,`)
	parent.signal(syscall.SIGKILL)
	parent.wait()
	if _, err := command(dir, "andrea", "resume", run, "--workers", "2"); err != nil {
		t.Fatal(err)
	}
	judge(t, run)
}
