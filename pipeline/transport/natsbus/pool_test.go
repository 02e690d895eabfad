package natsbus

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"andrea/pipeline/transport"
)

// pooled is options with a pool whose members have the permissions of workers.
func pooled(dir string) ServerOptions {
	o := options(dir)
	o.Pool = &Pool{Name: "worker", Permissions: func(id string) (publish, subscribe []string) {
		return []string{"andrea.demo.c.*." + id + ".>", "andrea.demo.p." + id + ".>"},
			[]string{"andrea.demo.w." + id + ".>", "andrea.demo.p.*." + id + ".>"}
	}}
	return o
}

// join makes a credential of the server's pool.
func join(t testing.TB, s *Server, name string) Credential {
	t.Helper()
	only, err := s.Identity().Only("worker")
	if err != nil {
		t.Fatal(err)
	}
	c, err := only.Join("worker", name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// enter opens a bus over a socket.
func enter(t testing.TB, s *Server, c Credential) transport.Bus {
	t.Helper()
	b, err := Connect(patience(t), ConnOptions{URL: s.URL(), Credential: c, Name: c.Role})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// One key lets many in; each has an id of its own, speaks and listens as that id alone, and gets its
// answers alone.
func TestMembersOfAPoolAreKeptApart(t *testing.T) {
	s := startServer(t, pooled(t.TempDir()))
	a, b := join(t, s, "pod"), join(t, s, "pod")
	if a.Role == b.Role || !strings.HasPrefix(a.Role, "pod-") || !validRole(a.Role) {
		t.Fatalf("the ids are %s and %s", a.Role, b.Role)
	}
	coordinator, one, two := connect(t, s, "coordinator", false), enter(t, s, a), enter(t, s, b)
	seen := make(chan string, 100)
	subscribe(t, coordinator, "andrea.demo.>", func(m transport.Message) { seen <- m.Subject; _ = m.Respond(m.Data) })
	subscribe(t, two, fmt.Sprintf("andrea.demo.p.*.%s.>", b.Role), func(m transport.Message) { _ = m.Respond([]byte("from two")) })

	answer, err := one.Request(patience(t), "andrea.demo.c.7."+a.Role+".tokens", []byte("x"))
	if err != nil || string(answer) != "x" {
		t.Errorf("the coordinator answered %q, %v", answer, err)
	}
	if got := wait(t, seen); got != "andrea.demo.c.7."+a.Role+".tokens" {
		t.Errorf("the coordinator saw %s", got)
	}
	peer := fmt.Sprintf("andrea.demo.p.%s.%s.state", a.Role, b.Role)
	if _, err := one.Request(patience(t), peer, nil); err != nil {
		t.Errorf("a member asked another: %v", err)
	}
	if got := wait(t, seen); got != peer {
		t.Errorf("the coordinator saw %s", got)
	}
	for _, subject := range []string{
		"andrea.demo.c.7." + b.Role + ".control", "andrea.demo.p." + b.Role + "." + a.Role + ".state", "andrea.demo.w." + b.Role + ".control",
		"andrea.demo.c.status", "_IN." + b.Role + ".x.y", "_IN.coordinator.x.y", "$JS.API.INFO", "$SYS.REQ.SERVER.PING", "andrea.demo.log." + b.Role + ".info",
	} {
		publish(t, one, subject, nil)
	}
	last := "andrea.demo.c.7." + a.Role + ".last"
	publish(t, one, last, nil)
	if got := wait(t, seen); got != last {
		t.Errorf("a message on %s got through", got)
	}
	for _, subject := range []string{
		">", "andrea.demo.w.>", "andrea.demo.w.*.control", "andrea.demo.w." + b.Role + ".>", "andrea.demo.p.>", "andrea.demo.p.*." + b.Role + ".>",
		"_IN.>", "_IN." + b.Role + ".>", "_IN.*.>", "$JS.API.>", "$SYS.>", "andrea.demo.c.>",
	} {
		if _, err := one.Subscribe(subject, func(transport.Message) {}); !errors.Is(err, transport.ErrDenied) {
			t.Errorf("a member may subscribe to %s: %v", subject, err)
		}
	}
}

// Who has no part of the proof, or another's, stays out.
func TestForgedMembersAreRefused(t *testing.T) {
	s := startServer(t, pooled(t.TempDir()))
	a, b := join(t, s, "pod"), join(t, s, "other")
	role, err := s.Credential("w1")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := s.Credential("worker")
	if err != nil {
		t.Fatal(err)
	}
	public, err := publicKey(a.Seed)
	if err != nil {
		t.Fatal(err)
	}
	bySelf, err := sign(a.Seed, admission(public))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Credential{
		"another's id":          {Role: b.Role, Seed: a.Seed, Proof: a.Proof},
		"another's name":        {Role: "other" + strings.TrimPrefix(a.Role, "pod"), Seed: a.Seed, Proof: b.Proof},
		"a role's id":           {Role: "coordinator", Seed: a.Seed, Proof: a.Proof},
		"no mark":               {Role: "pod", Seed: a.Seed, Proof: a.Proof},
		"a mark alone":          {Role: strings.TrimPrefix(a.Role, "pod-"), Seed: a.Seed, Proof: a.Proof},
		"no proof":              {Role: a.Role, Seed: a.Seed},
		"another's proof":       {Role: a.Role, Seed: a.Seed, Proof: b.Proof},
		"its own proof":         {Role: a.Role, Seed: a.Seed, Proof: base64.RawURLEncoding.EncodeToString(bySelf)},
		"the pool's key itself": {Role: "worker", Seed: pool.Seed},
		"no signature":          {Role: a.Role, User: a.Role, Password: a.Proof},
		"nothing":               {Role: a.Role},
	} {
		if bus, err := Connect(patience(t), ConnOptions{URL: s.URL(), Credential: c}); err == nil {
			_ = bus.Close()
			t.Errorf("%s: let in", name)
		} else if strings.Contains(err.Error(), a.Seed) {
			t.Errorf("%s: the error holds the seed: %v", name, err)
		}
	}
	// A role's key has the role's permissions, whatever else it claims.
	posing := ConnOptions{URL: s.URL(), Credential: Credential{Role: a.Role, Seed: role.Seed, Proof: a.Proof}}
	if _, err := Connect(patience(t), posing); !errors.Is(err, transport.ErrDenied) {
		t.Errorf("a role took a member's answers: %v", err)
	}
	bus := enter(t, s, Credential{Role: role.Role, Seed: role.Seed, Proof: a.Proof})
	if _, err := bus.Subscribe("andrea.demo.w."+a.Role+".>", func(transport.Message) {}); !errors.Is(err, transport.ErrDenied) {
		t.Errorf("a role took a member's subjects: %v", err)
	}
}

func TestJoiningNeedsANameAndThePool(t *testing.T) {
	id, err := NewIdentity("demo", "worker", "observer")
	if err != nil {
		t.Fatal(err)
	}
	for name, join := range map[string]func() (Credential, error){
		"no such pool": func() (Credential, error) { return id.Join("boss", "pod") },
		"no name":      func() (Credential, error) { return id.Join("worker", "") },
		"a bad name":   func() (Credential, error) { return id.Join("worker", "a.b") },
		"a long name":  func() (Credential, error) { return id.Join("worker", strings.Repeat("a", MaxMemberName+1)) },
	} {
		if c, err := join(); err == nil {
			t.Errorf("%s: joined as %v", name, c)
		}
	}
	c, err := id.Join("worker", strings.Repeat("a", MaxMemberName))
	if err != nil || !validRole(c.Role) {
		t.Errorf("the longest name gives %v, %v", c, err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", c, c, c, []Credential{c}); strings.Contains(text, c.Seed) || strings.Contains(text, c.Proof) {
		t.Errorf("a credential shows its secrets: %s", text)
	}
}

// Everybody who listens answers, and is heard.
func TestAskCollectsAnswers(t *testing.T) {
	s := startServer(t, options(t.TempDir()))
	credential, err := s.Credential("coordinator")
	if err != nil {
		t.Fatal(err)
	}
	o := ConnOptions{URL: s.URL(), Credential: credential}
	if answers, err := Ask(patience(t), o, "andrea.demo.who"); err != nil || len(answers) != 0 {
		t.Errorf("nobody listens: %q, %v", answers, err)
	}
	for _, name := range []string{"one", "two"} {
		subscribe(t, connect(t, s, "coordinator", false), "andrea.demo.who", func(m transport.Message) { _ = m.Respond([]byte(name)) })
	}
	answers, err := Ask(patience(t), o, "andrea.demo.who")
	slices.SortFunc(answers, slices.Compare[[]byte])
	if err != nil || fmt.Sprintf("%s", answers) != "[one two]" {
		t.Errorf("the answers are %s, %v", answers, err)
	}
}
