// Package transport states what coordinator, workers and logs need of a message bus, as an
// interface: publish and subscribe by subject, request and reply, and errors that callers can tell
// apart. Sub-packages are the buses; a simulated one can stand in for them in tests.
//
// The bus delivers at most once. Publish returning nil does not mean that anybody received the
// message: it may be lost while a connection is cut, when a slow subscriber falls too far behind, or
// because nobody subscribed. Whatever matters is therefore confirmed end to end: ask with Request,
// and ask again when no answer comes. A request that is asked again may be handled twice, so
// requests must be idempotent.
//
// Subjects are tokens of [A-Za-z0-9_-] joined by dots. In a subscription "*" stands for one token and
// a final ">" for one or more.
package transport

import (
	"context"
	"errors"
	"slices"
)

// Errors of a bus, found with errors.Is. Implementations wrap them with the subject, the reason and
// what to do.
var (
	// ErrNoResponders means that no one subscribed to a request's subject, known at once and not after
	// a timeout: the peer is not there, or not yet.
	ErrNoResponders = errors.New("no responders")
	// ErrTimeout means that a request's context reached its deadline. The request may have been handled.
	ErrTimeout = errors.New("timeout")
	// ErrDisconnected means that the connection is cut and being made anew; nothing was sent. Try later.
	ErrDisconnected = errors.New("disconnected")
	// ErrClosed means that Close was called. The bus does not come back.
	ErrClosed = errors.New("bus is closed")
	// ErrTooLarge means that the data is longer than the server accepts; nothing was sent and the connection lives.
	ErrTooLarge = errors.New("message is too large")
	// ErrDenied means that the server's permissions forbid this process the subject.
	ErrDenied = errors.New("permission denied")
	// ErrNotARequest means that Respond was called on a message whose sender awaits no answer.
	ErrNotARequest = errors.New("message is not a request")
)

// Message is one received message. Data belongs to the handler, which may keep and change it. The
// sender is known by what its permissions allow it to publish, so only the subject tells who it is.
type Message struct {
	Subject string
	Data    []byte

	respond func([]byte) error
	parts   func(...[]byte) error // nil: they are joined
}

// NewMessage makes the message that a bus hands to a handler. respond sends an answer to the one who
// asked, or is nil when nobody did. data passes to the message.
func NewMessage(subject string, data []byte, respond func([]byte) error) Message {
	return Message{Subject: subject, Data: data, respond: respond}
}

// Respond answers a request. It has Publish's promises and errors; the answer may come to nothing
// when the asker gave up. Answer once and within a minute: a bus may refuse further or later answers.
// The handler may have returned before. The caller keeps data and may reuse it afterwards.
func (m Message) Respond(data []byte) error {
	if m.respond == nil {
		return ErrNotARequest
	}
	return m.respond(data)
}

// InParts returns the message with another way to answer it in parts, which need not be joined then.
func (m Message) InParts(respond func(parts ...[]byte) error) Message {
	m.parts = respond
	return m
}

// RespondInParts is Respond for an answer that lies in several places.
func (m Message) RespondInParts(parts ...[]byte) error {
	if m.parts == nil {
		return m.Respond(slices.Concat(parts...))
	}
	return m.parts(parts...)
}

// Bus is one connection of a process. All methods may be called concurrently, also from handlers
// (except Close).
//
// Messages that one Bus sends to one subscription arrive in the order in which they were sent, with
// gaps where some were lost. There is no order between two connections.
type Bus interface {
	// Publish hands data to the connection and returns; it blocks only while the operating system's
	// send buffer is full. What the server's permissions forbid is lost and logged. The caller keeps
	// data and may reuse it afterwards. Errors: ErrTooLarge, ErrDisconnected, ErrClosed.
	Publish(subject string, data []byte) error

	// Subscribe calls handler for every message on the subject, one at a time and in order; different
	// subscriptions run concurrently. It returns once the server knows the subscription, so a request
	// sent by anyone after that finds it; it is made anew after a reconnect. A handler must not block for
	// long: messages queue behind it. Errors: ErrDenied, ErrTimeout, ErrDisconnected, ErrClosed; after
	// an error there is no subscription.
	Subscribe(subject string, handler func(Message)) (Subscription, error)

	// Request publishes data and waits for the first answer, until ctx is done. Any number may be
	// outstanding. The answer belongs to the caller. Errors: ErrNoResponders, ErrTimeout (ctx's deadline,
	// also context.DeadlineExceeded), context.Canceled, ErrTooLarge, ErrDisconnected, ErrClosed. A cut
	// connection loses outstanding requests silently, so give ctx a deadline.
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)

	// Close sends what Publish accepted, if that is possible within a few seconds, ends all subscriptions
	// and outstanding requests, and returns when no handler runs any more. Not to be called from a
	// handler. Later calls return nil.
	Close() error
}

// Filler is a Bus that can put an answer where the asker wants it, without memory of its own between.
type Filler interface {
	Bus
	// RequestInto is Request for an answer whose beginning shall lie in head and the rest in body, which are the bus's
	// until it returns. An answer of just their length may be put there: then nil is returned. Every other one is
	// returned whole, and what lies in head and body then, or with an error, says nothing.
	RequestInto(ctx context.Context, subject string, data, head, body []byte) ([]byte, error)
}

// Subscription is a running subscription of a Bus.
type Subscription interface {
	// Unsubscribe ends the subscription; messages that wait for the handler are dropped. It does not
	// wait for a handler that runs. Later calls return nil.
	Unsubscribe() error
}
