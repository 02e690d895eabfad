package launch

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"andrea/pipeline/transport/natsbus"
	"andrea/telemetry"
	"andrea/vfs"
)

// discarded is a log that nobody reads.
func discarded(t *testing.T) *telemetry.Log {
	t.Helper()
	log, err := telemetry.New(telemetry.Options{Run: "demo", Process: "test", File: unsynced{io.Discard}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// What lets a process in is chosen by its role, and what cannot is refused before it connects.
func TestWhatLetsAProcessIn(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := MakeKeys(vfs.OS, dir, "demo", "tls://coordinator:4222", []byte("a certificate")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"user": "user: me\npassword: secret\n", "ca": "an authority", "junk": "junk"} {
		if err := vfs.WriteFileAtomic(vfs.OS, at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run, o, err := Remote{Creds: at("worker.json")}.worker(vfs.OS, "pod")
	if err != nil || run != "demo" || !strings.HasPrefix(o.Credential.Role, "pod-") || o.URL != "tls://coordinator:4222" || string(o.Pin) != "a certificate" {
		t.Errorf("a member of the pool: %s, %+v, %v", run, o, err)
	}
	run, o, err = Remote{Creds: at("worker.json"), URL: "tls://elsewhere:1", CA: at("ca")}.worker(vfs.OS, "pod")
	if err != nil || o.URL != "tls://elsewhere:1" || len(o.Pin) != 0 || string(o.CA) != "an authority" {
		t.Errorf("another address and an authority: %s, %+v, %v", run, o, err)
	}
	if _, o, err = (Remote{Creds: at("server.json")}).worker(vfs.OS, "observer"); err != nil || o.Credential.Role != "observer" || o.Credential.Proof != "" {
		t.Errorf("a key of its own: %+v, %v", o, err)
	}
	if run, o, err = (Remote{Creds: at("observer.json")}).Observer(vfs.OS); err != nil || run != "demo" || o.Credential.Role != RoleObserver {
		t.Errorf("an observer: %s, %+v, %v", run, o, err)
	}
	if run, o, err = (Remote{Creds: at("user"), URL: "tls://elsewhere:1"}).worker(vfs.OS, "pod-7"); err != nil || run != "" || o.Credential.Role != "pod-7" || o.Credential.User != "me" {
		t.Errorf("a user of somebody else's server: %s, %+v, %v", run, o, err)
	}
	if run, o, err = (Remote{URL: "nats://127.0.0.1:4222"}).worker(vfs.OS, "pod-7"); err != nil || run != "" || o.Credential.Role != "pod-7" {
		t.Errorf("this machine's server without users: %s, %+v, %v", run, o, err)
	}
	for name, c := range map[string]struct {
		remote Remote
		want   string
	}{
		"nothing":               {Remote{}, "--nats"},
		"no such file":          {Remote{Creds: at("none")}, "none"},
		"junk":                  {Remote{Creds: at("junk")}, "worker.json"},
		"another's key":         {Remote{Creds: at("observer.json")}, `no such role`},
		"no such authority":     {Remote{Creds: at("worker.json"), CA: at("none")}, "authority"},
		"no server":             {Remote{Creds: at("user")}, "no server is given"},
		"no TLS":                {Remote{Creds: at("user"), URL: "nats://elsewhere:1"}, "--plaintext-network"},
		"no credentials":        {Remote{URL: "tls://elsewhere:1"}, "no credentials"},
		"a password in the URL": {Remote{Creds: at("user"), URL: "nats://me:secret@127.0.0.1:1"}, "a user or a password"},
	} {
		_, _, err := c.remote.worker(vfs.OS, "pod")
		var key KeyError
		if !errors.As(err, &key) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := (Remote{Creds: at("server.json"), URL: "tls://elsewhere:1"}).coordinator(vfs.OS); err == nil || !strings.Contains(err.Error(), "embedded") {
		t.Errorf("a coordinator with the keys of an embedded server: %v", err)
	}
}

func TestKeysAreMadeOnceAndForValidNames(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ run, address, want string }{
		"no name":     {"", "", "name is"},
		"a bad name":  {"A", "", "name is"},
		"no address":  {"demo", "coordinator:4222", "nats://host:port"},
		"a password":  {"demo", "tls://me:secret@coordinator:4222", "a user or a password"},
		"some scheme": {"demo", "http://coordinator", "nats://host:port"},
	} {
		if err := MakeKeys(vfs.OS, filepath.Join(dir, "new"), c.run, c.address, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := vfs.OS.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("refused keys have made a folder")
	}
	if err := MakeKeys(vfs.OS, dir, "demo", "", nil); err != nil {
		t.Fatal(err)
	}
	before, err := natsbus.ReadIdentityFile(vfs.OS, filepath.Join(dir, observerKeyFile))
	if err != nil || len(before.Keys) != 1 {
		t.Errorf("the observer's file has %d keys, %v", len(before.Keys), err)
	}
	if err := MakeKeys(vfs.OS, dir, "demo", "", nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("keys were made twice: %v", err)
	}
}

// What the server could not be reached by is refused before anything is written.
func TestReachIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		env  Environment
		want string
	}{
		"the default":             {Environment{}, ""},
		"loopback":                {Environment{Listen: "127.0.0.1:4222"}, ""},
		"localhost":               {Environment{Listen: "localhost:0"}, ""},
		"everywhere without TLS":  {Environment{Listen: "0.0.0.0:4222"}, "no TLS"},
		"an address without TLS":  {Environment{Listen: "192.0.2.1:4222"}, "no TLS"},
		"no host":                 {Environment{Listen: ":4222"}, "IP address"},
		"a name":                  {Environment{Listen: "example.com:4222"}, "IP address"},
		"a certificate alone":     {Environment{TLSCert: "none"}, "--tls-key"},
		"two servers":             {Environment{Listen: "127.0.0.1:4222", NATS: Remote{URL: "nats://127.0.0.1:1"}}, "leave out"},
		"somebody's":              {Environment{NATS: Remote{URL: "nats://127.0.0.1:1"}}, ""},
		"somebody's without TLS":  {Environment{NATS: Remote{URL: "nats://192.0.2.1:1", Creds: "x"}}, "x"},
		"somebody's without user": {Environment{NATS: Remote{URL: "tls://192.0.2.1:1"}}, "no credentials"},
	} {
		c.env.FS = vfs.OS
		err := checkReach(c.env)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
