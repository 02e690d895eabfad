package transport

import (
	"errors"
	"testing"
)

func TestRespondReachesTheAskerOnly(t *testing.T) {
	var got []byte
	request := NewMessage("a.b", []byte("question"), func(data []byte) error { got = data; return ErrTooLarge })
	if err := request.Respond([]byte("answer")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Respond returned %v, want the bus's error", err)
	}
	if string(got) != "answer" {
		t.Errorf("the asker received %q", got)
	}
	event := NewMessage("a.b", nil, nil)
	if err := event.Respond([]byte("answer")); !errors.Is(err, ErrNotARequest) {
		t.Errorf("Respond to an event returned %v, want ErrNotARequest", err)
	}
}
