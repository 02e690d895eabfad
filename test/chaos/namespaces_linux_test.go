package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hosts are two network namespaces with a cable between them.
type hosts struct {
	t     *testing.T
	names [2]string
}

const (
	hostAddress = "10.231.0." // and 1 or 2
	hostPort    = "4222"
)

// newHosts makes them; the test is skipped where that is not allowed.
func newHosts(t *testing.T) hosts {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need the program ip of iproute2")
	}
	h := hosts{t: t}
	for i := range h.names {
		h.names[i] = fmt.Sprintf("andrea-%d-%d", os.Getpid(), i+1)
	}
	t.Cleanup(func() {
		for _, name := range h.names {
			_, _ = ip("netns", "delete", name) // with its end of the cable
		}
	})
	for _, name := range h.names {
		if said, err := ip("netns", "add", name); err != nil {
			t.Skipf("network namespaces cannot be made here: %v: %s", err, said)
		}
	}
	h.must("link", "add", "cable", "netns", h.names[0], "type", "veth", "peer", "name", "cable", "netns", h.names[1])
	for i, name := range h.names {
		h.must("-n", name, "address", "add", fmt.Sprintf("%s%d/24", hostAddress, i+1), "dev", "cable")
		h.must("-n", name, "link", "set", "lo", "up")
		h.must("-n", name, "link", "set", "cable", "up")
	}
	return h
}

func ip(args ...string) (said string, err error) {
	out, err := exec.Command("ip", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (h hosts) must(args ...string) {
	h.t.Helper()
	if said, err := ip(args...); err != nil {
		h.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, said)
	}
}

// cable plugs the cable in, or pulls it out.
func (h hosts) cable(state string) {
	h.t.Helper()
	h.must("-n", h.names[0], "link", "set", "cable", state)
}

// on starts a program on a host.
func (h hosts) on(host int, dir, name, program string, args ...string) *process {
	h.t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", h.names[host], filepath.Join(programs, program)}, args...)...)
	return startWith(h.t, dir, name, cmd)
}

// Between two hosts, over TLS, the network goes away until the coordinator has given up
// both workers, and comes back: the run goes on from what they hold.
func TestTheNetworkGoesAway(t *testing.T) {
	h := newHosts(t)
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	coordinator := h.on(0, dir, "coordinator", "coordinator", "--job", jobFile, "--run", run, "--workers", "2", "--json",
		"--listen", hostAddress+"1:"+hostPort, "--tls-cert", certFile, "--tls-key", keyFile)
	coordinator.waitFor(t, "serving at")
	var workers []*process
	for _, name := range []string{"w0", "w1"} {
		workers = append(workers, h.on(1, dir, name, "worker", "--creds", filepath.Join(run, "worker.json"), "--id", name,
			"--nats", "tls://"+hostAddress+"1:"+hostPort))
	}
	coordinator.waitFor(t, `"step":6,`)
	h.cable("down")
	coordinator.waitFor(t, "was lost", "was lost")
	h.cable("up")
	for _, p := range append(workers, coordinator) {
		if code := p.wait(); code != 0 {
			t.Errorf("%s ended with code %d:\n%s", p.name, code, lastLines(p.log.String()))
		}
	}
	judge(t, run)
}
