package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// certify writes tls.crt, which is its own authority, and tls.key for a server at 127.0.0.1.
func (p place) certify() {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		p.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	p.write("tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
}

// foreign starts a NATS server with the documented configuration, and writes its users'
// credentials. It returns its URL.
func (p place) foreign() string {
	p.t.Helper()
	p.certify()
	for name, value := range map[string]string{"TLS_CERT": filepath.Join(p.dir, "tls.crt"), "TLS_KEY": filepath.Join(p.dir, "tls.key")} {
		p.t.Setenv("ANDREA_"+name, value)
	}
	for user, variable := range map[string]string{"coordinator": "COORDINATOR", "worker-1": "WORKER_1", "workers": "WORKERS", "observer": "OBSERVER"} {
		p.t.Setenv("ANDREA_"+variable+"_PASSWORD", "secret-of-"+user)
		p.write(user+".txt", "user: "+user+"\npassword: secret-of-"+user+"\n")
	}
	o, err := server.ProcessConfigFile("../docs/nats/server.conf")
	if err != nil {
		p.t.Fatal(err)
	}
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(o)
	if err != nil {
		p.t.Fatal(err)
	}
	s.Start()
	p.t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		p.t.Fatal("the NATS server does not start")
	}
	return "tls://" + s.Addr().String()
}

// freePort is an address that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// probe asks until the answer has the wanted code, and returns its text.
func probe(t *testing.T, address, path string, want int) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		response, err := http.Get("http://" + address + path)
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode == want {
				return string(body)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s%s never answered %d: %v", address, path, want, err)
		}
		runtime.Gosched()
	}
}

