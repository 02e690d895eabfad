package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"andrea/k8s"
	"andrea/k8s/kubectl"
)

// mostBroken is how many streams in a row may fail without a new line while the cluster answers otherwise.
const mostBroken = 10

// followLog prints a coordinator's log as it comes, until its pod is not the run's any more. A stream that breaks, as when
// the API server is replaced, a proxy ends what lasts for long or a laptop changes networks, is taken up where it ended.
func (f k8sFlags) followLog(ctx context.Context, out io.Writer, run, pod string) error {
	log, broken := resumedLog{out: out}, 0
	for over := false; ; {
		last, same := log.last, log.same
		err := f.kubectl().Stream(ctx, &log, log.call(pod)...)
		if broken++; err == nil || log.last != last || log.same != same {
			broken = 0
		}
		switch {
		case log.lost != nil:
			return log.lost
		case errors.Is(err, kubectl.ErrMissing) || ctx.Err() != nil || err != nil && log.last.IsZero() && !over || broken == mostBroken:
			return err
		case over: // this was all, or the pod is there no more
			return log.finish()
		}
		s, err := f.until(ctx, run, func(k8s.State) {}, func(k8s.State) bool { return true })
		if err != nil {
			return err
		}
		if over = s.Coordinator != pod || s.Ended() || s.Phase == k8s.Stopped; !over {
			if err := pause(ctx, f.every); err != nil {
				return err
			}
		}
	}
}

// longestLine is how many bytes of a line without an end are kept.
const longestLine = 1 << 20

// resumedLog prints lines that come with their times, without them, and those that come again not again. It is what
// one call after the other writes to.
type resumedLog struct {
	out   io.Writer
	lost  error     // of the first write to out that failed
	part  []byte    // of a line whose end has not come
	last  time.Time // of the newest line that was printed
	same  int       // lines that were printed of that time
	again int       // lines of it that come again
}

// call begins a call: the arguments of one that asks for what was not printed yet. The cluster counts whole seconds, so
// lines come again; a line that had not ended comes again whole.
func (l *resumedLog) call(pod string) []string {
	l.part, l.again = nil, l.same
	args := []string{"logs", pod, "--container=" + k8s.Coordinator, "--follow=true", "--timestamps"}
	if !l.last.IsZero() {
		args = append(args, "--since-time="+l.last.Format(time.RFC3339Nano))
	}
	return args
}

// Write implements io.Writer.
func (l *resumedLog) Write(p []byte) (int, error) {
	l.part = append(l.part, p...)
	for {
		end := bytes.IndexByte(l.part, '\n') + 1
		if end == 0 && len(l.part) < longestLine {
			return len(p), nil
		}
		if end == 0 {
			end = len(l.part)
		}
		if err := l.print(l.part[:end]); err != nil {
			return 0, err
		}
		l.part = l.part[end:]
	}
}

// print prints a line unless it was printed before.
func (l *resumedLog) print(line []byte) error {
	text := line
	if before, after, found := bytes.Cut(line, []byte(" ")); found {
		if at, err := time.Parse(time.RFC3339Nano, string(before)); err == nil {
			if !l.counts(at) {
				return nil
			}
			text = after
		}
	}
	_, l.lost = l.out.Write(text)
	return l.lost
}

// counts reports that a line of a time was not printed before, and that it is now.
func (l *resumedLog) counts(at time.Time) bool {
	switch at.Compare(l.last) {
	case -1:
		return l.again == 0 // two streams of a process may come in another order than their times
	case 0:
		if l.again > 0 {
			l.again--
			return false
		}
		l.same++
	default:
		l.last, l.same, l.again = at, 1, 0
	}
	return true
}

// finish prints the end of a log that does not end with a line's.
func (l *resumedLog) finish() error {
	if len(l.part) == 0 {
		return nil
	}
	return l.print(l.part)
}
