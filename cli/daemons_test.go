package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/pipeline"
)

// daemons is how the daemons of a cluster are started. To link them takes long, and they
// are one line each: unless everything is tested, the program stands for them.
func daemons(t *testing.T) (start func(name string, args ...string) *exec.Cmd) {
	t.Helper()
	if os.Getenv(everythingVariable) == "" {
		return func(name string, args ...string) *exec.Cmd {
			return exec.Command(binary, append([]string{name}, args...)...)
		}
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "andrea/cmd/coordinator", "andrea/cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the daemons: %v\n%s", err, out)
	}
	return func(name string, args ...string) *exec.Cmd { return exec.Command(filepath.Join(bin, name), args...) }
}

// The daemons of a cluster, as three processes over TCP: they end in the bits of a
// run in one process, and all of them with code 0.
func TestCoordinatorAndWorkersAreProcessesOfTheirOwn(t *testing.T) {
	start := daemons(t)
	p := trained(t, 1)
	want := p.sums("runs/demo")
	coordinator := start("coordinator", "--job", "runs/demo/job.yaml", "--run", "runs/big", "--workers", "2")
	coordinator.Dir = p.dir
	notes, err := coordinator.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := coordinator.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = coordinator.Process.Kill() }()
	var said bytes.Buffer
	lines := bufio.NewScanner(notes)
	var workers []*exec.Cmd
	var logs [2]bytes.Buffer
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if !strings.Contains(lines.Text(), "serving at") {
			continue
		}
		for i := range logs {
			w := start("worker", "--creds", "runs/big/worker.json")
			w.Dir, w.Stderr = p.dir, &logs[i]
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			workers = append(workers, w)
		}
	}
	if err := coordinator.Wait(); err != nil {
		t.Fatalf("the coordinator: %v\n%s", err, said.String())
	}
	if len(workers) != len(logs) {
		t.Fatalf("the coordinator never said that it serves:\n%s", said.String())
	}
	for i, w := range workers {
		if err := w.Wait(); err != nil {
			t.Errorf("a worker: %v\n%s", err, logs[i].String())
		}
	}
	if got := p.sums("runs/big"); got != want {
		t.Errorf("other bits:\n%s\nwant\n%s", got, want)
	}
}

// What a daemon was told wrongly is refused before anything is written.
func TestDaemonsRefuseBadInput(t *testing.T) {
	p := newPlace(t)
	p.text()
	data := p.prepared()
	p.write("no.json", "name: job")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"coordinator", "--data", data, "--run", "runs/big", "--listen", "0.0.0.0:4222"}, "loopback"},
		{[]string{"coordinator", "--data", data, "--run", "runs/big", "--listen", "4222"}, "host:port"},
		{[]string{"coordinator", "--data", data, "--run", "runs/big", "--listen", busy.Addr().String()}, "--listen"},
		{[]string{"coordinator", "--data", data, "--run", "runs/big", "--http", busy.Addr().String()}, "--http"},
		{[]string{"coordinator", "--data", data, "--run", "runs/big", "--http", "nonsense"}, "--http"},
		{[]string{"coordinator", "--data", data, "--run", "runs/big", "--keys", "nowhere"}, "nowhere"},
		{[]string{"worker", "--nats", "nats://127.0.0.1:1", "--http", "nonsense"}, "--http"},
		{[]string{"worker", "--creds", "no.json"}, "worker.json"},
		{[]string{"worker", "--creds", "nowhere"}, "nowhere"},
		{[]string{"worker"}, "--creds"},
	} {
		r := p.run("", c.args...)
		if r.code != 2 || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "delete") {
			t.Errorf("%v: exit %d\n%s", c.args, r.code, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "runs")); err == nil {
		t.Error("a run was created")
	}
}

// A coordinator of a run that exists claims no generation when it cannot be reached.
func TestAStartThatFailsClaimsNothing(t *testing.T) {
	p := newPlace(t)
	p.text()
	if r := p.run("accumulate:37", tiny...); r.code != 143 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	for _, args := range [][]string{{"--http", "nonsense"}, {"--listen", "0.0.0.0:0"}, {"--tls-cert", "nowhere"}, {"--keys", "nowhere"}, {"--nats", "nats://127.0.0.1:1", "--creds", "nowhere"}} {
		if r := p.run("", append([]string{"coordinator", "--run", "runs/demo"}, args...)...); r.code != 2 {
			t.Errorf("%v: exit %d\n%s", args, r.code, r.stderr)
		}
	}
	claimed, err := os.ReadDir(filepath.Join(p.dir, "runs", "demo", "generations"))
	if err != nil || len(claimed) != 1 {
		t.Errorf("%d generations, %v", len(claimed), err)
	}
}

// A worker's exit code says whether to mend what it was given, or to look at what failed.
func TestExitCodeOfAWorker(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{pipeline.ErrRefused{Reason: "it speaks protocol 1"}, exitBadInput},
		{launch.KeyError{}, exitBadInput},
		{pipeline.ErrStopped{Reason: "SIGTERM"}, launch.ExitStopped},
		{errors.New("the device failed"), exitFailed},
	} {
		var got exitError
		if err := workEnded(fmt.Errorf("working: %w", c.err)); !errors.As(err, &got) || got.code != c.want {
			t.Errorf("%T: %v, want %d", c.err, err, c.want)
		}
	}
}
