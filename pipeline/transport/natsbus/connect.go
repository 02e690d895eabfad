package natsbus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"andrea/pipeline/transport"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

const (
	dialWait       = 2 * time.Second        // one attempt to connect, also what a cancelled Connect may take
	firstRetry     = 50 * time.Millisecond  // wait after the first failed attempt, doubled up to lastRetry
	lastRetry      = 2 * time.Second        // also the wait between attempts to reconnect
	retryJitter    = 500 * time.Millisecond // spreads the workers that come back to a restarted server
	pingEvery      = 10 * time.Second       // with two pings missed a dead server is noticed in half a minute
	pingsMissed    = 2
	maxErrorsNamed = 100         // different asynchronous errors that one connection logs
	tellEvery      = time.Minute // between two log lines that there is no connection yet

	// minPayload is the largest message that a server must take, in bytes: the default of NATS, which
	// holds control messages and chunks.
	minPayload = 1 << 20
)

// ConnOptions say how to connect. Exactly one of Server and URL is given.
type ConnOptions struct {
	Server     *Server     // an embedded server of this process: no socket, one copy less
	URL        string      // nats://host:port or tls://host:port; several servers of a cluster joined by commas
	Credential Credential  // whom to be
	CA         []byte      // PEM of who vouches for a server at a tls:// URL; none: the system's authorities
	Pin        []byte      // PEM of the only certificate to accept there; none: any that an authority vouches for
	Plaintext  bool        // the network to a nats:// URL of another machine is trusted
	Name       string      // the process and its use of the connection, for logs: "worker-3 bulk"
	Bulk       bool        // for tensors: subscriptions queue without limit, their senders keep to windows
	Log        *zap.Logger // may be nil
}

