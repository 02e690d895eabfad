package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"andrea/telemetry"
	"andrea/watch"
)

// remoteLogs shows the log lines of a run that is only known by its server: the newest that its
// coordinator keeps, and with -f what comes.
func remoteLogs(ctx context.Context, o outside, f logsFlags, filter watch.Filter, write func([]byte, watch.Line) []byte) error {
	guard := newGuard(ctx, o)
	defer guard.close()
	l := newListener(guard.preparing, o.fs, "")
	l.remote, l.run = &f.nats.remote, f.run
	defer l.close()
	show := remoteStream{filter: filter, emit: func(line watch.Line) error {
		_, err := o.stdout.Write(write(nil, line))
		return err
	}}
	err := show.begin(guard.preparing, l)
	if err == nil && f.follow {
		err = show.follow(guard.preparing, l)
	}
	if guard.signalled() {
		return exitError{guard.code(), nil}
	}
	return err
}

// remoteStream shows the lines of a run as they arrive at its coordinator.
type remoteStream struct {
	filter watch.Filter
	emit   func(watch.Line) error
	seen   map[string]bool // lines of the history: those that came meanwhile arrive again
	gaps   watch.Gaps
	ending watch.Ending
}

// begin listens, so that nothing falls between, and then shows what the coordinator has kept.
func (s *remoteStream) begin(ctx context.Context, l *listener) error {
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	if _, err := l.listen(ctx); err != nil {
		return notReached(l.run, err)
	}
	kept, err := telemetry.AskHistory(ctx, l.bus, l.run)
	if err != nil {
		return err
	}
	s.seen, s.gaps = make(map[string]bool, len(kept)), watch.Gaps{}
	for _, k := range kept {
		s.seen[k.Line] = true
		if err := s.show(lineOf(k.Process, []byte(k.Line))); err != nil {
			return err
		}
	}
	return nil
}

// follow shows what comes until the run has said that it ended or nobody is left.
func (s *remoteStream) follow(ctx context.Context, l *listener) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line := <-l.lines:
			if s.seen[string(line.Raw)] {
				continue
			}
			if err := s.show(line); err != nil {
				return err
			}
		case <-ticker.C:
			_, link, _ := l.ask(ctx)
			if !s.ending.Look(link) {
				continue
			}
			if !s.ending.Ended() {
				return errors.New("following the logs: nobody answers any more, and the run has not said that it ended: its coordinator was ended, or is being started again")
			}
			return nil
		}
	}
}

// show passes on a line that the filter wants, and says how many before it were lost.
func (s *remoteStream) show(line watch.Line) error {
	s.ending.Saw(line)
	if missing := s.gaps.Missing(line); missing > 0 {
		lost := watch.Damaged(line.Process, nil, 0, fmt.Sprintf("lines before the next one that were lost on the bus: %d", missing))
		if err := s.pass(lost); err != nil {
			return err
		}
	}
	return s.pass(line)
}

func (s *remoteStream) pass(line watch.Line) error {
	if !s.filter.Match(line) {
		return nil
	}
	return s.emit(line)
}
