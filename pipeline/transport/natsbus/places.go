package natsbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"andrea/pipeline/transport"

	"github.com/nats-io/nats.go"
)

// places are where answers of a connection shall lie, by the subject on which each is awaited.
type places struct {
	opening sync.Mutex // of the inbox; before mu
	mu      sync.Mutex // for a moment, and never while the library is called

	stream atomic.Pointer[stream] // the newest
	inbox  string                 // begins the subjects; empty: nothing was asked for yet
	open   map[string]*place

	interrupted net.Conn // whose reader drop has told to return, by a deadline
}

// place is where one answer shall lie.
type place struct {
	head, body []byte
	done       chan struct{} // closed when the answer is there
	from       net.Conn      // that writes there, without mu; nil: none
	left       *sync.Cond    // told when it does not any more

	answer []byte // one of another length, or that came another way; nil: head and body have it
	err    error
}

// filling is an answer that arrives: of whose place what was written, and what is still to come.
type filling struct {
	of      string
	written int
	left    int // with the end of the line behind it; 0: nothing arrives
}

// find is the place of an answer of size bytes; nothing is left to come of one that has none.
func (p *places) find(subject []byte, size int) filling {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.open[string(subject)]
	if at == nil || size != len(at.head)+len(at.body) {
		return filling{}
	}
	return filling{of: string(subject), left: size + len("\r\n")}
}

// write puts more of an answer into its place, if that is still wanted.
func (p *places) write(f *filling, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.left -= len(data)
	at := p.open[f.of]
	if at == nil {
		return
	}
	if f.written < len(at.head) {
		n := copy(at.head[f.written:], data)
		f.written, data = f.written+n, data[n:]
	}
	if f.written >= len(at.head) {
		f.written += copy(at.body[f.written-len(at.head):], data) // not the end of the line behind it
	}
	if f.left == 0 {
		p.finish(f.of, nil, nil)
	}
}

// finish ends the wait for an answer; with p.mu held.
func (p *places) finish(subject string, answer []byte, err error) {
	if at := p.open[subject]; at != nil {
		at.answer, at.err = answer, err
		delete(p.open, subject)
		close(at.done)
	}
}

// take takes an answer that went through the library: it is of another length, or says that nobody is there, or
// the connection is secured.
func (p *places) take(m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		p.finish(m.Subject, nil, nats.ErrNoResponders)
		return
	}
	p.finish(m.Subject, m.Data, nil)
}

// make opens a place for an answer and returns the subject to ask for it on, which nobody else can guess: who asks this
// process or another one for something chooses where the answer goes, and could have it put into any place.
func (p *places) make(head, body []byte) (string, *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	subject := p.inbox + "." + rand.Text()
	at := &place{head: head, body: body, done: make(chan struct{}), left: sync.NewCond(&p.mu)}
	p.open[subject] = at
	return subject, at
}

// drop gives up a place: when it returns nothing is written there any more, also if another answer than the one that
// arrives has ended the wait.
func (p *places) drop(subject string, at *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, subject)
	for at.from != nil {
		p.interrupted = at.from
		if at.from.SetReadDeadline(time.Unix(1, 0)) != nil {
			_ = at.from.Close() // no reader stays
		}
		at.left.Wait()
	}
}

// resume lets a connection be read again that drop has interrupted. The library's own deadline, while it connects, stays.
func (p *places) resume(conn net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clear(conn)
}

// clear is resume, with p.mu held.
func (p *places) clear(conn net.Conn) error {
	if p.interrupted != conn {
		return os.ErrDeadlineExceeded
	}
	p.interrupted = nil
	return conn.SetReadDeadline(time.Time{})
}

// receive reads more of an answer from a connection to where it shall lie; false: the next bytes
// are no such ones, or the connection cannot be read.
func (p *places) receive(conn net.Conn, f *filling) bool {
	p.mu.Lock()
	at := p.open[f.of]
	if f.left <= len("\r\n") || at == nil || f.written < len(at.head) {
		p.mu.Unlock()
		return false
	}
	at.from = conn
	p.mu.Unlock()
	n, err := conn.Read(at.body[f.written-len(at.head):])
	p.mu.Lock()
	defer p.mu.Unlock()
	at.from = nil
	at.left.Broadcast()
	f.written, f.left = f.written+n, f.left-n
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded) && p.clear(conn) == nil
}

// RequestInto implements transport.Filler.
func (b *bus) RequestInto(ctx context.Context, subject string, data, head, body []byte) ([]byte, error) {
	err := ctx.Err()
	switch {
	case err != nil:
	case b.nc.IsReconnecting():
		err = transport.ErrDisconnected
	default:
		if err = b.checkSize(data); err == nil {
			err = b.openInbox()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("request on %s: %w", subject, b.translate(err))
	}
	reply, at := b.places.make(head, body)
	defer b.places.drop(reply, at)
	if err = b.nc.PublishRequest(subject, reply, data); err == nil {
		select {
		case <-at.done:
			err = at.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-b.closed:
			err = transport.ErrClosed
		}
	}
	if err != nil {
		return nil, fmt.Errorf("request on %s: %w", subject, b.translate(err))
	}
	return at.answer, nil
}

// openInbox subscribes to the answers that get places, once.
func (b *bus) openInbox() error {
	p := &b.places
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.inbox != "" {
		return nil
	}
	inbox := b.nc.NewInbox()
	sub, err := b.nc.Subscribe(inbox+".*", p.take)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.inbox, p.open = inbox, map[string]*place{}
	p.mu.Unlock()
	return sub.SetPendingLimits(-1, -1)
}

// inProcess is the way to an embedded server, by streams.
type inProcess struct {
	server nats.InProcessConnProvider
	places *places
}

// InProcessConn implements nats.InProcessConnProvider.
func (i inProcess) InProcessConn() (net.Conn, error) {
	conn, err := i.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return i.places.wrap(conn), nil
}

// dialer is the way to a server elsewhere, by streams.
type dialer struct{ places *places }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, dialWait)
	if err != nil {
		return nil, err
	}
	return d.places.wrap(conn), nil
}