// Connect connects and returns once the server has let this process in; while nobody listens at the
// address it tries again until ctx is done. The connection then lives until Close: when it is cut it is
// made anew for ever, with its subscriptions. Errors: a refused credential or wrong options at once, which
// wrap ErrRefused, also transport.ErrDenied where the server knows the user, and not as Credential.Role;
// else ctx's, with the last reason.
func Connect(ctx context.Context, o ConnOptions) (transport.Bus, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	b := &bus{bulk: o.Bulk, log: o.Log.With(zap.String("connection", o.Name)), closed: make(chan struct{})}
	where, options, err := b.options(o)
	if err != nil {
		return nil, refusal{fmt.Errorf("connect to NATS: %w", err)}
	}
	told := time.Now()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		if b.nc, err = nats.Connect(where, options...); err == nil {
			return b.judged(where, o.Credential.Role)
		}
		if errors.Is(err, nats.ErrAuthorization) {
			return nil, refusal{fmt.Errorf("connect to NATS: at %s as role %q: %w: check that the key is of this run's %s, "+
				"or that the server knows this user", where, o.Credential.Role, err, IdentityFile)}
		}
		if distrusted(err) {
			return nil, refusal{fmt.Errorf("connect to NATS: at %s: %w: check the address, and the certificate or its authority", where, err)}
		}
		if time.Since(told) >= tellEvery {
			told = time.Now()
			b.log.Info("no connection to NATS yet, trying on", zap.String("address", where), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to NATS: at %s: %w: last attempt: %w", where, ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// judged refuses a server that the pipeline's messages do not fit, or that does not let this role have
// answers: it would wait for each in vain.
func (b *bus) judged(where, role string) (transport.Bus, error) {
	if limit := b.nc.MaxPayload(); limit < minPayload {
		_ = b.Close() // nothing was sent
		return nil, refusal{fmt.Errorf("connect to NATS: at %s: its max_payload is %d bytes: set it to %d (the default of NATS) or more", where, limit, minPayload)}
	}
	answers, err := b.Subscribe(b.nc.NewInbox()+".*", func(transport.Message) {})
	switch {
	case errors.Is(err, transport.ErrDenied):
		_ = b.Close()
		return nil, refusal{fmt.Errorf("connect to NATS: at %s as role %q: %w: these credentials are of a user that may not have the answers to %q: "+
			"give those of its user, and a worker the --id that its user's permissions name", where, role, err, role)}
	case err == nil:
		_ = answers.Unsubscribe() // fails when the connection is cut, and the subscription with it
	}
	return b, nil // a connection that is cut meanwhile comes back
}

// distrusted reports that a server answered whom its certificate does not vouch for, or that
// speaks no TLS: to try again does not help.
func distrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var pinned notPinned
	return errors.As(err, &verification) || errors.As(err, &pinned) || errors.Is(err, nats.ErrSecureConnWanted)
}

// options checks o and puts it into the library's terms.
func (b *bus) options(o ConnOptions) (where string, options []nats.Option, err error) {
	if (o.Server == nil) == (o.URL == "") {
		return "", nil, errors.New("exactly one of an embedded server and a URL must be given")
	}
	where = o.URL
	if o.Server != nil {
		where = "nats://in-process"
	} else if options, err = wayTo(o); err != nil {
		return "", nil, err
	}
	options = append(options, b.way(o)...)
	if !validRole(o.Credential.Role) {
		return "", nil, fmt.Errorf("role %q is not of 1 to 64 characters [a-z0-9-]", o.Credential.Role)
	}
	whom, err := o.Credential.options()
	if err != nil {
		return "", nil, err
	}
	options = append(append(options, whom...),
		nats.Name(o.Name),
		nats.CustomInboxPrefix(inboxPrefix(o.Credential.Role)),
		nats.Timeout(dialWait),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(lastRetry),
		nats.ReconnectJitter(retryJitter, retryJitter),
		nats.ReconnectBufSize(-1),   // Publish fails while the connection is cut, instead of seeming to work
		nats.IgnoreAuthErrorAbort(), // else two refusals, as while keys are changed, would end it for good
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsMissed),
	)
	return where, append(options, b.callbacks()...), nil
}

// way says how the library gets its connections: those for tensors are streams.
func (b *bus) way(o ConnOptions) []nats.Option {
	switch {
	case o.Server != nil && o.Bulk:
		return []nats.Option{nats.InProcessServer(inProcess{o.Server.nats, &b.places})}
	case o.Server != nil:
		return []nats.Option{nats.InProcessServer(o.Server.nats)}
	case o.Bulk:
		return []nats.Option{nats.SetCustomDialer(dialer{&b.places})}
	}
	return nil
}

// CheckURL refuses what Connect would not connect to by URL: addresses that are none, and beyond
// loopback those without TLS, unless the network is trusted, and those without credentials. The
// error does not quote the URL, which may hold a password.
func (o ConnOptions) CheckURL() error {
	local, err := checkURLs(o.URL, o.Plaintext)
	if err == nil && !local && o.Credential.anonymous() {
		err = errors.New("no credentials are given, and the server is not on this machine: name them with --creds")
	}
	return err
}

// wayTo checks the URL and says how its server is verified.
func wayTo(o ConnOptions) ([]nats.Option, error) {
	if err := o.CheckURL(); err != nil {
		return nil, err
	}
	if !strings.Contains(o.URL, secured+"://") {
		return nil, nil
	}
	config, err := tlsConfig(o.CA, o.Pin)
	if err != nil {
		return nil, err
	}
	return []nats.Option{nats.Secure(config)}, nil
}

// callbacks log what happens to the connection. An error is logged once per text: a refused log line
// would otherwise make the next one.
func (b *bus) callbacks() []nats.Option {
	closed := sync.OnceFunc(func() { close(b.closed) })
	var mu sync.Mutex
	named := map[string]bool{}
	isNew := func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		if named[text] || len(named) == maxErrorsNamed {
			return false
		}
		named[text] = true
		return true
	}
	return []nats.Option{
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if sub != nil {
				err = fmt.Errorf("subscription to %s: %w", sub.Subject, err)
			}
			if isNew(err.Error()) {
				b.log.Warn("NATS connection", zap.Error(err))
			}
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil when closed on purpose
				b.log.Warn("connection to NATS is cut, connecting again", zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { b.log.Info("connection to NATS is back") }),
		nats.ClosedHandler(func(*nats.Conn) { closed() }),
	}
}
