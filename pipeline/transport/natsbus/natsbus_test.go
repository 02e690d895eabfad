package natsbus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"andrea/pipeline/transport"
	"andrea/vfs"
)

// roles are the permissions of a run called demo as the pipeline gives them.
func roles() []Role {
	worker := func(name string) Role {
		return Role{
			Name:      name,
			Publish:   []string{"andrea.demo.c.>", "andrea.demo.log.>"},
			Subscribe: []string{"andrea.demo.w." + name + ".>", "andrea.demo.ev.>"},
		}
	}
	return []Role{
		{Name: "coordinator", Publish: []string{"andrea.demo.>"}, Subscribe: []string{"andrea.demo.>"}},
		worker("w1"), worker("w2"), {Name: "mute"},
	}
}

func options(dir string) ServerOptions {
	return ServerOptions{Run: "demo", RunDir: dir, FS: vfs.OS, Roles: roles()}
}

func startServer(t testing.TB, o ServerOptions) *Server {
	t.Helper()
	s, err := StartServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// connect opens a bus as a role, in-process, or over a socket when overTCP is set.
func connect(t testing.TB, s *Server, role string, overTCP bool) transport.Bus {
	t.Helper()
	credential, err := s.Credential(role)
	if err != nil {
		t.Fatal(err)
	}
	o := ConnOptions{Server: s, Credential: credential, Name: role, Bulk: true}
	if overTCP {
		o.Server, o.URL = nil, s.URL()
	}
	b, err := Connect(patience(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// patience is a context that only a test that hangs outlives.
func patience(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func subscribe(t testing.TB, b transport.Bus, subject string, handler func(transport.Message)) transport.Subscription {
	t.Helper()
	sub, err := b.Subscribe(subject, handler)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func publish(t testing.TB, b transport.Bus, subject string, data []byte) {
	t.Helper()
	if err := b.Publish(subject, data); err != nil {
		t.Fatal(err)
	}
}

func wait[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-patience(t).Done():
		t.Fatal("nothing arrived")
		panic("unreachable")
	}
}

func TestRequestIsAnsweredBothWays(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	coordinator := connect(t, s, "coordinator", false)
	for _, overTCP := range []bool{false, true} {
		worker := connect(t, s, "w1", overTCP)
		echo := func(m transport.Message) {
			if err := m.Respond(append([]byte(m.Subject+" "), m.Data...)); err != nil {
				t.Error(err)
			}
		}
		down := subscribe(t, worker, "andrea.demo.w.w1.>", echo)
		up := subscribe(t, coordinator, "andrea.demo.c.>", echo)
		for _, c := range []struct {
			from    transport.Bus
			subject string
		}{{coordinator, "andrea.demo.w.w1.ping"}, {worker, "andrea.demo.c.1.register"}} {
			got, err := c.from.Request(patience(t), c.subject, []byte("hello"))
			if err != nil || string(got) != c.subject+" hello" {
				t.Errorf("over TCP %v: request on %s: got %q, %v", overTCP, c.subject, got, err)
			}
		}
		for _, sub := range []transport.Subscription{down, up, up} {
			if err := sub.Unsubscribe(); err != nil {
				t.Errorf("Unsubscribe: %v", err)
			}
		}
	}
}

func TestManyRequestsAreOutstanding(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	coordinator, worker := connect(t, s, "coordinator", false), connect(t, s, "w1", true)
	const n = 16
	var held []transport.Message // until all have come: answers go out in reverse order, outside the handler
	all := make(chan []transport.Message, 1)
	subscribe(t, worker, "andrea.demo.w.w1.get", func(m transport.Message) {
		if held = append(held, m); len(held) == n {
			all <- held
		}
	})
	var asked sync.WaitGroup
	for i := range n {
		asked.Go(func() {
			question := []byte{byte(i)}
			if got, err := coordinator.Request(patience(t), "andrea.demo.w.w1.get", question); err != nil || !bytes.Equal(got, question) {
				t.Errorf("request %d: got %v, %v", i, got, err)
			}
		})
	}
	messages := wait(t, all)
	for i := range messages {
		m := messages[n-1-i]
		if err := m.Respond(m.Data); err != nil {
			t.Error(err)
		}
	}
	asked.Wait()
}

func TestRequestFails(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	b := connect(t, s, "coordinator", true)
	subscribe(t, b, "andrea.demo.silent", func(transport.Message) {})
	expired, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	<-expired.Done()
	cancelled, cancel := context.WithCancel(context.Background())
	received := make(chan bool, 1)
	subscribe(t, b, "andrea.demo.cancel", func(transport.Message) { cancel(); received <- true })
	soon, cancelSoon := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancelSoon()

	for _, c := range []struct {
		name    string
		ctx     context.Context
		subject string
		want    []error
	}{
		{"nobody there", patience(t), "andrea.demo.nobody", []error{transport.ErrNoResponders}},
		{"no answer in time", soon, "andrea.demo.silent", []error{transport.ErrTimeout, context.DeadlineExceeded}},
		{"too late to ask", expired, "andrea.demo.silent", []error{transport.ErrTimeout}},
		{"cancelled while waiting", cancelled, "andrea.demo.cancel", []error{context.Canceled}},
	} {
		_, err := b.Request(c.ctx, c.subject, nil)
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", c.name, err, want)
			}
		}
		if err != nil && !strings.Contains(err.Error(), c.subject) {
			t.Errorf("%s: %v does not name the subject", c.name, err)
		}
	}
	wait(t, received)
}

func TestTooLargeIsRefusedAndTheConnectionLives(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	b := connect(t, s, "coordinator", true)
	answers := make(chan error, 1)
	got := make(chan int, 1)
	subscribe(t, b, "andrea.demo.a", func(m transport.Message) { got <- len(m.Data) })
	subscribe(t, b, "andrea.demo.r", func(m transport.Message) {
		answers <- m.Respond(make([]byte, maxPayload+1))
		if err := m.Respond(make([]byte, maxPayload)); err != nil {
			t.Error(err)
		}
	})
	big := make([]byte, maxPayload+1)
	if err := b.Publish("andrea.demo.a", big); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("Publish: %v", err)
	}
	if _, err := b.Request(patience(t), "andrea.demo.a", big); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("Request: %v", err)
	}
	publish(t, b, "andrea.demo.a", big[:maxPayload])
	if n := wait(t, got); n != maxPayload {
		t.Errorf("received %d bytes", n)
	}
	answer, err := b.Request(patience(t), "andrea.demo.r", nil)
	if err != nil || len(answer) != maxPayload {
		t.Errorf("the largest answer: %d bytes, %v", len(answer), err)
	}
	if err := wait(t, answers); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("Respond: %v", err)
	}
}

