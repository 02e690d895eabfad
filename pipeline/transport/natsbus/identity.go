package natsbus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"andrea/vfs"

	"github.com/nats-io/nkeys"
)

const (
	// IdentityFile is the name of the identity file in a run's folder.
	IdentityFile = "server.json"

	// identityFormat is the number that the file carries; a higher one was written by a newer program.
	identityFormat = 1
	// identityMaxBytes caps what is read: 256 KiB holds the keys of some 3,000 roles.
	identityMaxBytes = 256 << 10
)

// Identity is how a run's server is found and entered: where it listens and the secret key of every
// role. It lies in the run's folder, readable by its owner only, so whoever may read the run's files
// may also join the run.
type Identity struct {
	Format  int               `json:"format"`
	Run     string            `json:"run"`
	Address string            `json:"address"` // nats://host:port, or tls://, of the server's present or last life
	Keys    map[string]string `json:"keys"`    // role -> NKey seed, a secret
	// Certificate is the server's certificate in PEM, the only one to accept at a tls:// address; empty:
	// an authority has to vouch for the server.
	Certificate string `json:"certificate,omitempty"`
}

// Credential returns the credential of a role, or an error when the identity has no such role.
func (id Identity) Credential(role string) (Credential, error) {
	seed, ok := id.Keys[role]
	if !ok {
		return Credential{}, fmt.Errorf("credential of role %q: run %q has no such role", role, id.Run)
	}
	return Credential{Role: role, Seed: seed}, nil
}

// ReadIdentity reads and checks the identity file in a run's folder. The error is fs.ErrNotExist when
// no server was ever started for the run.
func ReadIdentity(fsys vfs.FS, runDir string) (Identity, error) {
	id, err := ReadIdentityFile(fsys, filepath.Join(runDir, IdentityFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return id, fmt.Errorf("%w: delete the file, the next start makes new keys", err)
	}
	return id, err
}

// NewIdentity makes a new key for each of the roles, for a server that is still to be started.
func NewIdentity(run string, roles ...string) (Identity, error) {
	keys := make(map[string]string, len(roles))
	for _, role := range roles {
		seed, err := newSeed()
		if err != nil {
			return Identity{}, fmt.Errorf("make a key for role %q: %w", role, err)
		}
		keys[role] = seed
	}
	return Identity{Format: identityFormat, Run: run, Keys: keys}, nil
}

// Only returns the identity with the key of one role: what a process needs to take that role, and
// nothing with which it could take another.
func (id Identity) Only(role string) (Identity, error) {
	c, err := id.Credential(role)
	if err != nil {
		return Identity{}, err
	}
	id.Keys = map[string]string{role: c.Seed}
	return id, nil
}

// Write writes an identity file, mode 0600; an older file is replaced.
func (id Identity) Write(fsys vfs.FS, path string) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fsys, path, append(data, '\n'), 0o600)
}

// ReadIdentityFile reads and checks an identity file: a server's own, or one that Server.WriteKey made.
func ReadIdentityFile(fsys vfs.FS, path string) (Identity, error) {
	data, err := vfs.ReadFile(fsys, path, identityMaxBytes)
	if err != nil {
		return Identity{}, fmt.Errorf("read the server's identity: %w", err)
	}
	id, err := parseIdentity(data)
	if err != nil {
		return Identity{}, fmt.Errorf("read the server's identity: %s: %w", path, err)
	}
	return id, nil
}

// parseIdentity decodes an identity file. Its errors never quote the content, which holds secrets.
func parseIdentity(data []byte) (Identity, error) {
	var id Identity
	if err := json.Unmarshal(data, &id); err != nil {
		return Identity{}, errors.New("not a JSON object of the expected shape")
	}
	if id.Format < 1 || id.Format > identityFormat {
		return Identity{}, fmt.Errorf("format %d, this program reads 1 to %d", id.Format, identityFormat)
	}
	for role, seed := range id.Keys {
		if !validRole(role) {
			return Identity{}, fmt.Errorf("role %q is not of 1 to 64 characters [a-z0-9-]", role)
		}
		if _, err := publicKey(seed); err != nil {
			return Identity{}, fmt.Errorf("key of role %q: %w", role, err)
		}
	}
	return id, nil
}

// WriteKey writes an identity file that holds the key of one role only. Mode 0600; an older file is
// replaced.
func (s *Server) WriteKey(fsys vfs.FS, path, role string) error {
	id, err := s.identity.Only(role)
	if err == nil {
		err = id.Write(fsys, path)
	}
	if err != nil {
		return fmt.Errorf("write the key of role %q: %w", role, err)
	}
	return nil
}

// loadIdentity returns the run's identity with a key for every role: those given, else the former ones
// as long as the file exists, new ones for roles that neither names. It writes nothing.
func loadIdentity(fsys vfs.FS, runDir, run string, given map[string]string, roles []string) (Identity, error) {
	id, err := ReadIdentity(fsys, runDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		id = Identity{}
	case err != nil:
		return Identity{}, err
	case id.Run != run:
		return Identity{}, fmt.Errorf("%s belongs to run %q, not to %q: use the folder of one run for no other",
			filepath.Join(runDir, IdentityFile), id.Run, run)
	}
	keys := make(map[string]string, len(roles))
	maps.Copy(keys, id.Keys)
	maps.Copy(keys, given)
	for _, role := range roles {
		if keys[role] != "" {
			continue
		}
		if keys[role], err = newSeed(); err != nil {
			return Identity{}, fmt.Errorf("make a key for role %q: %w", role, err)
		}
	}
	return Identity{Format: identityFormat, Run: run, Address: id.Address, Keys: keys}, nil
}

// newSeed makes a user key and returns its seed.
func newSeed() (string, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	seed, err := pair.Seed()
	return string(seed), err
}

// publicKey returns the public half of a user key's seed. Its error does not quote the seed.
func publicKey(seed string) (string, error) {
	prefix, _, err := nkeys.DecodeSeed([]byte(seed))
	if err != nil || prefix != nkeys.PrefixByteUser {
		return "", errors.New("not an NKey user seed")
	}
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return "", errors.New("not an NKey user seed")
	}
	return pair.PublicKey()
}

// validRole tells whether a name can be a subject token and a key of the identity file.
func validRole(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}