// On a NATS server of somebody else, over TLS and with its permissions, a run gives the bits of one in
// one process. It is watched by address alone; another coordinator of its name is refused;
// and a worker that is told to waits when it is done.
func TestARunOnAServerOfSomebodyElse(t *testing.T) {
	p := trained(t, 1)
	want := p.sums("runs/demo")
	url := p.foreign()
	reach := func(user string) []string {
		return []string{"--nats", url, "--ca", "tls.crt", "--creds", user + ".txt"}
	}
	observed := func(args ...string) []string { return append(args, reach("observer")...) }
	if r := p.run("", observed("status")...); r.code != 1 || !strings.Contains(r.stderr, "no coordinator answers") {
		t.Errorf("status without a run: exit %d\n%s", r.code, r.stderr)
	}
	if r := p.run("", observed("status", "--run", "wrong")...); r.code != 1 || !strings.Contains(r.stderr, "no coordinator of that name answers at "+url) {
		t.Errorf("status of a run that is not there: exit %d\n%s", r.code, r.stderr)
	}
	p.write("wrong.txt", "user: worker-1\npassword: wrong\n")
	for _, c := range []struct {
		args []string
		user string
		want string
	}{
		{[]string{"worker", "--run", "demo", "--id", "worker-1"}, "wrong", "Authorization"},
		{[]string{"worker", "--run", "demo", "--id", "worker-2"}, "worker-1", `"worker-2"`},
		{[]string{"coordinator", "--job", "runs/demo/job.yaml", "--run", "runs/denied"}, "worker-1", "credentials"},
		{[]string{"coordinator", "--job", "runs/demo/job.yaml", "--run", "runs/denied"}, "workers", "no coordinator's"},
	} {
		if r := p.run("", append(c.args, reach(c.user)...)...); r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%v as %s: exit %d\n%s", c.args, c.user, r.code, r.stderr)
		}
	}
	probes := [2]string{freePort(t), freePort(t)}
	waiting := p.start(append([]string{"worker", "--id", "worker-1", "--when-done", "wait", "--http", probes[0]}, reach("worker-1")...)...)
	probe(t, probes[0], "/healthz", 200)
	probe(t, probes[0], "/startupz", 200)
	probe(t, probes[0], "/metrics", 404)

	coordinator := p.start(append([]string{"coordinator", "--job", "runs/demo/job.yaml", "--run", "runs/big", "--workers", "2", "--json", "--http", probes[1]}, reach("coordinator")...)...)
	probe(t, probes[1], "/readyz", 200)
	probe(t, probes[0], "/readyz", 200) // it has found the run, as its only one
	if text := probe(t, probes[1], "/metrics", 200); !strings.Contains(text, `andrea_steps{run="demo"} 20`) {
		t.Errorf("metrics:\n%s", text)
	}
	var s runStatus
	if r := p.run("", observed("status", "--json")...); r.code != 0 || json.Unmarshal([]byte(r.stdout), &s) != nil || s.Run != "demo" || s.State != stateRunning || s.Dir != "" {
		t.Errorf("status: exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
	if r := p.run("", observed("status", "--run", "wrong")...); r.code != 1 || !strings.Contains(r.stderr, "the runs there: demo") {
		t.Errorf("status of another run than is there: exit %d\n%s", r.code, r.stderr)
	}
	if r := p.run("", append([]string{"coordinator", "--job", "runs/demo/job.yaml", "--run", "runs/double"}, reach("coordinator")...)...); r.code != 2 ||
		!strings.Contains(r.stderr, "another coordinator answers") {
		t.Errorf("a second coordinator: exit %d\n%s", r.code, r.stderr)
	}
	follower := p.start(observed("logs", "-f", "--json")...)
	follower.waitFor("the first line", func(string) bool { return true })
	exiting := p.start(append([]string{"worker", "--run", "demo", "--id", "pod-7"}, reach("workers")...)...)
	for name, l := range map[string]*live{"coordinator": coordinator, "worker": exiting, "logs": follower} {
		if code := l.end(nil); code != 0 {
			t.Errorf("%s: exit %d\n%s", name, code, l.stderr.String())
		}
	}
	if got := p.sums("runs/big"); got != want {
		t.Errorf("other bits:\n%s\nwant\n%s", got, want)
	}
	for _, line := range []string{`"process":"worker-1"`, `"process":"pod-7"`, `"run ended"`, `"step":20`} {
		if !strings.Contains(follower.stdout.String(), line) {
			t.Errorf("no %s in the logs:\n%s", line, follower.stdout.String())
		}
	}
	probe(t, probes[0], "/readyz", 200) // waits
	if code := waiting.end(syscall.SIGTERM); code != 143 || !strings.Contains(waiting.stderr.String(), "waiting for") {
		t.Errorf("the waiting worker: exit %d\n%s", code, waiting.stderr.String())
	}
}

// With keys made before and a certificate, a coordinator's own server lets in workers that have one
// file; one that waits takes part in all starts of the run.
func TestAServerForOtherMachines(t *testing.T) {
	p := newPlace(t)
	p.text()
	if r := p.run("", long()...); r.code != 0 {
		t.Fatalf("the run in one process: exit %d\n%s", r.code, r.stderr)
	}
	const model = "/checkpoints/step-00000150/model.safetensors"
	p.certify()
	address := freePort(t)
	keys := []string{"keys", "--run", "demo", "--out", "secrets", "--address", "tls://" + address, "--tls-cert", "tls.crt"}
	if r := p.run("", keys...); r.code != 0 {
		t.Fatalf("keys: exit %d\n%s", r.code, r.stderr)
	}
	if r := p.run("", keys...); r.code != 2 || !strings.Contains(r.stderr, "already") {
		t.Errorf("keys again: exit %d\n%s", r.code, r.stderr)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	worker := p.start("worker", "--creds", "secrets/worker.json", "--when-done", "wait") // the coordinator is not there yet
	coordinator := []string{"coordinator", "--run", "runs/big", "--json",
		"--listen", "0.0.0.0:" + port, "--tls-cert", "tls.crt", "--tls-key", "tls.key", "--keys", "secrets/server.json"}
	first := p.start(append(coordinator, "--job", "runs/demo/job.yaml")...)
	first.waitForStep(1)
	if code := first.end(os.Interrupt); code != 130 {
		t.Fatalf("the first coordinator: exit %d\n%s", code, first.stderr.String())
	}
	second := p.start(coordinator...)
	if code := second.end(nil); code != 0 {
		t.Errorf("the second coordinator: exit %d\n%s", code, second.stderr.String())
	}
	if code := worker.end(syscall.SIGTERM); code != 143 {
		t.Errorf("the worker: exit %d\n%s", code, worker.stderr.String())
	}
	if p.read("runs/big"+model) != p.read("runs/demo"+model) {
		t.Error("other bits")
	}
	if info, err := os.Stat(filepath.Join(p.dir, "secrets", "worker.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("worker.json: %v, %v", info, err)
	}
}

// A coordinator waits for a server that is not there yet, and can be told not to.
func TestACoordinatorWaitsForItsServer(t *testing.T) {
	p := trained(t, 1)
	coordinator := p.start("coordinator", "--job", "runs/demo/job.yaml", "--run", "runs/big", "--http", freePort(t), "--nats", "nats://"+freePort(t))
	for {
		if _, err := os.Stat(filepath.Join(p.dir, "runs", "big", "logs", "coordinator.jsonl")); err == nil {
			break // it is about to connect
		}
		select {
		case <-coordinator.done:
			t.Fatalf("it has ended\n%s", coordinator.stderr.String())
		default:
			runtime.Gosched()
		}
	}
	if code := coordinator.end(syscall.SIGTERM); code != 143 || !strings.Contains(coordinator.stderr.String(), "nothing was trained") {
		t.Errorf("exit %d\n%s", code, coordinator.stderr.String())
	}
}
