package natsbus

import (
	"context"
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
	// inboxRoot begins the subject of every answer. The customary _INBOX would let any client that may
	// receive answers read everybody's.
	inboxRoot = "_IN."
	// roundTrip bounds the wait for the server when subscribing and when closing.
	roundTrip = 5 * time.Second
)

// inboxPrefix is where a role receives answers. The library adds a token that is unique to the
// connection and one that is unique to the request: permissions to answer count per reply subject.
func inboxPrefix(role string) string { return inboxRoot + role }

// bus is a transport.Bus over one NATS connection.
type bus struct {
	nc     *nats.Conn
	bulk   bool
	log    *zap.Logger
	closed chan struct{} // closed by the library after its last callback
	places places        // of answers

	subscribing sync.Mutex     // one subscription at a time, see refused
	mu          sync.Mutex     // guards closing; held while a subscription starts
	closing     bool           // no subscription starts any more
	handlers    sync.WaitGroup // running subscriptions
}

// Publish implements transport.Bus.
func (b *bus) Publish(subject string, data []byte) error {
	if err := b.checkSize(data); err != nil {
		return fmt.Errorf("publish on %s: %w", subject, err)
	}
	if err := b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("publish on %s: %w", subject, b.translate(err))
	}
	return nil
}

// Request implements transport.Bus.
func (b *bus) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	err := b.checkSize(data)
	if err == nil && b.nc.IsReconnecting() {
		// Asked here because the library would remember a request that it could not send.
		err = transport.ErrDisconnected
	}
	if err != nil {
		return nil, fmt.Errorf("request on %s: %w", subject, err)
	}
	answer, err := b.nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return nil, fmt.Errorf("request on %s: %w", subject, b.translate(err))
	}
	return answer.Data, nil
}

// checkSize refuses data that the server would answer by closing the connection.
func (b *bus) checkSize(data []byte) error {
	if limit := b.nc.MaxPayload(); int64(len(data)) > limit {
		return tooLarge(len(data), limit)
	}
	return nil
}

// tooLarge says that a message has more bytes than the server takes.
func tooLarge(bytes int, limit int64) error {
	return fmt.Errorf("%w: %d bytes, the server takes %d", transport.ErrTooLarge, bytes, limit)
}

// Subscribe implements transport.Bus.
func (b *bus) Subscribe(subject string, handler func(transport.Message)) (transport.Subscription, error) {
	b.subscribing.Lock()
	defer b.subscribing.Unlock()
	sub, err := b.begin(subject, handler)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, b.translate(err))
	}
	if err = b.nc.FlushTimeout(roundTrip); err == nil {
		err = b.refused(subject)
	}
	if err != nil {
		err = fmt.Errorf("subscribe to %s: %w", subject, b.translate(err))
		return nil, errors.Join(err, sub.Unsubscribe())
	}
	return sub, nil
}

// begin starts a subscription and counts its handler as running until the library says that it ended.
func (b *bus) begin(subject string, handler func(transport.Message)) (*subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return nil, transport.ErrClosed
	}
	if b.nc.IsReconnecting() {
		return nil, transport.ErrDisconnected
	}
	sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) { handler(b.message(m)) })
	if err != nil {
		return nil, err
	}
	b.handlers.Add(1)
	var once sync.Once
	ended := func() { once.Do(b.handlers.Done) }
	sub.SetClosedHandler(func(string) { ended() })
	if !sub.IsValid() { // the connection broke for good, maybe before SetClosedHandler
		ended()
		return nil, transport.ErrClosed
	}
	if b.bulk {
		err = sub.SetPendingLimits(-1, -1)
	}
	return &subscription{nats: sub}, err
}

// refused returns the server's refusal of a subscription, after a round trip that followed it. The
// library keeps the last error of the connection only, hence one subscription at a time; should
// another refusal arrive between, this one is only logged.
func (b *bus) refused(subject string) error {
	err := b.nc.LastError()
	if err != nil && strings.Contains(err.Error(), `Subscription to "`+subject+`"`) {
		return err
	}
	return nil
}

// message wraps a received message. Answers go to inboxes only: a reply subject is chosen by the
// sender, who could otherwise have this process, with its permissions, send anything anywhere.
func (b *bus) message(m *nats.Msg) transport.Message {
	if !strings.HasPrefix(m.Reply, inboxRoot) {
		return transport.NewMessage(m.Subject, m.Data, nil)
	}
	reply := m.Reply
	message := transport.NewMessage(m.Subject, m.Data, func(data []byte) error { return b.Publish(reply, data) })
	if !b.bulk {
		return message
	}
	return message.InParts(func(parts ...[]byte) error { return b.publishParts(reply, parts) })
}

// Close implements transport.Bus.
func (b *bus) Close() error {
	b.mu.Lock()
	first := !b.closing
	b.closing = true
	b.mu.Unlock()
	var err error
	if first && b.nc.IsConnected() {
		if err = b.nc.FlushTimeout(roundTrip); err != nil {
			err = fmt.Errorf("close the connection to NATS: the last messages may be lost: %w", b.translate(err))
		}
	}
	b.nc.Close()
	b.handlers.Wait()
	<-b.closed
	return err
}

// subscription is a transport.Subscription.
type subscription struct{ nats *nats.Subscription }

// Unsubscribe implements transport.Subscription. What the library calls an error, a subscription or
// connection that has ended already, is what the caller wants.
func (s *subscription) Unsubscribe() error {
	err := s.nats.Unsubscribe()
	if errors.Is(err, nats.ErrBadSubscription) || errors.Is(err, nats.ErrConnectionClosed) {
		return nil
	}
	return err
}