func TestMessagesArriveInOrderOneAtATime(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	sender, receiver := connect(t, s, "w1", true), connect(t, s, "coordinator", false)
	const n = 5000
	var next uint32
	var busy sync.Mutex
	done := make(chan bool)
	subscribe(t, receiver, "andrea.demo.c.*", func(m transport.Message) {
		if !busy.TryLock() {
			t.Error("two handlers of one subscription run at once")
			return
		}
		defer busy.Unlock()
		if got := binary.LittleEndian.Uint32(m.Data); got != next {
			t.Errorf("message %d arrived, expected %d", got, next)
		}
		if next++; next == n {
			close(done)
		}
	})
	data := make([]byte, 4)
	for i := range uint32(n) {
		binary.LittleEndian.PutUint32(data, i) // reuse proves that Publish copies
		publish(t, sender, fmt.Sprintf("andrea.demo.c.%d", i%3), data)
	}
	wait(t, done)
}

// A reply subject is chosen by the sender. Answered blindly, a worker could make the coordinator, with
// the coordinator's permissions, send what looks like a command to another worker.
func TestAnswersGoToInboxesOnly(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	coordinator, victim := connect(t, s, "coordinator", false), connect(t, s, "w2", true)
	attacker := connect(t, s, "w1", true).(*bus)
	victimGot := make(chan string, 2)
	subscribe(t, victim, "andrea.demo.w.w2.>", func(m transport.Message) { victimGot <- string(m.Data) })
	responded := make(chan error, 1)
	subscribe(t, coordinator, "andrea.demo.c.x", func(m transport.Message) { responded <- m.Respond([]byte("forged")) })
	if err := attacker.nc.PublishRequest("andrea.demo.c.x", "andrea.demo.w.w2.stop", nil); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, responded); !errors.Is(err, transport.ErrNotARequest) {
		t.Errorf("Respond returned %v", err)
	}
	publish(t, coordinator, "andrea.demo.w.w2.stop", []byte("true")) // after a forged one, were there any
	if got := wait(t, victimGot); got != "true" {
		t.Errorf("the victim received %q first", got)
	}
}

