package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"andrea/pipeline"
)

// localWorker is the worker that runs in the coordinator's process.
const localWorker pipeline.WorkerID = "local"

// How a worker's process that ended with an error is started again.
const (
	maxShortLives = 5                      // in a row; then it is given up
	shortLife     = 30 * time.Second       // a longer life begins the count anew
	firstPause    = 250 * time.Millisecond // before it is started again after a second short life; doubled with every other
)

// lives counts how often in a row something ended soon after its start.
type lives struct{ short int }

// again takes in that it ended after so long, and reports whether to start it again.
func (l *lives) again(lasted time.Duration) bool {
	if l.short++; lasted > shortLife {
		l.short = 0
	}
	return l.short < maxShortLives
}

// crewEvents tells the coordinator what becomes of its workers' processes, until end is called.
type crewEvents struct {
	events chan pipeline.CoordinatorEvent
	ended  chan struct{}
}

func newCrewEvents() *crewEvents {
	return &crewEvents{events: make(chan pipeline.CoordinatorEvent), ended: make(chan struct{})}
}

// tell returns when the coordinator has taken the event, or takes none any more.
func (c *crewEvents) tell(e pipeline.CoordinatorEvent) {
	select {
	case c.events <- e:
	case <-c.ended:
	}
}

func (c *crewEvents) end() { close(c.ended) }

// startCrew starts the run's workers, unless they come from elsewhere. It tells of each
// that ends with an error, and when none is left; it closes left when all have ended,
// which they also do when ctx is done.
func (r *Run) startCrew(ctx context.Context, n *node, events *crewEvents) (left <-chan struct{}, err error) {
	var group sync.WaitGroup
	crew := r.env.Crew
	var last lastWords
	switch {
	case crew.Elsewhere:
	case len(crew.Command) > 0:
		err = r.startChildren(ctx, n.log, &group, events, &last)
	default:
		group.Go(func() {
			if err := r.workHere(ctx, n); err != nil && ctx.Err() == nil {
				last.keep(fmt.Sprintf("worker %s failed: %v", localWorker, err))
				events.tell(pipeline.WorkerLost{Worker: localWorker, Reason: err.Error()})
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
		if reason := last.words(); reason != "" && !crew.Elsewhere {
			events.tell(pipeline.NobodyComes{Reason: reason})
		}
	}()
	return done, err
}

// lastWords is why the last worker was given up.
type lastWords struct {
	mu   sync.Mutex
	text string
}

func (l *lastWords) keep(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = text
}

func (l *lastWords) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// startChildren starts a process for each worker, and starts those again that end with an
// error.
func (r *Run) startChildren(ctx context.Context, log *zap.Logger, group *sync.WaitGroup, events *crewEvents, last *lastWords) error {
	for i := range r.Start.Workers {
		id := childName(i)
		start := func() (*child, error) { return r.startChild(ctx, i, id) }
		child, err := start()
		if err != nil {
			return err
		}
		group.Go(func() {
			if err := r.keepChild(ctx, log, child, id, start, events); err != nil {
				last.keep(err.Error())
			}
		})
	}
	return nil
}

// keepChild waits for a worker's process and starts it again when it ends with an error:
// until it ends as it should, ctx is done, or its lives are short too often, which is
// the error.
func (r *Run) keepChild(ctx context.Context, log *zap.Logger, c *child, id pipeline.WorkerID, start func() (*child, error), events *crewEvents) error {
	for lived := (lives{}); ; {
		began := time.Now()
		err := c.wait(r.warn)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		reason := fmt.Sprintf("its process ended: %v: see %s", err, r.logPath(string(id)))
		again := lived.again(time.Since(began))
		events.tell(pipeline.WorkerLost{Worker: id, Reason: reason, GivenUp: !again})
		if !again {
			return fmt.Errorf("worker %s was given up: %d times in a row it ended soon after its start: %s", id, lived.short, reason)
		}
		log.Warn("starting a worker again", zap.String("worker", string(id)), zap.Error(err))
		if !sleep(ctx, pauseAfter(lived.short)) {
			return nil
		}
		if c, err = start(); err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// pauseAfter is how long a worker's process is not started again after so many short lives in a row:
// at first not at all, since whatever it died of is probably over.
func pauseAfter(short int) time.Duration {
	if short < 2 {
		return 0
	}
	return firstPause << (short - 2)
}

// sleep reports that the time passed before ctx was done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
