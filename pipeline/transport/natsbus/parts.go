package natsbus

import (
	"fmt"
	"sync"

	"andrea/pipeline/transport"
)

// joined is memory for answers that go through the library, used again.
var joined = sync.Pool{New: func() any { return new([]byte) }}

// publishParts is Publish for data in parts. It may overtake what Publish has only just taken.
func (b *bus) publishParts(subject string, parts [][]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	// The stream is looked at first: one that is newer than the connection which is then found to be there cannot be.
	s := b.places.stream.Load()
	limit := b.nc.MaxPayload()
	switch connected := b.nc.IsConnected(); {
	case int64(size) > limit:
		return fmt.Errorf("publish on %s: %w", subject, tooLarge(size, limit))
	case connected && s != nil && s.plain:
		if err := s.publish(subject, parts); err != nil {
			return fmt.Errorf("publish on %s: %w: %w", subject, transport.ErrDisconnected, err)
		}
		return nil
	}
	room := joined.Get().(*[]byte)
	defer joined.Put(room)
	*room = (*room)[:0]
	for _, part := range parts {
		*room = append(*room, part...)
	}
	return b.Publish(subject, *room)
}