func TestPermissionsToSubscribe(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	for _, c := range []struct {
		role    string
		allowed []string
		denied  []string
	}{
		{
			role:    "w1",
			allowed: []string{"andrea.demo.w.w1.>", "andrea.demo.w.w1.x", "andrea.demo.ev.>", "_IN.w1.>", "_IN.w1.x.y"},
			denied: []string{
				">", "*", "*.>", "andrea.>", "andrea.demo.>", "andrea.demo.w.>", "andrea.demo.w.w2.>", "andrea.demo.w.*.x",
				"andrea.demo.c.>", "andrea.demo.log.>", "andrea.other.ev.>", "_IN.>", "_IN.w2.>", "_IN.coordinator.>", "_IN.*.>",
				"_INBOX.>", "$SYS.>", "$JS.API.>",
			},
		},
		{"mute", []string{"_IN.mute.>"}, []string{">", "andrea.demo.ev.>"}},
		{"coordinator", []string{"andrea.demo.>", "andrea.demo.log.w1.info"}, []string{">", "andrea.>", "_IN.>", "_IN.w1.>", "$SYS.>"}},
	} {
		b := connect(t, s, c.role, true)
		for _, subject := range c.allowed {
			if _, err := b.Subscribe(subject, func(transport.Message) {}); err != nil {
				t.Errorf("%s may subscribe to %s, got %v", c.role, subject, err)
			}
		}
		for _, subject := range c.denied {
			if _, err := b.Subscribe(subject, func(transport.Message) {}); !errors.Is(err, transport.ErrDenied) {
				t.Errorf("%s may not subscribe to %s, got %v", c.role, subject, err)
			}
		}
	}
}

func TestPermissionsToPublish(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	worker, mute := connect(t, s, "w1", true), connect(t, s, "mute", true)
	coordinator, other := connect(t, s, "coordinator", false), connect(t, s, "w2", true)
	seen := make(chan string, 100)
	record := func(m transport.Message) { seen <- m.Subject }
	subscribe(t, coordinator, "andrea.demo.>", record)
	subscribe(t, other, "_IN.w2.>", record)

	for _, subject := range []string{
		"andrea.demo.w.w2.stop", "andrea.demo.ev.commit", "andrea.demo.x", "_IN.w2.a.b", "_IN.coordinator.a.b", "$SYS.REQ.SERVER.PING",
	} {
		publish(t, worker, subject, nil)
	}
	publish(t, mute, "andrea.demo.c.1", nil)
	publish(t, mute, "andrea.demo.log.mute.info", nil)
	if _, err := mute.Subscribe("_IN.mute.flush", func(transport.Message) {}); err != nil { // a round trip
		t.Fatal(err)
	}
	publish(t, worker, "andrea.demo.c.1.last", nil)
	if got := wait(t, seen); got != "andrea.demo.c.1.last" {
		t.Errorf("a message on %s got through", got)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	seed, err := newSeed()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Connect(patience(t), ConnOptions{URL: s.URL(), Credential: Credential{Role: "w1", Seed: seed}})
	if err == nil || !strings.Contains(err.Error(), `"w1"`) || strings.Contains(err.Error(), seed) {
		t.Errorf("a stranger's key: %v", err)
	}
	good, err := s.Credential("w1")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ConnOptions{
		"nowhere":      {Credential: good},
		"two places":   {Server: s, URL: s.URL(), Credential: good},
		"bad URL":      {URL: "127.0.0.1:4222", Credential: good},
		"password":     {URL: "nats://me:secret@127.0.0.1:4222", Credential: good},
		"no key":       {URL: s.URL(), Credential: Credential{Role: "w1"}},
		"role pattern": {URL: s.URL(), Credential: Credential{Role: "*", Seed: good.Seed}},
	} {
		b, err := Connect(patience(t), o)
		if err == nil {
			t.Errorf("%s: connected", name)
			b.Close()
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error holds the password: %v", name, err)
		}
	}
	if _, err := s.Credential("boss"); err == nil {
		t.Error("a role that does not exist has a credential")
	}
}
