package telemetry

import (
	"sync/atomic"
	"time"
)

const (
	maxQueuedLines = 4096
	maxQueuedBytes = 4 << 20
)

// publisher sends lines from a bounded queue, so that a slow bus never holds up who logs.
type publisher struct {
	send  func(subject string, line []byte) error
	queue chan published
	bytes atomic.Int64  // in the queue
	lost  atomic.Uint64 // lines dropped because the queue was full, or not taken by send
	quit  atomic.Bool   // Close has given up: send no more
	done  chan struct{}
}

type published struct {
	subject string
	line    []byte
}

func startPublisher(send func(subject string, line []byte) error) *publisher {
	p := &publisher{send: send, queue: make(chan published, maxQueuedLines), done: make(chan struct{})}
	go p.run()
	return p
}

func (p *publisher) run() {
	defer close(p.done)
	for next := range p.queue {
		p.bytes.Add(-int64(len(next.line)))
		if p.quit.Load() || p.send(next.subject, next.line) != nil {
			p.lost.Add(1)
		}
	}
}

// offer queues a line or drops it. It is not called by two goroutines at once, nor after close. The line
// must not change any more.
func (p *publisher) offer(subject string, line []byte) {
	if p.bytes.Load()+int64(len(line)) > maxQueuedBytes {
		p.lost.Add(1)
		return
	}
	p.bytes.Add(int64(len(line)))
	select {
	case p.queue <- published{subject, line}:
	default:
		p.bytes.Add(-int64(len(line)))
		p.lost.Add(1)
	}
}

// close sends what is queued as far as patience allows and returns how many lines were never sent. A
// send that hangs is left behind.
func (p *publisher) close(patience time.Duration) (lost uint64) {
	close(p.queue)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.lost.Load()
	case <-timer.C:
	}
	p.quit.Store(true)
	return p.lost.Load() + uint64(len(p.queue)) + 1 // and the one that hangs
}
