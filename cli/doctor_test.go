package cli

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"andrea/cpuengine"
	"andrea/launch"
)

// examine is what 'andrea doctor --json' says.
func (p place) examine(code int, args ...string) (e examined) {
	p.t.Helper()
	r := p.run("", append([]string{"doctor", "--json"}, args...)...)
	if r.code != code {
		p.t.Fatalf("doctor %v: exit %d, want %d\n%s%s", args, r.code, code, r.stdout, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil {
		p.t.Fatalf("%q: %v", r.stdout, err)
	}
	return e
}

// The program under test is the plain build, which has the processors' engine alone.
func TestDoctor(t *testing.T) {
	p := newPlace(t)
	e := p.examine(0)
	if e.Engine != cpuengine.Class() || e.Class != e.Engine || e.Threads < 1 || len(e.Paths) == 0 || e.Processor == "" || e.Device == "" {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(e.NoGPU, "built without CUDA") || !strings.Contains(e.Chosen, "built without CUDA") || len(e.GPUs) != 0 {
		t.Errorf("GPUs %v, none because %q, chosen because %q", e.GPUs, e.NoGPU, e.Chosen)
	}
	if e := p.examine(1, "--engine", "cuda"); e.Engine != "" || !strings.Contains(e.Error, "-tags cuda") {
		t.Errorf("a GPU was asked for: %+v", e)
	}
	if r := p.run("", "doctor"); r.code != 0 || !strings.Contains(r.stdout, "processor") || !strings.Contains(r.stdout, "GPU         none: ") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func TestDoctorTriesTheServer(t *testing.T) {
	p := newPlace(t)
	if e := p.examine(exitBadInput, "--creds", "nowhere.json"); e.Server == nil || !strings.Contains(e.Server.Error, "nowhere.json") {
		t.Errorf("%+v", e.Server)
	}
	if e := p.examine(exitFailed, "--nats", "nats://127.0.0.1:1"); e.Server == nil || e.Server.Error == "" {
		t.Errorf("nobody listens: %+v", e.Server)
	}
	p.text()
	run := p.start(endless()...)
	run.waitForStep(1)
	for _, key := range []string{"server.json", "worker.json"} {
		var r result
		for range 20 { // a machine that does much else may take longer than the command waits
			if r = p.run("", "doctor", "--creds", "runs/demo/"+key); strings.Contains(r.stdout, "runs: demo") {
				break
			}
		}
		if r.code != 0 || !strings.Contains(r.stdout, "answers; runs: demo") {
			t.Errorf("with %s: exit %d\n%s%s", key, r.code, r.stdout, r.stderr)
		}
	}
	run.end(syscall.SIGKILL)
}

// A GPU is listed with what its engines are called.
func TestDoctorTellsOfGPUs(t *testing.T) {
	e := examined{Machine: launch.Machine{GPUs: []launch.GPU{
		{Text: "GPU of today", Classes: []string{"cuda-today-fp32-n1", "cuda-today-bf16-n1"}}, {Text: "GPU of old"},
	}}, Engine: "cuda-today-fp32-n1", Device: "GPU of today", Chosen: "a GPU answers"}
	for _, want := range []string{"GPU of today\n", "cuda-today-fp32-n1, cuda-today-bf16-n1", "GPU of old\n", "too old", "cuda-today-fp32-n1 on GPU of today (a GPU answers)"} {
		if text := e.text(); !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}
