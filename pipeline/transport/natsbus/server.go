package natsbus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"andrea/vfs"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

const (
	// maxPayload is the largest message in bytes. The pipeline's chunks are at most 1 MiB, so that a stock
	// external server (1 MiB with headers) carries them but for a few KiB; twice that leaves room for the
	// message around a whole chunk and for the tokens of a large lease, and bounds what one message of a
	// hostile peer makes the server allocate.
	maxPayload = 2 << 20
	// maxPending is how many bytes may wait for one connection before the server cuts it off. Windows keep
	// it below 16 MiB; this is the second line, for a burst that the default of 64 MiB would turn into a
	// lost worker.
	maxPending = 256 << 20
	// authSeconds is how long a client may take to prove its key. The default of 2 s cuts off honest
	// clients of a machine whose cores all compute.
	authSeconds = 10
	// readyWait bounds the time from start to accepting connections.
	readyWait = 10 * time.Second
	// answerWait is how long after a request its receiver may answer; see transport.Message.Respond.
	answerWait = time.Minute
)

// Role is a kind of process (or one process) with a key of its own and the subjects it may use.
// Besides the patterns it may subscribe to its own inbox, `_IN.<name>.>`, and answer requests, once
// each and within a minute. Processes of one role can overhear each other; those that must not get
// roles of their own.
type Role struct {
	Name      string   // 1 to 64 of [a-z0-9-]
	Publish   []string // patterns of subjects it may publish; none means none
	Subscribe []string // patterns of subjects it may subscribe to, besides its inbox
}

// ServerOptions say how to start the embedded server of one run.
type ServerOptions struct {
	Run    string      // the run's name, recorded in the identity file
	RunDir string      // an existing folder; its owner has made sure that no other process uses it
	FS     vfs.FS      // where RunDir lies
	Host   string      // an IP, beyond loopback only with Certificate, or "localhost"; empty means 127.0.0.1
	Port   int         // 0: the port of the server's last life when it is free, else a random one
	Roles  []Role      // at least one
	Pool   *Pool       // may be nil
	Log    *zap.Logger // may be nil

	// Certificate, with its key, makes the server speak TLS and nothing else, except inside its process.
	Certificate *tls.Certificate
	// Keys are seeds for roles that were made before, by role; the others' are made at the first start.
	Keys map[string]string
}

// Server is the embedded NATS server of one run. It listens on loopback only, unless it has a
// certificate, lets in only the keys of its identity file and who they admit, keeps no messages
// (JetStream is off), and opens no monitoring port.
type Server struct {
	nats     *server.Server
	identity Identity
}

