package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"andrea/pipeline/transport"
)

// A hub is in memory what a server is on a network. Its connections work in a bubble of
// synctest, whose time passes only while everybody waits: there no machine is too slow.
type hub struct {
	mu   sync.Mutex
	subs []*hubSubscription
}

// hubBus is a connection to a hub.
type hubBus struct {
	hub    *hub
	mu     sync.Mutex
	closed bool
	own    []*hubSubscription
}

// hubSubscription hands messages to its handler, one at a time.
type hubSubscription struct {
	hub     *hub
	pattern []string
	queue   chan transport.Message
	end     func() // idempotent
	gone    chan struct{}
}

// matches compares a subject with a pattern, in which * stands for a part and > for the rest.
func (s *hubSubscription) matches(subject string) bool {
	parts := strings.Split(subject, ".")
	for i, p := range s.pattern {
		if p == ">" {
			return i < len(parts)
		}
		if i >= len(parts) || p != "*" && p != parts[i] {
			return false
		}
	}
	return len(parts) == len(s.pattern)
}

// deliver hands a message to all who subscribed and reports that there are such.
func (h *hub) deliver(subject string, data []byte, respond func([]byte) error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := false
	for _, s := range h.subs {
		if !s.matches(subject) {
			continue
		}
		found = true
		select {
		case s.queue <- transport.NewMessage(subject, slices.Clone(data), respond):
		default: // a slow one loses messages
		}
	}
	return found
}

func (b *hubBus) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return transport.ErrClosed
	}
	return nil
}

func (b *hubBus) Publish(subject string, data []byte) error {
	if err := b.check(); err != nil {
		return err
	}
	b.hub.deliver(subject, data, nil)
	return nil
}

func (b *hubBus) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	answer := make(chan []byte, 1)
	respond := func(data []byte) error {
		select {
		case answer <- slices.Clone(data):
		default:
		}
		return nil
	}
	if !b.hub.deliver(subject, data, respond) {
		return nil, fmt.Errorf("asking on %s: %w", subject, transport.ErrNoResponders)
	}
	select {
	case data := <-answer:
		return data, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("asking on %s: %w: %w", subject, transport.ErrTimeout, ctx.Err())
	}
}

func (b *hubBus) Subscribe(subject string, handler func(transport.Message)) (transport.Subscription, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	s := &hubSubscription{
		hub: b.hub, pattern: strings.Split(subject, "."), queue: make(chan transport.Message, 1024),
		end: sync.OnceFunc(func() { close(ended) }), gone: make(chan struct{}),
	}
	go func() {
		defer close(s.gone)
		for {
			select {
			case m := <-s.queue:
				handler(m)
			case <-ended:
				return
			}
		}
	}()
	b.hub.mu.Lock()
	b.hub.subs = append(b.hub.subs, s)
	b.hub.mu.Unlock()
	b.mu.Lock()
	b.own = append(b.own, s)
	b.mu.Unlock()
	return s, nil
}

func (s *hubSubscription) Unsubscribe() error {
	s.hub.mu.Lock()
	s.hub.subs = slices.DeleteFunc(s.hub.subs, func(o *hubSubscription) bool { return o == s })
	s.hub.mu.Unlock()
	s.end()
	return nil
}

func (b *hubBus) Close() error {
	b.mu.Lock()
	own := b.own
	b.own, b.closed = nil, true
	b.mu.Unlock()
	for _, s := range own {
		if err := s.Unsubscribe(); err != nil {
			return err
		}
		<-s.gone
	}
	return nil
}
