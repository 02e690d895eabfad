package runner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// replying is a bus whose other side does what the test says, by try.
type replying struct {
	transport.Bus
	tries int
	reply func(ctx context.Context, try int) ([]byte, error)
}

func (r *replying) Request(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	r.tries++
	return r.reply(ctx, r.tries)
}

// A pull waits for a peer that is cut off for a while, and not long for one that has gone;
// errors that come at once do not use its tries up.
func TestAPullIsBoundedByTime(t *testing.T) {
	for _, c := range []struct {
		name           string
		reply          func(ctx context.Context, try int) ([]byte, error)
		shortest, most time.Duration
	}{
		{"nobody is there", func(context.Context, int) ([]byte, error) { return nil, transport.ErrNoResponders }, 2 * time.Second, 3 * time.Second},
		{"the connection is cut", func(context.Context, int) ([]byte, error) { return nil, transport.ErrDisconnected }, 13 * time.Second, 15 * time.Second},
		{"nobody answers", func(ctx context.Context, _ int) ([]byte, error) { <-ctx.Done(); return nil, transport.ErrTimeout }, 15 * time.Second, 25 * time.Second},
		{"a refusal", func(context.Context, int) ([]byte, error) { return wire.EncodeRefusal(errors.New("no")), nil }, 0, 0},
		{"the bus is closed", func(context.Context, int) ([]byte, error) { return nil, transport.ErrClosed }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := pullGrad(t.Context(), &replying{reply: c.reply}, "s", 1, 0, 1, 0, make([]float32, 2))
				if took := time.Since(began); err == nil || took < c.shortest || took > c.most {
					t.Errorf("it ended after %v with %v", took, err)
				}
			})
		})
	}
}

// What fails for a while is asked for again, and so is a payload of another length.
func TestAPullAsksAgain(t *testing.T) {
	want := []float32{1, -2.5}
	whole := wire.EncodeFloats(nil, want)
	for name, first := range map[string]func(try int) ([]byte, error){
		"no responders":  func(int) ([]byte, error) { return nil, transport.ErrNoResponders },
		"another length": func(int) ([]byte, error) { return wire.EncodeReply(make([]byte, 4)), nil },
		"damaged":        func(int) ([]byte, error) { return whole[:len(whole)-1], nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := &replying{reply: func(_ context.Context, try int) ([]byte, error) {
					if try <= 4 {
						return first(try)
					}
					return whole, nil
				}}
				got := make([]float32, 2)
				if err := pullGrad(t.Context(), bus, "s", 1, 0, 1, 0, got); err != nil || !slices.Equal(got, want) {
					t.Errorf("%v, %v after %d tries", got, err, bus.tries)
				}
			})
		})
	}
}

// A pull that is not wanted any more ends at once, also between two tries.
func TestAPullEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		bus := &replying{reply: func(context.Context, int) ([]byte, error) { return nil, transport.ErrNoResponders }}
		began := time.Now()
		err := pullGrad(ctx, bus, "s", 1, 0, 1, 0, make([]float32, 2))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 300*time.Millisecond {
			t.Errorf("it ended after %v with %v", took, err)
		}
	})
}
