package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// second starts another coordinator of the run, which must refuse, and returns what it says.
func (c *cluster) second() string {
	c.t.Helper()
	_, err := command(c.dir, "coordinator", "--run", c.run())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		c.fail(fmt.Sprintf("a second coordinator: %v", err))
	}
	return err.Error()
}

// A run has one coordinator. A second one is refused while the first one lives, though it stand
// still. Where the lock does not reach, as on another host with a file system that has
// none, the later one has the run, and the former, when it wakes up, harms neither bits nor books.
func TestOneCoordinator(t *testing.T) {
	t.Parallel()
	c := newCluster(t, schedule{workers: 2}, newTable())
	old := c.coordinator
	old.waitFor(t, `"step":3,`)
	if text := c.second(); !strings.Contains(text, fmt.Sprintf("in use by process %d", old.cmd.Process.Pid)) {
		c.fail(text)
	}
	old.signal(syscall.SIGSTOP)
	if text := c.second(); !strings.Contains(text, "in use") {
		c.fail(text)
	}
	if err := os.Remove(filepath.Join(c.run(), "lock")); err != nil { // as if it were another host's
		t.Fatal(err)
	}
	c.startCoordinator("--workers=1")
	c.paths[0].reset() // the other worker stays with the old one, which has its connection
	c.coordinator.waitFor(t, `"step":`)
	old.signal(syscall.SIGCONT)
	if code := old.wait(); code != 1 || !strings.Contains(old.log.String(), "a later coordinator has taken the run over") {
		c.fail(fmt.Sprintf("the old coordinator ended with code %d:\n%s", code, old.log.String()))
	}
	for p := range c.exits {
		if p == c.coordinator {
			break
		}
		if p != old && p.code != 0 && p.code != 3 {
			c.fail(fmt.Sprintf("%s ended with code %d", p.name, p.code))
		}
	}
	if c.coordinator.code != 0 {
		c.fail(fmt.Sprintf("the later coordinator ended with code %d", c.coordinator.code))
	}
	judge(t, c.run())
}

// hasLogged fails unless the run's coordinators have logged a message with fields as wanted.
func (c *cluster) hasLogged(message string, wanted func(line map[string]any) bool) {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.run(), "logs", "coordinator.jsonl"))
	if err != nil {
		c.t.Fatal(err)
	}
	for text := range strings.Lines(string(data)) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message && wanted(line) {
			return
		}
	}
	c.fail(fmt.Sprintf("no coordinator has logged %q as it should", message))
}
