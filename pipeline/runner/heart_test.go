package runner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"andrea/enginetest"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// lonely is a bus whose coordinator welcomes the worker once and then answers as the test
// says.
type lonely struct {
	transport.Bus
	mu      sync.Mutex
	command func(transport.Message)
	answer  func(ctx context.Context, beat int) error // of a sign of life
	beats   int
	again   func(wire.Control) // takes every hello after the first
}

type nothing struct{}

func (nothing) Unsubscribe() error { return nil }

func (l *lonely) Subscribe(subject string, handler func(transport.Message)) (transport.Subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if subject == wire.ToWorker("story", "w") {
		l.command = handler
	}
	return nothing{}, nil
}

// Publish welcomes the worker that says the first hello.
func (l *lonely) Publish(subject string, data []byte) error {
	if subject != wire.Hello("story", "w") {
		return nil
	}
	l.mu.Lock()
	welcome := l.command
	l.command = nil
	l.mu.Unlock()
	c, err := wire.DecodeControl(data)
	if welcome == nil && err == nil {
		l.again(c)
		return nil
	}
	if err == nil {
		data, err = wire.EncodeControl(wire.Control{Generation: 3, Ticket: 1, Worker: "w", Incarnation: "1", Message: pipeline.Welcome{Job: lonelyJob}})
	}
	if err == nil {
		welcome(transport.NewMessage(wire.ToWorker("story", "w"), data, nil))
	}
	return err
}

func (l *lonely) Request(ctx context.Context, subject string, _ []byte) ([]byte, error) {
	if subject != wire.ToCoordinator("story", 3, "w") {
		return nil, errors.New("asked on " + subject)
	}
	l.mu.Lock()
	l.beats++
	beat := l.beats
	l.mu.Unlock()
	return nil, l.answer(ctx, beat)
}

const lonelyJob = `
name: story
model: {d_model: 8, n_head: 2, n_layer: 1, context: 4, vocab: 11}
data: {fingerprint: f}
batch: {tokens_per_step: 8, microbatch: 1, lanes: 2}
`

// work runs a worker of the bus until it says hello for the second time, for at most an hour
// of the bubble's time.
func (l *lonely) work(t *testing.T) (took time.Duration, hello *wire.Control, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	began := time.Now()
	l.again = func(c wire.Control) {
		took, hello = time.Since(began), &c
		cancel()
	}
	err = Work(ctx, WorkerOptions{
		Run: "story", ID: "w", Incarnation: "1", Control: l, Bulk: l, Class: "plain-fp32-n1", Device: "a test", Log: zap.NewNop(),
		OpenEngine: func(c model.Config, microbatch, slots int) (model.Engine, error) {
			return enginetest.NewPlain(c, microbatch, slots), nil
		},
	})
	return took, hello, err
}

// A worker whose coordinator is no more, or hears nothing, looks for one: it says hello again
// with the state that it holds. It does not take a busy coordinator for one that has gone.
func TestAWorkerLooksForACoordinatorThatAnswersNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		answer         func(context.Context, int) error
		shortest, most time.Duration
	}{
		"nobody is there": {func(context.Context, int) error { return transport.ErrNoResponders }, time.Second, 3 * time.Second},
		"cut off":         {func(context.Context, int) error { return transport.ErrDisconnected }, time.Second, 3 * time.Second},
		"nobody answers":  {func(ctx context.Context, _ int) error { <-ctx.Done(); return transport.ErrTimeout }, 5 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lonely{answer: c.answer}
				took, hello, err := l.work(t)
				if hello == nil || !errors.Is(err, context.Canceled) {
					t.Fatalf("the worker said hello with %+v and left with %v", hello, err)
				}
				if h, ok := hello.Message.(pipeline.Hello); !ok || !h.Holds || h.Step != 0 || h.Digest == (model.Digest{}) || h.Generation != 3 || h.Ticket != 1 {
					t.Errorf("it said %+v", hello.Message)
				}
				if took < c.shortest || took > c.most {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

// A worker whose coordinator answers now and then stays with it.
func TestAWorkerStaysWithACoordinatorThatAnswersNowAndThen(t *testing.T) {
	for every, fault := range map[int]error{maxUnheard: transport.ErrTimeout, maxNobody: transport.ErrDisconnected} {
		synctest.Test(t, func(t *testing.T) {
			l := &lonely{answer: func(_ context.Context, beat int) error {
				if beat%every == 0 {
					return nil
				}
				return fault
			}}
			if _, hello, err := l.work(t); hello != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: the worker said hello with %+v and left with %v", fault, hello, err)
			}
			if l.beats < 3600 {
				t.Errorf("it gave %d signs of life in an hour", l.beats)
			}
		})
	}
}
