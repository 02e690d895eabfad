package natsbus

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"andrea/pipeline/transport"
	"andrea/vfs"
)

func TestWrongServerOptionsAreRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		change func(*ServerOptions)
		want   []string
	}{
		"everywhere":     {func(o *ServerOptions) { o.Host = "0.0.0.0" }, []string{`"0.0.0.0"`, "loopback"}},
		"IPv6 anywhere":  {func(o *ServerOptions) { o.Host = "::" }, []string{`"::"`}},
		"a real address": {func(o *ServerOptions) { o.Host = "192.0.2.1" }, []string{`"192.0.2.1"`}},
		"a name":         {func(o *ServerOptions) { o.Host = "example.com" }, []string{`"example.com"`}},
		"all faults": {func(o *ServerOptions) {
			*o = ServerOptions{RunDir: dir, FS: vfs.OS, Host: "0.0.0.0", Port: 70000}
		}, []string{"loopback", "70000", "no name", "no roles"}},
		"bad roles": {func(o *ServerOptions) {
			o.Roles = []Role{{Name: "a.b"}, {Name: "x", Publish: []string{"a..b"}}, {Name: "x", Subscribe: []string{"a b"}}}
		}, []string{`"a.b"`, `"a..b"`, "twice", `"a b"`}},
		"no such folder": {func(o *ServerOptions) { o.RunDir = filepath.Join(dir, "missing") }, []string{"missing"}},
	} {
		o := options(dir)
		c.change(&o)
		s, err := StartServer(o)
		if err == nil {
			s.Shutdown()
			t.Errorf("%s: started", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %s", name, err, want)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("a refused start left %v, %v", entries, err)
	}
}

func TestIdentitySurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, IdentityFile)
	if _, err := ReadIdentity(vfs.OS, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("identity of a run that never ran: %v", err)
	}
	first := startServer(t, options(dir))
	first.Shutdown()
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o644); err != nil { // as a careless copy would leave it
			t.Fatal(err)
		}
	}
	o := options(dir)
	o.Roles = append(o.Roles, Role{Name: "late"})
	second := startServer(t, o)

	id, err := ReadIdentity(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	if id.Run != "demo" || id.Address != second.URL() || len(id.Keys) != len(roles())+1 {
		t.Errorf("identity of run %q at %s with %d keys", id.Run, id.Address, len(id.Keys))
	}
	for _, role := range roles() {
		was, err1 := first.Credential(role.Name)
		is, err2 := id.Credential(role.Name)
		if err := errors.Join(err1, err2); err != nil || was != is {
			t.Errorf("the key of %s changed, %v", role.Name, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
}

func TestPortOfTheLastLife(t *testing.T) {
	dir := t.TempDir()
	first := startServer(t, options(dir))
	first.Shutdown()
	second := startServer(t, options(dir))
	if second.URL() != first.URL() {
		u, err := url.Parse(first.URL())
		if err != nil {
			t.Fatal(err)
		}
		if l, err := net.Listen("tcp", u.Host); err == nil {
			l.Close()
			t.Errorf("came back at %s although %s is free", second.URL(), first.URL())
		} else {
			t.Skipf("another process took %s meanwhile", first.URL())
		}
	}

	// The port is taken now: by this server. A sibling with the same identity goes elsewhere, unless it
	// was told the port.
	third := startServer(t, options(dir))
	if third.URL() == second.URL() {
		t.Errorf("two servers at %s", third.URL())
	}
	o := options(dir)
	o.Port = formerPort(second.URL())
	if s, err := StartServer(o); err == nil {
		s.Shutdown()
		t.Error("started on a port that is taken")
	} else if !strings.Contains(err.Error(), "in use") {
		t.Errorf("the port is taken: %v", err)
	}
}

func TestDamagedIdentityIsRefused(t *testing.T) {
	seed, err := newSeed()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "delete the file"},
		"cut":              {`{"format":1,"run":"demo","keys":{"w1":"` + seed, "delete the file"},
		"newer":            {`{"format":2,"run":"demo"}`, "format 2"},
		"no format":        {`{"run":"demo"}`, "format 0"},
		"another run's":    {`{"format":1,"run":"other"}`, `"other"`},
		"flipped key":      {`{"format":1,"run":"demo","keys":{"w1":"` + seed[:20] + "A" + seed[20:] + `"}}`, `"w1"`},
		"hostile role":     {`{"format":1,"run":"demo","keys":{">":"` + seed + `"}}`, `">"`},
		"larger than life": {strings.Repeat(" ", identityMaxBytes+1), "too large"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, IdentityFile)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := StartServer(options(dir))
		if err == nil {
			s.Shutdown()
			t.Errorf("%s: accepted", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), seed[:20]) {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != c.text {
			t.Errorf("%s: the file changed, %v", name, err)
		}
	}
}

// FuzzIdentity: any bytes give an identity whose keys work, or an error that quotes no key.
func FuzzIdentity(f *testing.F) {
	seed, err := newSeed()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"format":1,"run":"demo","address":"nats://127.0.0.1:4222","keys":{"w1":"` + seed + `"}}`))
	f.Add([]byte(`{"format":1,"keys":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := parseIdentity(data)
		formerPort(id.Address)
		if err != nil {
			return
		}
		for role := range id.Keys {
			credential, err := id.Credential(role)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := publicKey(credential.Seed); err != nil || !validRole(role) {
				t.Fatalf("role %q, %v", role, err)
			}
		}
	})
}

