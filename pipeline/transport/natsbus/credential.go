package natsbus

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"andrea/vfs"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Credential proves to a server that a connection may act as a role. How is one of: an NKey seed; a seed
// and the proof that a pool admits it; a seed and a user JWT; a user name and password; or, for servers
// on loopback that ask nobody, nothing. Its text form is the role alone: the rest is secret.
type Credential struct {
	Role     string // names the inbox, and in a pool the member
	Seed     string // NKey seed
	Proof    string // of a pool's member: the pool's signature of its key
	JWT      string // user JWT
	User     string
	Password string
}

// String is the role, so that no log shows a secret.
func (c Credential) String() string { return c.Role }

// GoString is the role, so that no log shows a secret.
func (c Credential) GoString() string { return c.Role }

// anonymous reports that nothing is proved.
func (c Credential) anonymous() bool { return c.Seed == "" && c.JWT == "" && c.User == "" }

// options puts the credential into the library's terms.
func (c Credential) options() ([]nats.Option, error) {
	switch {
	case c.anonymous():
		return nil, nil
	case c.User != "":
		return []nats.Option{nats.UserInfo(c.User, c.Password)}, nil
	}
	public, err := publicKey(c.Seed)
	if err != nil {
		return nil, fmt.Errorf("key of role %q: %w", c.Role, err)
	}
	if c.JWT != "" {
		token := c.JWT
		return []nats.Option{nats.UserJWT(func() (string, error) { return token, nil }, signer(c.Seed))}, nil
	}
	options := []nats.Option{nats.Nkey(public, signer(c.Seed))}
	if c.Proof != "" {
		options = append(options, nats.UserInfo(c.Role, c.Proof))
	}
	return options, nil
}

// signer answers the server's challenge with the key of a checked seed.
func signer(seed string) nats.SignatureHandler {
	return func(nonce []byte) ([]byte, error) { return sign(seed, nonce) }
}

func sign(seed string, data []byte) ([]byte, error) {
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	return pair.Sign(data)
}

// maxCredentialBytes caps what is read of a credentials file.
const maxCredentialBytes = 64 << 10

// ReadCredential reads the credentials of a server that somebody else runs: a .creds file with a user
// JWT and its seed, a file with an NKey user seed, or two lines "user: NAME" and "password: SECRET".
// role names the inbox.
func ReadCredential(fsys vfs.FS, path, role string) (Credential, error) {
	data, err := vfs.ReadFile(fsys, path, maxCredentialBytes)
	if err != nil {
		return Credential{}, fmt.Errorf("read the credentials: %w", err)
	}
	c, err := parseCredential(data)
	if err != nil {
		return Credential{}, fmt.Errorf("read the credentials: %s: %w", path, err)
	}
	c.Role = role
	return c, nil
}

// parseCredential tells the kinds of files apart. Its errors never quote the content.
func parseCredential(data []byte) (c Credential, err error) {
	text := strings.TrimSpace(string(data))
	switch {
	case strings.Contains(text, "BEGIN NATS USER JWT"):
		if c.JWT, err = nkeys.ParseDecoratedJWT(data); err != nil {
			return Credential{}, errors.New("its user JWT cannot be read")
		}
		pair, err := nkeys.ParseDecoratedUserNKey(data)
		if err != nil {
			return Credential{}, errors.New("its user NKey seed cannot be read")
		}
		seed, err := pair.Seed()
		c.Seed = string(seed)
		return c, err
	case strings.HasPrefix(text, "user:"):
		return parsePassword(text)
	}
	c.Seed = text
	if _, err := publicKey(text); err != nil {
		return Credential{}, errors.New("it is none of: a run's worker.json, an NKey user seed, a .creds file, or two lines 'user: NAME' and 'password: SECRET'")
	}
	return c, nil
}

func parsePassword(text string) (c Credential, err error) {
	first, second, _ := strings.Cut(text, "\n")
	password, ok := strings.CutPrefix(strings.TrimSpace(second), "password:")
	c.User = strings.TrimSpace(strings.TrimPrefix(first, "user:"))
	c.Password = strings.TrimSpace(password)
	if !ok || c.User == "" || c.Password == "" {
		return Credential{}, errors.New("it must have two lines: 'user: NAME' and 'password: SECRET'")
	}
	return c, nil
}

// memberMark is how many characters of a member's id its key decides: 60 bits, for which nobody finds a
// second key.
const memberMark = 12

// memberID is the id of a pool's member: the name it chose and a mark of its public key, so that an id
// is proved by the key and nobody can take another's.
func memberID(name, public string) string {
	sum := sha256.Sum256([]byte(public))
	return name + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:memberMark]
}

// admission is what a pool signs to admit a member's key.
func admission(public string) []byte { return []byte("andrea pool member " + public) }

// Join makes the credential of a new member of a pool: with a key of its own, admitted by the pool's. Its
// Role is the member's id, which begins with name and ends in a mark of that key. A process joins
// once and uses the credential for all its connections.
func (id Identity) Join(pool, name string) (Credential, error) {
	fail := func(err error) (Credential, error) {
		return Credential{}, fmt.Errorf("joining pool %q as %q: %w", pool, name, err)
	}
	common, err := id.Credential(pool)
	if err != nil {
		return fail(err)
	}
	if !validRole(name) || len(name) > MaxMemberName {
		return fail(fmt.Errorf("the name is not of 1 to %d characters [a-z0-9-]", MaxMemberName))
	}
	seed, err := newSeed()
	if err != nil {
		return fail(err)
	}
	public, err := publicKey(seed)
	if err != nil {
		return fail(err)
	}
	proof, err := sign(common.Seed, admission(public))
	if err != nil {
		return fail(err)
	}
	return Credential{Role: memberID(name, public), Seed: seed, Proof: base64.RawURLEncoding.EncodeToString(proof)}, nil
}

// MaxMemberName is how long the name of a pool's member may be, so that the id is one of a role.
const MaxMemberName = 64 - 1 - memberMark
