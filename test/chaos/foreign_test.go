package chaos

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// foreignServer is a NATS server with the documented configuration that no process of a run
// owns. It speaks no TLS, so that the proxies can read along.
type foreignServer struct {
	t    testing.TB
	dir  string
	port int

	mu       sync.Mutex
	nats     *server.Server
	restarts sync.WaitGroup
}

// users are those of the documented configuration, each with its variable's middle part.
var users = map[string]string{"coordinator": "COORDINATOR", "worker-1": "WORKER_1", "workers": "WORKERS", "observer": "OBSERVER"}

func newForeignServer(t testing.TB) *foreignServer {
	t.Helper()
	f := &foreignServer{t: t, dir: t.TempDir(), port: server.RANDOM_PORT}
	for user := range users {
		if err := os.WriteFile(f.creds(user), []byte("user: "+user+"\npassword: secret-of-"+user+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	t.Cleanup(f.restarts.Wait)
	return f
}

// creds is the file with a user's credentials.
func (f *foreignServer) creds(user string) string { return filepath.Join(f.dir, user+".txt") }

// start starts the server, at the address of its former life.
func (f *foreignServer) start() error {
	o, err := server.ProcessConfigFile("../../docs/nats/server.conf")
	if err != nil {
		return err
	}
	o.Host, o.Port, o.NoSigs, o.NoLog, o.TLS, o.TLSConfig = "127.0.0.1", f.port, true, true, false, nil
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the NATS server does not start")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nats, f.port = s, s.Addr().(*net.TCPAddr).Port
	return nil
}

func (f *foreignServer) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nats.Shutdown()
	f.nats.WaitForShutdown()
}

// restart stops the server and starts it again. It returns at once: who waits for it must not hold
// messages back.
func (f *foreignServer) restart() {
	f.restarts.Go(func() {
		f.stop()
		if err := f.start(); err != nil {
			f.t.Error(err)
		}
	})
}

// address is where the server listens.
func (f *foreignServer) address() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("127.0.0.1:%d", f.port), nil
}
