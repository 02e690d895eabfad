package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// quietTime is how long after an answer another one may come.
const quietTime = 300 * time.Millisecond

// maxAnswers bounds how many answers are collected.
const maxAnswers = 1024

// Ask connects, asks everybody who listens on a subject, and returns their answers: those that come until
// ctx is done or none has come for a moment. None: nobody listens.
func Ask(ctx context.Context, o ConnOptions, subject string) (answers [][]byte, err error) {
	connected, err := Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	b := connected.(*bus)
	defer func() { err = errors.Join(err, b.Close()) }()
	inbox := b.nc.NewInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err == nil {
		err = b.nc.PublishRequest(subject, inbox, nil)
	}
	for err == nil && len(answers) < maxAnswers {
		within, cancel := context.WithTimeout(ctx, quietTime)
		var m *nats.Msg
		m, err = sub.NextMsgWithContext(within)
		cancel()
		switch {
		case err == nil:
			answers = append(answers, m.Data)
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
			return answers, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ask on %s: %w", subject, b.translate(err))
	}
	return answers, nil
}
