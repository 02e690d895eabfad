package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"andrea/vfs"
)

// A run that lives is changed by nobody else; who may change it is told at once. The
// dead hold nothing.
func TestARunInUseIsRefused(t *testing.T) {
	p := newPlace(t)
	p.text()
	run := p.start(endless()...)
	run.waitForStep(1)
	before := p.read("runs/demo/server.json") + p.read("runs/demo/worker.json")
	inUse := fmt.Sprintf("in use by process %d:", run.cmd.Process.Pid)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"resume":      {[]string{"resume", "demo"}, inUse},
		"train":       {append([]string{"train", "--run", "runs/demo"}, tiny[1:]...), "there is a run at"},
		"coordinator": {[]string{"coordinator", "--run", "runs/demo"}, inUse},
	} {
		r := p.run("", c.args...)
		if r.code != 2 || !strings.Contains(r.stderr, "runs/demo") || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: exit %d\n%s", name, r.code, r.stderr)
		}
	}
	if after := p.read("runs/demo/server.json") + p.read("runs/demo/worker.json"); after != before {
		t.Error("the refused processes have changed the run's keys")
	}
	p.remove("runs/demo/server.json")
	if s := p.status("demo"); s.State != stateUnknown || !strings.Contains(s.Reason, fmt.Sprintf("process %d holds its lock", run.cmd.Process.Pid)) {
		t.Errorf("without server.json: %+v", s)
	}
	run.end(syscall.SIGKILL)
	if s := p.status("demo"); s.State != stateNotRunning || !strings.Contains(s.Reason, "was deleted; its log does not say why: it was killed") {
		t.Errorf("killed, without server.json: %+v", s)
	}
	again := p.start("resume", "demo")
	again.waitForStep(1)
	if code := again.end(syscall.SIGTERM); code != 143 {
		t.Errorf("after the first process was killed: exit %d\n%s", code, again.stderr.String())
	}
}

// Of two processes that choose the same numbered folder at once the slower one takes the next.
func TestAFolderThatAnotherProcessHasJustChosen(t *testing.T) {
	p := newPlace(t)
	p.text()
	dir := filepath.Join(p.dir, "runs", "demo")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := vfs.OS.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	r := p.run("", append(slices.Clone(tiny), "--set", "name=demo", "--steps", "1")...)
	if r.code != 0 || !strings.Contains(r.stderr, "runs/demo-2/checkpoints/step-00000001") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
}
