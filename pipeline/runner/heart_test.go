package runner

import (
	"context"
	"errors"
	"strings"
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

// lonely is a bus whose coordinator welcomes the worker and then answers as the test says.
type lonely struct {
	transport.Bus
	mu      sync.Mutex
	command func(transport.Message)
	answer  func(ctx context.Context, beat int) error // of a sign of life
	beats   int
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

// Publish answers the hello.
func (l *lonely) Publish(string, []byte) error {
	l.mu.Lock()
	welcome := l.command
	l.command = nil
	l.mu.Unlock()
	if welcome == nil {
		return nil
	}
	data, err := wire.EncodeControl(wire.Control{Generation: 3, Worker: "w", Incarnation: "1", Message: pipeline.Welcome{Job: lonelyJob}})
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

// work runs a worker of the bus for at most an hour of the bubble's time.
func (l *lonely) work(t *testing.T) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	began := time.Now()
	err := Work(ctx, WorkerOptions{
		Run: "story", ID: "w", Incarnation: "1", Control: l, Bulk: l, Class: "plain-fp32-n1", Device: "a test", Log: zap.NewNop(),
		OpenEngine: func(c model.Config, microbatch, slots int) (model.Engine, error) {
			return enginetest.NewPlain(c, microbatch, slots), nil
		},
	})
	return time.Since(began), err
}

// A worker whose coordinator is no more, or hears nothing, leaves with an error after 20 s.
func TestAWorkerLeavesACoordinatorThatAnswersNoMore(t *testing.T) {
	for name, answer := range map[string]func(context.Context, int) error{
		"nobody is there": func(context.Context, int) error { return transport.ErrNoResponders },
		"nobody answers":  func(ctx context.Context, _ int) error { <-ctx.Done(); return transport.ErrTimeout },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lonely{answer: answer}
				took, err := l.work(t)
				if err == nil || !strings.Contains(err.Error(), "its coordinator has answered no sign of life for 20s") {
					t.Errorf("the worker left with %v", err)
				}
				if took < 20*time.Second || took > 45*time.Second {
					t.Errorf("it left after %v", took)
				}
			})
		})
	}
}

// A worker whose coordinator answers now and then stays.
func TestAWorkerStaysWithACoordinatorThatAnswersNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lonely{answer: func(_ context.Context, beat int) error {
			if beat%maxUnheard == 0 {
				return nil
			}
			return transport.ErrDisconnected
		}}
		if took, err := l.work(t); !errors.Is(err, context.DeadlineExceeded) || took != time.Hour {
			t.Errorf("after %v the worker left with %v", took, err)
		}
	})
}