func TestConnectWaitsForTheServer(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, options(dir))
	credential, err := s.Credential("w1")
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	impatient, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	o := ConnOptions{URL: s.URL(), Credential: credential, Name: "w1"}
	if _, err := Connect(impatient, o); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "last attempt") {
		t.Errorf("nobody at the address: %v", err)
	}

	type result struct {
		bus transport.Bus
		err error
	}
	connected := make(chan result, 1)
	go func() {
		b, err := Connect(patience(t), o)
		connected <- result{b, err}
	}()
	again := options(dir)
	again.Port = formerPort(s.URL())
	startServer(t, again)
	got := wait(t, connected)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if err := got.bus.Close(); err != nil {
		t.Error(err)
	}
}

func TestAConnectionOutlivesItsServer(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, options(dir))
	cut, back := make(chan bool, 1), make(chan bool, 1)
	credential, err := s.Credential("w1")
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Connect(patience(t), ConnOptions{
		URL: s.URL(), Credential: credential, Name: "w1",
		Log: logOf(func(message string) {
			switch {
			case strings.Contains(message, "is cut"):
				cut <- true
			case strings.Contains(message, "is back"):
				back <- true
			}
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	subscribe(t, opened, "andrea.demo.w.w1.ping", func(m transport.Message) {
		if err := m.Respond(m.Data); err != nil {
			t.Error(err)
		}
	})
	s.Shutdown()
	wait(t, cut)
	if err := opened.Publish("andrea.demo.c.1", nil); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("Publish while cut: %v", err)
	}
	if _, err := opened.Request(patience(t), "andrea.demo.c.1", nil); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("Request while cut: %v", err)
	}
	if _, err := opened.Subscribe("andrea.demo.ev.x", func(transport.Message) {}); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("Subscribe while cut: %v", err)
	}

	o := options(dir)
	o.Port = formerPort(s.URL())
	again := startServer(t, o)
	wait(t, back)
	subscribe(t, opened, "andrea.demo.ev.x", func(transport.Message) {}) // a round trip, after the old subscriptions
	coordinator := connect(t, again, "coordinator", false)
	got, err := coordinator.Request(patience(t), "andrea.demo.w.w1.ping", []byte("still there"))
	if err != nil || string(got) != "still there" {
		t.Errorf("after the restart: %q, %v", got, err)
	}
}

func TestClose(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	coordinator, worker := connect(t, s, "coordinator", false), connect(t, s, "w1", true)
	entered, leave := make(chan bool), make(chan bool)
	var left bool // read after Close: the race detector proves that Close waits
	subscribe(t, worker, "andrea.demo.w.w1.slow", func(transport.Message) {
		entered <- true
		<-leave
		left = true
	})
	received := make(chan bool, 1)
	subscribe(t, coordinator, "andrea.demo.c.bye", func(transport.Message) { received <- true })
	pending := make(chan error, 1)
	subscribe(t, coordinator, "andrea.demo.c.never", func(transport.Message) { close(leave) })
	publish(t, coordinator, "andrea.demo.w.w1.slow", nil)
	wait(t, entered)
	go func() {
		_, err := worker.Request(patience(t), "andrea.demo.c.never", nil)
		pending <- err
	}()
	wait(t, leave) // the request is on its way, the handler free to go
	publish(t, worker, "andrea.demo.c.bye", nil)
	if err := worker.Close(); err != nil {
		t.Fatal(err)
	}
	if !left {
		t.Error("Close returned while a handler ran")
	}
	wait(t, received)
	if err := wait(t, pending); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("an outstanding request ended with %v", err)
	}
	for name, call := range map[string]func() error{
		"Publish":   func() error { return worker.Publish("andrea.demo.c.1", nil) },
		"Request":   func() error { _, err := worker.Request(patience(t), "andrea.demo.c.1", nil); return err },
		"Subscribe": func() error { _, err := worker.Subscribe("_IN.w1.x", func(transport.Message) {}); return err },
	} {
		if err := call(); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := worker.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestNothingRunsAfterShutdown counts goroutines that run code of this package or of NATS.
func TestNothingRunsAfterShutdown(t *testing.T) {
	s, err := StartServer(options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	for _, overTCP := range []bool{false, true} {
		credential, err := s.Credential("coordinator")
		if err != nil {
			t.Fatal(err)
		}
		o := ConnOptions{Server: s, Credential: credential}
		if overTCP {
			o.Server, o.URL = nil, s.URL()
		}
		b, err := Connect(patience(t), o)
		if err != nil {
			t.Fatal(err)
		}
		subscribe(t, b, "andrea.demo.echo", func(m transport.Message) {
			if err := m.Respond(m.Data); err != nil {
				t.Error(err)
			}
		})
		if _, err := b.Request(patience(t), "andrea.demo.echo", nil); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.Shutdown()
	stacks := make([]byte, 1<<20)
	for deadline := patience(t); ; runtime.Gosched() { // their last instructions may still be running
		running := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(running, "nats-io") {
			return
		}
		if deadline.Err() != nil {
			t.Fatalf("still running:\n%s", running)
		}
	}
}
