package natsbus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"andrea/pipeline/transport"
	"andrea/vfs"

	"github.com/nats-io/nats-server/v2/server"
)

// authority is a throw-away certificate authority and the certificate of a server at 127.0.0.1.
type authority struct {
	pem  []byte // of the authority
	pair tls.Certificate
	cert string // file
	key  string // file
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	ca, caKey := certificate(t, "an authority", nil, nil)
	leaf, key := certificate(t, "a server", ca, caKey)
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	a := authority{pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})
	secret := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
	if a.pair, err = tls.X509KeyPair(cert, secret); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(a.cert, cert, 0o600), os.WriteFile(a.key, secret, 0o600)); err != nil {
		t.Fatal(err)
	}
	return a
}

// certificate makes one that the parent signs, or itself without a parent.
func certificate(t testing.TB, name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// foreign is a NATS server with the documented configuration, as somebody else runs it.
type foreign struct {
	authority
	options *server.Options
	server  *server.Server
}

func newForeign(t testing.TB) *foreign {
	t.Helper()
	f := &foreign{authority: newAuthority(t)}
	for name, value := range map[string]string{
		"TLS_CERT": f.cert, "TLS_KEY": f.key, "COORDINATOR_PASSWORD": "c-secret", "WORKER_1_PASSWORD": "w1-secret", "WORKERS_PASSWORD": "w-secret", "OBSERVER_PASSWORD": "o-secret",
	} {
		t.(*testing.T).Setenv("ANDREA_"+name, value)
	}
	var err error
	if f.options, err = server.ProcessConfigFile("../../../docs/nats/server.conf"); err != nil {
		t.Fatal(err)
	}
	f.options.Host, f.options.Port, f.options.NoSigs, f.options.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	f.start(t)
	t.Cleanup(func() { stop(f.server) })
	return f
}

func (f *foreign) start(t testing.TB) {
	t.Helper()
	var err error
	if f.server, err = server.NewServer(f.options.Clone()); err != nil {
		t.Fatal(err)
	}
	f.server.Start()
	if !f.server.ReadyForConnections(readyWait) {
		t.Fatal("the foreign server does not start")
	}
	f.options.Port = formerPort("tls://" + f.server.Addr().String())
}

// as are the options of a user with an identity.
func (f *foreign) as(t testing.TB, user, password, role string) ConnOptions {
	t.Helper()
	path := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(path, []byte("user: "+user+"\npassword: "+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ReadCredential(vfs.OS, path, role)
	if err != nil {
		t.Fatal(err)
	}
	return ConnOptions{URL: "tls://" + f.server.Addr().String(), Credential: c, CA: f.pem, Bulk: true}
}

func open(t testing.TB, o ConnOptions) transport.Bus {
	t.Helper()
	b, err := Connect(patience(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// The documented configuration lets each do what the pipeline needs, and keeps workers with users
// of their own apart.
func TestTheDocumentedServerConfiguration(t *testing.T) {
	f := newForeign(t)
	coordinator := open(t, f.as(t, "coordinator", "c-secret", "coordinator"))
	one := open(t, f.as(t, "worker-1", "w1-secret", "worker-1"))
	pooled := open(t, f.as(t, "workers", "w-secret", "pod-7"))
	observer := open(t, f.as(t, "observer", "o-secret", "observer"))
	echo := func(m transport.Message) { _ = m.Respond([]byte(m.Subject)) }
	subscribe(t, coordinator, "andrea.demo.c.>", echo)
	subscribe(t, coordinator, "andrea.runs", echo)
	subscribe(t, one, "andrea.demo.w.worker-1.>", echo)
	subscribe(t, one, "andrea.demo.p.*.worker-1.>", echo)
	subscribe(t, pooled, "andrea.demo.w.pod-7.>", echo)
	subscribe(t, observer, "andrea.demo.log.>", func(transport.Message) {})
	for _, c := range []struct {
		from    transport.Bus
		subject string
	}{
		{one, "andrea.runs"}, {one, "andrea.demo.c.status"}, {one, "andrea.demo.c.3.worker-1.tokens"}, {one, "andrea.demo.c.hello.worker-1"},
		{coordinator, "andrea.demo.w.worker-1.grad"}, {coordinator, "andrea.demo.w.pod-7.state"}, {pooled, "andrea.demo.c.3.pod-7.root"},
		{pooled, "andrea.demo.p.pod-7.worker-1.state"}, {observer, "andrea.runs"}, {observer, "andrea.demo.c.history"}, {observer, "andrea.demo.c.status"},
	} {
		for range 3 { // also the second answer of a connection is let through
			if got, err := c.from.Request(patience(t), c.subject, make([]byte, 600<<10)); err != nil || string(got) != c.subject {
				t.Errorf("%s: %q, %v", c.subject, got, err)
			}
		}
	}
	for _, c := range []struct {
		who     transport.Bus
		subject string
	}{
		{one, ">"}, {one, "andrea.demo.w.pod-7.>"}, {one, "andrea.demo.w.*.control"}, {one, "_IN.pod-7.>"}, {one, "_IN.coordinator.>"}, {one, "andrea.demo.log.>"},
		{one, "$JS.API.>"}, {pooled, "andrea.demo.c.>"}, {observer, "andrea.demo.c.>"}, {observer, "_IN.worker-1.>"}, {coordinator, "_IN.worker-1.>"},
	} {
		if _, err := c.who.Subscribe(c.subject, func(transport.Message) {}); !errors.Is(err, transport.ErrDenied) {
			t.Errorf("%s may be subscribed to: %v", c.subject, err)
		}
	}
	seen := make(chan string, 10)
	subscribe(t, coordinator, "andrea.other.>", func(m transport.Message) { seen <- m.Subject })
	for _, subject := range []string{"andrea.other.c.3.pod-7.control", "andrea.other.w.pod-7.control", "andrea.other.p.pod-7.worker-1.state", "andrea.other.c.hello.pod-7"} {
		publish(t, one, subject, nil)
	}
	publish(t, one, "andrea.other.c.hello.worker-1", nil)
	if got := wait(t, seen); got != "andrea.other.c.hello.worker-1" {
		t.Errorf("worker-1 posed as another on %s", got)
	}
}

// Credentials that the server does not know, or knows as another's, are refused at once.
func TestCredentialsOfAnother(t *testing.T) {
	f := newForeign(t)
	for _, c := range []struct {
		user, password, role string
		denied               bool
	}{
		{"worker-1", "wrong", "worker-1", false},
		{"worker-1", "w1-secret", "worker-2", true},
		{"worker-1", "w1-secret", "coordinator", true},
		{"observer", "o-secret", "worker-1", true},
	} {
		_, err := Connect(patience(t), f.as(t, c.user, c.password, c.role))
		if !errors.Is(err, ErrRefused) || errors.Is(err, transport.ErrDenied) != c.denied || !strings.Contains(err.Error(), `"`+c.role+`"`) {
			t.Errorf("%s as %s: %v", c.user, c.role, err)
		}
	}
}

// A server that is started again in the middle is found again, with its subscriptions.
func TestAForeignServerIsStartedAgain(t *testing.T) {
	f := newForeign(t)
	back := make(chan bool, 2)
	o := f.as(t, "worker-1", "w1-secret", "worker-1")
	o.Log = logOf(func(message string) {
		if strings.Contains(message, "is back") {
			back <- true
		}
	})
	worker := open(t, o)
	subscribe(t, worker, "andrea.demo.w.worker-1.>", func(m transport.Message) { _ = m.Respond(m.Data) })
	stop(f.server)
	f.start(t)
	wait(t, back)
	coordinator := open(t, f.as(t, "coordinator", "c-secret", "coordinator"))
	if got, err := coordinator.Request(patience(t), "andrea.demo.w.worker-1.grad", []byte("x")); err != nil || string(got) != "x" {
		t.Errorf("after the restart: %q, %v", got, err)
	}
}

// Whom a server must prove to be, and what a client must show, before anything is said.
func TestForeignServersAreDistrusted(t *testing.T) {
	f := newForeign(t)
	good := f.as(t, "worker-1", "w1-secret", "worker-1")
	other := newAuthority(t)
	pin := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.pair.Certificate[0]})
	open(t, ConnOptions{URL: good.URL, Credential: good.Credential, Pin: pin})
	for name, c := range map[string]struct {
		change func(*ConnOptions)
		want   string
	}{
		"no authority":         {func(o *ConnOptions) { o.CA = nil }, "certificate"},
		"another's authority":  {func(o *ConnOptions) { o.CA = other.pem }, "certificate"},
		"another's pin":        {func(o *ConnOptions) { o.Pin = other.pem }, "another certificate"},
		"an authority of junk": {func(o *ConnOptions) { o.CA = []byte("junk") }, "PEM"},
		"a pin of junk":        {func(o *ConnOptions) { o.Pin = []byte("junk") }, "PEM"},
		"another name":         {func(o *ConnOptions) { o.URL = strings.Replace(o.URL, "127.0.0.1", "localhost", 1) }, "certificate"},
		"a wrong password":     {func(o *ConnOptions) { o.Credential.Password = "guess" }, "Authorization"},
		"no credentials":       {func(o *ConnOptions) { o.Credential = Credential{Role: "x"} }, "Authorization"},
		"plaintext elsewhere":  {func(o *ConnOptions) { o.URL = "nats://192.0.2.1:4222" }, "--plaintext-network"},
		"one of several":       {func(o *ConnOptions) { o.URL += ",nats://192.0.2.1:4222" }, "--plaintext-network"},
		"nobody elsewhere":     {func(o *ConnOptions) { o.URL, o.Credential = "tls://192.0.2.1:4222", Credential{Role: "x"} }, "no credentials"},
		"a password in it":     {func(o *ConnOptions) { o.URL = "tls://me:w1-secret@127.0.0.1:4222" }, "a user or a password"},
		"no TLS there": {func(o *ConnOptions) {
			o.URL = strings.Replace(startServer(t, options(t.TempDir())).URL(), "nats://", "tls://", 1)
		}, "secure"},
	} {
		o := good
		c.change(&o)
		b, err := Connect(patience(t), o)
		if err == nil {
			_ = b.Close()
			t.Errorf("%s: connected", name)
		} else if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "w1-secret") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := (ConnOptions{URL: "nats://192.0.2.1:4222", Credential: good.Credential, Plaintext: true}).CheckURL(); err != nil {
		t.Errorf("a trusted network: %v", err)
	}
}

func TestAServerOfSmallMessagesIsRefused(t *testing.T) {
	f := newForeign(t)
	f.options.MaxPayload, f.options.Port = 64<<10, server.RANDOM_PORT
	stop(f.server)
	f.start(t)
	if _, err := Connect(patience(t), f.as(t, "worker-1", "w1-secret", "worker-1")); err == nil || !strings.Contains(err.Error(), "max_payload is 65536") {
		t.Errorf("connected: %v", err)
	}
}

// The embedded server, when it has a certificate, listens anywhere, and its key file names the
// certificate.
func TestAnEmbeddedServerWithTLS(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	given, err := NewIdentity("demo", "worker")
	if err != nil {
		t.Fatal(err)
	}
	o := pooled(dir)
	o.Host, o.Certificate, o.Keys = "0.0.0.0", &a.pair, given.Keys
	s := startServer(t, o)
	if !strings.HasPrefix(s.URL(), "tls://127.0.0.1:") {
		t.Errorf("the server is at %s", s.URL())
	}
	coordinator := connect(t, s, "coordinator", false)
	subscribe(t, coordinator, "andrea.demo.c.>", func(m transport.Message) { _ = m.Respond(m.Data) })
	member, err := given.Join("worker", "pod")
	if err != nil {
		t.Fatal(err)
	}
	id, err := ReadIdentity(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ConnOptions{"pinned": {Pin: []byte(id.Certificate)}, "vouched for": {CA: a.pem}} {
		o.URL, o.Credential = id.Address, member
		if got, err := open(t, o).Request(patience(t), fmt.Sprintf("andrea.demo.c.1.%s.tokens", member.Role), []byte(name)); err != nil || string(got) != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if b, err := Connect(patience(t), ConnOptions{URL: strings.Replace(s.URL(), "tls://", "nats://", 1), Credential: member}); err == nil {
		_ = b.Close()
		t.Error("connected without verifying the server")
	}
}

func TestCredentialFiles(t *testing.T) {
	seed, err := newSeed()
	if err != nil {
		t.Fatal(err)
	}
	creds := "-----BEGIN NATS USER JWT-----\nabc.def.ghi\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------\n"
	for text, want := range map[string]Credential{
		seed + "\n":                    {Seed: seed},
		creds:                          {Seed: seed, JWT: "abc.def.ghi"},
		"user: me\npassword: a b:c \n": {User: "me", Password: "a b:c"},
		"":                             {},
		"{}":                           {},
		"user: me":                     {},
		"user: me\nsecret":             {},
		"user:\npassword: x":           {},
		"UAAA":                         {},
		strings.Replace(creds, seed, "S"+seed, 1): {},
	} {
		got, err := parseCredential([]byte(text))
		if got != want || (err == nil) != (want != Credential{}) {
			t.Errorf("%.20q gives another credential, or %v", text, err)
		}
		if err != nil && (strings.Contains(err.Error(), seed) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%.20q: the error shows a secret: %v", text, err)
		}
	}
}
