package natsbus

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"andrea/pipeline/transport"
	"andrea/vfs"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// signed is a JWT as NATS has them: claims of the subject, signed by the issuer.
func signed(t testing.TB, issuer, subject nkeys.KeyPair, details string) string {
	t.Helper()
	by, err1 := issuer.PublicKey()
	of, err2 := subject.PublicKey()
	claims := fmt.Sprintf(`{"jti":"x","iat":1700000000,"iss":%q,"name":"a test","sub":%q,"nats":{%s,"version":2}}`, by, of, details)
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + encode([]byte(claims))
	signature, err3 := issuer.Sign([]byte(text))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(signature)
}

// A .creds file lets into a server that trusts an operator, with the permissions of its user JWT.
func TestACredsFileLetsIn(t *testing.T) {
	operator, err1 := nkeys.CreateOperator()
	account, err2 := nkeys.CreateAccount()
	user, err3 := nkeys.CreateUser()
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	trusted, err1 := operator.PublicKey()
	id, err2 := account.PublicKey()
	seed, err3 := user.Seed()
	resolver := &server.MemAccResolver{}
	err4 := resolver.Store(id, signed(t, operator, account, `"type":"account","limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}`))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, TrustedKeys: []string{trusted}, AccountResolver: resolver,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { stop(s) })
	if !s.ReadyForConnections(readyWait) {
		t.Fatal("the server does not start")
	}
	path := filepath.Join(t.TempDir(), "user.creds")
	text := fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
		signed(t, account, user, `"type":"user","pub":{"allow":["andrea.demo.>"]},"sub":{"allow":["andrea.demo.>","_IN.w.>"]},"subs":-1,"data":-1,"payload":-1`), seed)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ReadCredential(vfs.OS, path, "w")
	if err != nil {
		t.Fatal(err)
	}
	where := "nats://" + s.Addr().String()
	b := open(t, ConnOptions{URL: where, Credential: c})
	subscribe(t, b, "andrea.demo.x", func(m transport.Message) { _ = m.Respond(m.Data) })
	if _, err := b.Subscribe("andrea.other.x", func(transport.Message) {}); !errors.Is(err, transport.ErrDenied) {
		t.Errorf("a subject that its JWT does not name: %v", err)
	}
	c.Seed, err = newSeed()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Connect(patience(t), ConnOptions{URL: where, Credential: c}); err == nil {
		_ = b.Close()
		t.Error("another's JWT let in")
	}
}