// StartServer starts the embedded server and then writes its identity file, with the keys of its
// last life if there was one. On an error nothing runs and no file has changed, except that an error
// of writing the file itself may leave it in its new state.
func StartServer(o ServerOptions) (*Server, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	host, err := checkServer(o)
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	id, err := loadIdentity(o.FS, o.RunDir, o.Run, o.Keys, o.keyNames())
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	gate, err := newGate(o.Roles, o.Pool, id)
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	s, err := listen(host, o.Port, formerPort(id.Address), settings(gate, o.Certificate), o.Log)
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	id.Address, id.Certificate = addressOf(s, o.Certificate != nil), string(certificatePEM(o.Certificate))
	if err := id.Write(o.FS, filepath.Join(o.RunDir, IdentityFile)); err != nil {
		stop(s)
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	o.Log.Info("embedded NATS server is ready", zap.String("address", id.Address))
	return &Server{nats: s, identity: id}, nil
}

// keyNames are the names of all keys that the server needs.
func (o ServerOptions) keyNames() []string {
	var names []string
	for _, role := range o.Roles {
		names = append(names, role.Name)
	}
	if o.Pool != nil {
		names = append(names, o.Pool.Name)
	}
	return names
}

// addressOf is the URL of a server for processes of this machine.
func addressOf(s *server.Server, tls bool) string {
	scheme, at := "nats", s.Addr().String()
	if tls {
		scheme = secured
	}
	if host, port, err := net.SplitHostPort(at); err == nil && net.ParseIP(host).IsUnspecified() {
		at = net.JoinHostPort("127.0.0.1", port)
	}
	return scheme + "://" + at
}

// URL is the address at which the server listens, nats://host:port or tls://host:port. Of one that listens
// everywhere it is the loopback address.
func (s *Server) URL() string { return s.identity.Address }

// Identity is what the server's identity file holds.
func (s *Server) Identity() Identity { return s.identity }

// Credential returns the credential of a role that the server lets in.
func (s *Server) Credential(role string) (Credential, error) { return s.identity.Credential(role) }

// Shutdown cuts all connections, stops the server and returns when nothing of it runs any more. Close
// the buses first: what they have not yet flushed is lost.
func (s *Server) Shutdown() { stop(s.nats) }

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// checkServer refuses wrong options, all faults at once, and returns the IP to listen on.
func checkServer(o ServerOptions) (string, error) {
	var faults []error
	host := o.Host
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	switch ip := net.ParseIP(host); {
	case ip == nil:
		faults = append(faults, fmt.Errorf("listen on %q: it is no IP address: use 127.0.0.1, or 0.0.0.0 and TLS for all", o.Host))
	case !ip.IsLoopback() && o.Certificate == nil:
		faults = append(faults, fmt.Errorf("listen on %q: not a loopback address, and there is no TLS: "+
			"give a certificate and its key (--tls-cert, --tls-key), use 127.0.0.1, or an external NATS server", o.Host))
	}
	if o.Port < 0 || o.Port > 65535 {
		faults = append(faults, fmt.Errorf("port %d is not in 0 to 65535", o.Port))
	}
	if o.Run == "" {
		faults = append(faults, errors.New("the run has no name"))
	}
	if len(o.Roles) == 0 {
		faults = append(faults, errors.New("no roles: nobody could connect"))
	}
	roles := o.Roles
	if o.Pool != nil {
		roles = append(roles[:len(roles):len(roles)], Role{Name: o.Pool.Name})
	}
	return host, errors.Join(append(faults, checkRoles(roles)...)...)
}

func checkRoles(roles []Role) (faults []error) {
	seen := map[string]bool{}
	for _, role := range roles {
		if !validRole(role.Name) {
			faults = append(faults, fmt.Errorf("role %q is not of 1 to 64 characters [a-z0-9-]", role.Name))
		}
		if seen[role.Name] {
			faults = append(faults, fmt.Errorf("role %q is given twice", role.Name))
		}
		seen[role.Name] = true
		for _, patterns := range [][]string{role.Publish, role.Subscribe} {
			for _, pattern := range patterns {
				if !server.IsValidSubject(pattern) {
					faults = append(faults, fmt.Errorf("role %q: %q is not a subject pattern", role.Name, pattern))
				}
			}
		}
	}
	return faults
}

// formerPort is the port in a former address, 0 when there is none.
func formerPort(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

// listen starts a server on the port asked for; without one on the former port, and when that is taken
// on a random one.
func listen(host string, port, former int, o server.Options, log *zap.Logger) (*server.Server, error) {
	if port != 0 {
		return start(host, port, o, log)
	}
	if former != 0 {
		s, err := start(host, former, o, log)
		if err == nil {
			return s, nil
		}
		log.Info("the server's former port is taken, listening on another", zap.Int("port", former))
	}
	return start(host, server.RANDOM_PORT, o, log)
}

// settings are a server's options but for its address.
func settings(g *gate, certificate *tls.Certificate) server.Options {
	o := server.Options{
		CustomClientAuthentication: g,
		AlwaysEnableNonce:          true, // the gate has clients sign it
		MaxPayload:                 maxPayload,
		MaxPending:                 maxPending,
		AuthTimeout:                authSeconds,
		WriteDeadline:              10 * time.Second,
		NoSigs:                     true, // signals belong to the program, which must write a checkpoint first
	}
	if certificate != nil {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS13}
		o.TLSTimeout = authSeconds
	}
	return o
}

// start runs one server; it fails when the server cannot listen.
func start(host string, port int, o server.Options, log *zap.Logger) (*server.Server, error) {
	o.Host, o.Port = host, port
	s, err := server.NewServer(&o)
	if err != nil {
		return nil, err
	}
	logger := &serverLog{log: log.Sugar(), fatal: make(chan string, 1)}
	s.SetLoggerV2(logger, false, false, false)
	s.Start()
	if s.Addr() != nil && s.ReadyForConnections(readyWait) {
		return s, nil
	}
	stop(s)
	select {
	case why := <-logger.fatal:
		return nil, errors.New(why)
	default:
		return nil, fmt.Errorf("not ready for connections after %v", readyWait)
	}
}
