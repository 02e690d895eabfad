package launch

import (
	"bytes"
	"errors"
	"fmt"

	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/vfs"
)

// Remote is a NATS server that a process connects to: a run's own in another process, or one
// that somebody else runs.
type Remote struct {
	URL       string // nats:// or tls://; several joined by commas; empty: the one in Creds
	Creds     string // a run's key file, or a file of credentials for another server; empty: none
	CA        string // PEM file of who vouches for the server; empty: the system's authorities
	Plaintext bool   // the network to it is trusted, and need not be encrypted
}

// What is read at most of a file of certificates, and of one of credentials.
const (
	maxCABytes    = 1 << 20
	maxCredsBytes = 256 << 10
)

// KeyError is an error of what lets a process in, a file, an address or a user, or of the address at which it is to answer.
type KeyError struct{ error }

// Unwrap returns the error itself.
func (e KeyError) Unwrap() error { return e.error }

// keyError makes a KeyError of one that says that the server does not let this process do its part.
func keyError(err error) error {
	if errors.Is(err, natsbus.ErrRefused) || errors.Is(err, transport.ErrDenied) {
		return KeyError{err}
	}
	return err
}

// options reads the files. name is the process's on a server of somebody else; of a run's own
// server pick chooses the credential. run is empty where the files do not name it. Errors
// are KeyErrors.
func (r Remote) options(fsys vfs.FS, name string, pick func(natsbus.Identity) (natsbus.Credential, error)) (run string, o natsbus.ConnOptions, err error) {
	o = natsbus.ConnOptions{URL: r.URL, Plaintext: r.Plaintext, Credential: natsbus.Credential{Role: name}}
	if r.CA != "" {
		if o.CA, err = vfs.ReadFile(fsys, r.CA, maxCABytes); err != nil {
			return "", o, KeyError{fmt.Errorf("reading the certificate authority: %w", err)}
		}
	}
	if r.Creds != "" {
		if run, err = r.credential(fsys, &o, pick); err != nil {
			return "", o, KeyError{err}
		}
	}
	if o.URL == "" {
		return "", o, KeyError{errors.New("no server is given: name its URL with --nats, or a key file that has one with --creds")}
	}
	if err := o.CheckURL(); err != nil {
		return "", o, KeyError{err}
	}
	return run, o, nil
}

// credential fills in what the file of credentials says. A file that begins as JSON is a run's.
func (r Remote) credential(fsys vfs.FS, o *natsbus.ConnOptions, pick func(natsbus.Identity) (natsbus.Credential, error)) (run string, err error) {
	data, err := vfs.ReadFile(fsys, r.Creds, maxCredsBytes)
	if err != nil {
		return "", fmt.Errorf("reading the credentials: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		o.Credential, err = natsbus.ReadCredential(fsys, r.Creds, o.Credential.Role)
		return "", err
	}
	identity, err := natsbus.ReadIdentityFile(fsys, r.Creds)
	if err != nil {
		return "", fmt.Errorf("%w: give the %s of the run's folder", err, workerKeyFile)
	}
	if o.URL == "" {
		o.URL = identity.Address
	}
	if len(o.CA) == 0 {
		o.Pin = []byte(identity.Certificate)
	}
	o.Credential, err = pick(identity)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Creds, err)
	}
	return identity.Run, nil
}

// Observer is how a process connects that asks how a run goes. run is empty where the files do
// not name it.
func (r Remote) Observer(fsys vfs.FS) (run string, o natsbus.ConnOptions, err error) {
	return r.options(fsys, RoleObserver, func(id natsbus.Identity) (natsbus.Credential, error) { return id.Credential(RoleObserver) })
}

// worker is how a worker connects: with its own key where the run's file has one of its name,
// else as a new member of the run's pool.
func (r Remote) worker(fsys vfs.FS, name pipeline.WorkerID) (run string, o natsbus.ConnOptions, err error) {
	return r.options(fsys, string(name), func(id natsbus.Identity) (natsbus.Credential, error) {
		if own, err := id.Credential(string(name)); err == nil {
			return own, nil
		}
		return id.Join(roleWorker, string(name))
	})
}

// coordinator is how the coordinator connects to a server that is not its own.
func (r Remote) coordinator(fsys vfs.FS) (o natsbus.ConnOptions, err error) {
	_, o, err = r.options(fsys, roleCoordinator, func(natsbus.Identity) (natsbus.Credential, error) {
		return natsbus.Credential{}, errors.New("it is the key file of an embedded server: give credentials for the server at --nats")
	})
	return o, err
}
