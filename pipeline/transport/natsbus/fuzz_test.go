package natsbus

import (
	"strings"
	"testing"
)

// FuzzCredential: whatever a file of credentials holds, it is one kind of credential, or an error that
// shows nothing of it.
func FuzzCredential(f *testing.F) {
	for _, text := range []string{"", "{}", "user: a\npassword: b", "user:", "SUAAA", "-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCredential(data)
		if err != nil {
			if len(data) > 80 && strings.Contains(err.Error(), string(data)) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		if c.anonymous() || c.User != "" && c.Seed != "" || c.User == "" && c.Seed == "" {
			t.Errorf("%q gives a credential of no kind", data)
		}
		if _, err := c.options(); err != nil {
			t.Errorf("%q was read and cannot be used: %v", data, err)
		}
	})
}

// FuzzMember: nobody becomes a member by chance, and nothing that a client sends breaks the gate.
func FuzzMember(f *testing.F) {
	id, err := NewIdentity("demo", "worker")
	if err != nil {
		f.Fatal(err)
	}
	g, err := newGate(nil, &Pool{Name: "worker", Permissions: func(string) (publish, subscribe []string) { return nil, nil }}, id)
	if err != nil {
		f.Fatal(err)
	}
	member, err := id.Join("worker", "pod")
	if err != nil {
		f.Fatal(err)
	}
	public, err := publicKey(member.Seed)
	if err != nil {
		f.Fatal(err)
	}
	if g.member(member.Role, public, member.Proof) == nil {
		f.Fatal("a member is not let in")
	}
	f.Add(member.Role, public, "")
	f.Add("", "", member.Proof)
	f.Add("pod-aaaaaaaaaaaa", public, member.Proof)
	f.Add(member.Role, "UAAA", member.Proof)
	f.Fuzz(func(t *testing.T, id, key, proof string) {
		if g.member(id, key, proof) != nil && id != member.Role {
			t.Errorf("%q is let in with key %q and proof %q", id, key, proof)
		}
	})
}
