package natsbus

import (
	"context"
	"errors"
	"fmt"

	"andrea/pipeline/transport"

	"github.com/nats-io/nats.go"
)

// ErrRefused is wrapped by errors of Connect that another attempt would have too: server, credentials and options
// do not fit each other.
var ErrRefused = errors.New("refused")

// refusal is an error that wraps ErrRefused and does not say so.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == ErrRefused }

// Unwrap returns the error itself.
func (r refusal) Unwrap() error { return r.error }

// meanings of the library's errors in the words of package transport.
var meanings = []struct{ is, means error }{
	{nats.ErrNoResponders, transport.ErrNoResponders},
	{context.DeadlineExceeded, transport.ErrTimeout},
	{nats.ErrTimeout, transport.ErrTimeout},
	{nats.ErrMaxPayload, transport.ErrTooLarge},
	{nats.ErrPermissionViolation, transport.ErrDenied},
	{nats.ErrDisconnected, transport.ErrDisconnected},
	{nats.ErrReconnectBufExceeded, transport.ErrDisconnected},
	{nats.ErrConnectionReconnecting, transport.ErrDisconnected},
	{nats.ErrConnectionDraining, transport.ErrClosed},
	{nats.ErrBadSubscription, transport.ErrClosed},
}

// translate gives a library's error the meaning that transport promises and keeps its own words.
func (b *bus) translate(err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) {
		// The library says the same of calls that a cut connection broke off.
		if b.nc.IsClosed() {
			return transport.ErrClosed
		}
		return transport.ErrDisconnected
	}
	for _, m := range meanings {
		if errors.Is(err, m.is) {
			return fmt.Errorf("%w: %w", m.means, err)
		}
	}
	return err
}
