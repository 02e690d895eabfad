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
				err := (&puller{bus: &replying{reply: c.reply}}).pullGrad(t.Context(), "s", 1, 0, 1, 0, make([]float32, 2))
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
				if err := (&puller{bus: bus}).pullGrad(t.Context(), "s", 1, 0, 1, 0, got); err != nil || !slices.Equal(got, want) {
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
		err := (&puller{bus: bus}).pullGrad(ctx, "s", 1, 0, 1, 0, make([]float32, 2))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 300*time.Millisecond {
			t.Errorf("it ended after %v with %v", took, err)
		}
	})
}

// A request that is lost where the other side is cut off for a moment is asked again soon.
func TestALostRequestIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := wire.EncodeFloats(nil, []float32{1, 2})
		bus := &replying{reply: func(ctx context.Context, try int) ([]byte, error) {
			if try == 1 {
				<-ctx.Done()
				return nil, transport.ErrTimeout
			}
			return whole, nil
		}}
		began := time.Now()
		err := (&puller{bus: bus}).pullGrad(t.Context(), "s", 1, 0, 1, 0, make([]float32, 2))
		if took := time.Since(began); err != nil || took > 3*time.Second {
			t.Errorf("it took %v: %v", took, err)
		}
	})
}

// Over a slow link answers are waited for as long as they take: hardly anything is asked for twice, and
// when the link is fast again a lost request is asked again soon, too.
func TestASlowLinkIsNotAskedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, slow, lost := wire.EncodeFloats(nil, []float32{1, 2}), 4*time.Second, false
		bus := &replying{reply: func(ctx context.Context, _ int) ([]byte, error) {
			answer := time.After(slow)
			if lost {
				lost, answer = false, nil
			}
			select {
			case <-answer:
				return whole, nil
			case <-ctx.Done():
				return nil, transport.ErrTimeout
			}
		}}
		p, dst := &puller{bus: bus}, make([]float32, 2)
		pull := func(what string) {
			t.Helper()
			if err := p.pullGrad(t.Context(), "s", 1, 0, 1, 0, dst); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		for range 50 {
			pull("a slow link")
		}
		if bus.tries > 51 {
			t.Errorf("%d requests for 50 chunks", bus.tries)
		}
		slow = time.Millisecond
		for range 20 {
			pull("a fast link")
		}
		lost = true
		began := time.Now()
		pull("a lost request")
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a lost request took %v", took)
		}
	})
}
