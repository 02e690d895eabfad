package natsbus

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// Pool lets any number of processes in that hold one common key. Each has a key and an id of its own
// besides, see Identity.Join, and permissions made for that id: members can neither pose as nor
// overhear each other.
type Pool struct {
	Name string // of the common key in the identity file
	// Permissions returns the patterns that a member may publish and subscribe to, besides its inbox.
	Permissions func(id string) (publish, subscribe []string)
}

// gate decides who connects to the embedded server, and what they may do there.
type gate struct {
	users map[string]*server.User // by public key
	pool  *Pool                   // may be nil
	key   string                  // public key of the pool
}

// newGate admits the keys of an identity.
func newGate(roles []Role, pool *Pool, id Identity) (*gate, error) {
	g := &gate{users: map[string]*server.User{}, pool: pool}
	for _, role := range roles {
		public, err := publicKey(id.Keys[role.Name])
		if err != nil {
			return nil, fmt.Errorf("key of role %q: %w", role.Name, err)
		}
		g.users[public] = user(role)
	}
	if pool != nil {
		var err error
		if g.key, err = publicKey(id.Keys[pool.Name]); err != nil {
			return nil, fmt.Errorf("key of pool %q: %w", pool.Name, err)
		}
	}
	return g, nil
}

// user puts a role's permissions into the server's terms.
func user(role Role) *server.User {
	publish := &server.SubjectPermission{Allow: role.Publish}
	if len(role.Publish) == 0 {
		publish.Deny = []string{">"} // an empty list of allowed patterns would allow all
	}
	return &server.User{Username: role.Name, Permissions: &server.Permissions{
		Publish:   publish,
		Subscribe: &server.SubjectPermission{Allow: append([]string{inboxPrefix(role.Name) + ".>"}, role.Subscribe...)},
		Response:  &server.ResponsePermission{MaxMsgs: 1, Expires: answerWait},
	}}
}

// Check implements server.Authentication: a client proves that it has the key it names, and that key
// is a role's or one that the pool has signed.
func (g *gate) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if nonce := c.GetNonce(); len(nonce) == 0 || !verify(o.Nkey, nonce, o.Sig) {
		return false
	}
	u := g.users[o.Nkey]
	if u == nil {
		u = g.member(o.Username, o.Nkey, o.Password)
	}
	if u == nil {
		return false
	}
	c.RegisterUser(u)
	return true
}

// member is the user of a pool's member; nil: it is none, or the id is not its key's.
func (g *gate) member(id, public, proof string) *server.User {
	if g.pool == nil || !validRole(id) || !verify(g.key, admission(public), proof) {
		return nil
	}
	if name := id[:max(0, len(id)-1-memberMark)]; name == "" || memberID(name, public) != id {
		return nil
	}
	publish, subscribe := g.pool.Permissions(id)
	return user(Role{Name: id, Publish: publish, Subscribe: subscribe})
}

// verify reports that the signature, in base64, is by the key.
func verify(public string, data []byte, signature string) bool {
	if !strings.HasPrefix(public, "U") {
		return false
	}
	pair, err := nkeys.FromPublicKey(public)
	if err != nil {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(signature)
	return err == nil && pair.Verify(data, raw) == nil
}
