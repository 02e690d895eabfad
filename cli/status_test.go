package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// status is what 'andrea status --json' says.
func (p place) status(run string) (s runStatus) {
	p.t.Helper()
	r := p.run("", "status", run, "--json")
	if r.code != 0 {
		p.t.Fatalf("status: exit %d\n%s", r.code, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
		p.t.Fatalf("%q: %v", r.stdout, err)
	}
	return s
}

func (p place) remove(name string) {
	p.t.Helper()
	if err := os.RemoveAll(filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

// A run is asked while it lives; when it was killed the files tell, up to the last
// committed step.
func TestStatusOfALiveAndAKilledRun(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := newPlace(t)
	p.text()
	run := p.start(endless()...)
	run.waitForStep(12) // past the checkpoint of 10, which waited for the one of 5
	s := p.status("demo")
	for range 20 { // a machine that does much else may take longer than the command waits
		if s.State != stateUnknown {
			break
		}
		s = p.status("demo")
	}
	if s.State != stateRunning || s.Phase == "" || s.Step < 12 || s.Steps != 1_000_000_000 || s.Generation == 0 || s.Resume != "" {
		t.Errorf("%+v", s)
	}
	if s.Loss == nil || *s.Loss <= 0 || s.Speed <= 0 || s.ETASeconds == nil || *s.ETASeconds <= 0 {
		t.Errorf("numbers: %+v", s)
	}
	if s.ValLoss == nil || s.ValStep < 10 || s.ValStep%10 != 0 || s.ValStep > s.Step {
		t.Errorf("validation: %+v", s)
	}
	if len(s.Workers) != 1 || s.Workers[0].ID == "" || s.Workers[0].Device == "" || s.Class == "" {
		t.Errorf("worker: %+v", s)
	}
	if s.Checkpoint < 5 || s.Checkpoint%5 != 0 || filepath.Base(filepath.Dir(s.Path)) != "checkpoints" {
		t.Errorf("checkpoint: %+v", s)
	}
	if text := string(s.text()); !strings.Contains(text, "running: ") || !strings.Contains(text, "tokens/s, ") {
		t.Errorf("for people:\n%s", text)
	}
	run.end(syscall.SIGKILL)
	killed := p.status("demo")
	if killed.State != stateNotRunning || killed.Step < s.Step || killed.Loss == nil || killed.Checkpoint < s.Checkpoint || killed.Generation != s.Generation {
		t.Errorf("killed: %+v", killed)
	}
	if r := p.run("", "status", "demo"); r.code != 0 || !strings.Contains(r.stdout, "not running") || !strings.Contains(r.stdout, "resume runs/demo") {
		t.Errorf("killed: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	p.foreignServers(s)
}

// foreignServers checks the status of a killed run whose server's address others have
// now: it is neither taken for theirs, nor does it wait for ever.
func (p place) foreignServers(s runStatus) {
	p.t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	defer silent.Close()
	identity := p.read("runs/demo/server.json")
	p.write("runs/demo/server.json", withAddress(p.t, identity, "nats://"+silent.Addr().String()))
	if got := p.status("demo"); got.State != stateUnknown || got.Step < s.Step {
		p.t.Errorf("where a silent server listens: %+v", got)
	}
	other := p.start(endless()...) // runs/demo-2
	other.waitForStep(1)
	var running struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal([]byte(p.read("runs/demo-2/server.json")), &running); err != nil {
		p.t.Fatal(err)
	}
	p.write("runs/demo/server.json", withAddress(p.t, identity, running.Address))
	if got := p.status("demo"); got.State != stateNotRunning || !strings.Contains(got.Reason, "something else") {
		p.t.Errorf("where another run listens: %+v", got)
	}
}

// withAddress is an identity file with another address.
func withAddress(t *testing.T, identity, address string) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(identity), &fields); err != nil {
		t.Fatal(err)
	}
	fields["address"] = address
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStatusFromFiles(t *testing.T) {
	p := trained(t, 1)
	s := p.status("demo")
	if s.State != stateComplete || s.Step != 20 || s.Steps != 20 || s.Checkpoint != 20 || s.ValStep != 20 || s.Resume != "" {
		t.Errorf("complete: %+v", s)
	}
	if r := p.run("", "status", "demo"); !strings.Contains(r.stdout, "complete: all steps are committed") {
		t.Errorf("complete:\n%s", r.stdout)
	}
	p.remove("runs/demo/server.json")
	p.remove("runs/demo/checkpoints/step-00000020/manifest.json")
	if s := p.status("demo"); s.State != stateNotRunning || s.Checkpoint != 15 || s.Step != 20 || s.Resume == "" {
		t.Errorf("without the last checkpoint: %+v", s)
	}
	p.write("runs/demo/server.json", "{")
	if s := p.status("demo"); s.State != stateUnknown || !strings.Contains(s.Reason, "server.json") {
		t.Errorf("with a damaged server.json: %+v", s)
	}
	p.remove("runs/demo/checkpoints")
	p.remove("runs/demo/generations")
	p.write("runs/demo/journal.jsonl", "")
	p.remove("runs/demo/server.json")
	if s := p.status("demo"); s.State != stateNotRunning || s.Checkpoint != -1 || s.Step != 0 || s.Generation != 0 || s.Loss != nil {
		t.Errorf("before the first start: %+v", s)
	}
	if r := p.run("", "status", "demo"); !strings.Contains(r.stdout, "none yet") {
		t.Errorf("before the first start:\n%s", r.stdout)
	}
	for _, file := range []string{"journal.jsonl", "job.yaml"} {
		p.write("runs/demo/"+file, "}\n")
		if r := p.run("", "status", "demo"); r.code != 2 || !strings.Contains(r.stderr, file) || r.stdout != "" {
			t.Errorf("damaged %s: exit %d\n%s%s", file, r.code, r.stdout, r.stderr)
		}
	}
	if r := p.run("", "status", "nowhere"); r.code != 2 || !strings.Contains(r.stderr, "nowhere") {
		t.Errorf("no such run: exit %d\n%s", r.code, r.stderr)
	}
}
