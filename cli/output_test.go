package cli

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// fullDevice takes nothing, as /dev/full does.
type fullDevice struct{}

func (fullDevice) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A result that cannot be written is a failure, not the user's input.
func TestOutputThatCannotBeWritten(t *testing.T) {
	p := trained(t, 1)
	run := p.dir + "/runs/demo"
	for _, args := range [][]string{
		{"status", run}, {"status", run, "--json"}, {"logs", run}, {"logs", "-f", run}, {"train", "--print-job"},
		{"checkpoints", "list", run}, {"model", "describe", "12m"}, {"train", "--help"}, {"--version"},
	} {
		if r := p.here(outside{stdout: fullDevice{}}, args...); r.code != 1 || !strings.Contains(r.stderr, "no space left") {
			t.Errorf("%v: exit %d\n%s", args, r.code, r.stderr)
		}
	}
}

// Training goes on without its output: the run is complete, and one message says what was lost.
func TestTrainingWithoutOutput(t *testing.T) {
	p := newPlace(t)
	p.text()
	r := p.here(outside{stdout: fullDevice{}}, p.trainHere(p.prepared(), "run")...)
	if r.code != 1 || strings.Count(r.stderr, "no space left") != 1 || !strings.Contains(r.stderr, "sample") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
}

// What arguments hold does not reach a terminal as orders.
func TestMessagesAreVisible(t *testing.T) {
	p := newPlace(t)
	if r := p.here(outside{}, "status", "a\x1b[31m\u009b\u202e\xffü"); r.code != 2 || !strings.Contains(r.stderr, `a\x1b[31m\u009b\u202e\xffü`) {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
	if got := visible("one\n\ttwo \\ \"three\"\a"); got != "one\n\ttwo \\ \"three\"\\a" {
		t.Errorf("got %q", got)
	}
}

// A daemon says its version, as the program does.
func TestVersionOfADaemon(t *testing.T) {
	p := newPlace(t)
	for _, daemon := range []string{"coordinator", "worker"} {
		if r := p.here(outside{}, daemon, "--version"); r.code != 0 || !strings.Contains(r.stdout, version()) {
			t.Errorf("%s: exit %d\n%s%s", daemon, r.code, r.stdout, r.stderr)
		}
	}
}

// A daemon's hints are for the program that has the command.
func TestTheProgramWithAllCommands(t *testing.T) {
	for started, want := range map[string]string{"andrea": "andrea", "bin/andrea": "bin/andrea", "./coordinator": "./andrea", "worker": "andrea", "/opt/coordinator/cli": "/opt/coordinator/cli"} {
		if got := withAllCommands(started); got != want {
			t.Errorf("started as %s: %s, want %s", started, got, want)
		}
	}
}

// Without an engine the commands that need one fail, which is not the user's input either.
func TestNoEngine(t *testing.T) {
	p := trained(t, 1)
	for _, args := range [][]string{{"train", "--text", p.dir + "/text"}, {"resume", p.dir + "/runs/demo"}, {"worker"}} {
		if r := p.here(outside{engineErr: errors.New("no such engine")}, args...); r.code != 1 || !strings.Contains(r.stderr, "no such engine") {
			t.Errorf("%v: exit %d\n%s", args, r.code, r.stderr)
		}
	}
}
