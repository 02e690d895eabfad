package telemetry

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// closeWait bounds how long Close waits for the bus to take the last lines.
const closeWait = 2 * time.Second

// File is where lines go. Write receives whole lines, one at a time; Sync makes them survive a power cut.
type File interface {
	io.Writer
	Sync() error
}

// Options say whose log it is and where it goes.
type Options struct {
	Run     string // 1 to 128 of [A-Za-z0-9_-], as is Process: both are tokens of the subject
	Process string
	File    File // stays the caller's, who closes it after the Log
	// Publish sends one line, without its newline, on andrea.<run>.log.<process>.<level>. It is called
	// from a goroutine of the Log, may block, and must not log to the same Log what happens every time.
	// nil: to the file only.
	Publish func(subject string, line []byte) error
	Level   zapcore.Level // the lowest that is logged; the zero value is info
}

// Log is a process's log. Close it when the process ends: what is logged later is dropped.
type Log struct {
	*zap.Logger

	head    [2][]byte // of a line: what stands between time and level, and between level and seq
	subject string    // of a published line, but for the level
	file    File
	bus     *publisher // nil: to the file only

	mu      sync.Mutex // guards what follows, and orders lines
	seq     uint64     // of the last line
	torn    bool       // the file ends within a line: the next must not continue it
	failing bool       // the file did not take the last line
	failed  uint64     // lines that the file did not take
	failure error      // of the first of them
	closed  bool
}

// New starts a log.
func New(o Options) (*Log, error) {
	for _, name := range []string{o.Run, o.Process} {
		if !isToken(name) {
			return nil, fmt.Errorf("start the log: name %q is not of 1 to 128 characters [A-Za-z0-9_-]", name)
		}
	}
	l := &Log{
		head: [2][]byte{
			[]byte(`","level":"`),
			[]byte(`","run":"` + o.Run + `","process":"` + o.Process + `","seq":`),
		},
		subject: "andrea." + o.Run + ".log." + o.Process + ".",
		file:    o.File,
	}
	if o.Publish != nil {
		l.bus = startPublisher(o.Publish)
	}
	l.Logger = zap.New(&core{LevelEnabler: o.Level, encoder: newEncoder(), log: l})
	return l, nil
}

// isToken tells whether a name can be one token of a subject and stand in JSON as it is.
func isToken(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// write gives a line its number and sends it out. body is the JSON object of message and fields. The
// error is the file's, told once for all failures in a row.
func (l *Log) write(at time.Time, level zapcore.Level, body []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	wasFailing := l.failing
	line := l.append(at, level, body)
	if l.bus != nil {
		l.bus.offer(l.subject+level.String(), line[:len(line)-1])
	}
	err := l.toFile(line)
	if wasFailing {
		return nil
	}
	return err
}

// append numbers a line and puts it together, newline included.
func (l *Log) append(at time.Time, level zapcore.Level, body []byte) []byte {
	l.seq++
	line := make([]byte, 0, len(body)+256)
	line = append(line, `{"ts":"`...)
	line = at.UTC().AppendFormat(line, time.RFC3339Nano)
	line = append(line, l.head[0]...)
	line = append(line, level.String()...)
	line = append(line, l.head[1]...)
	line = fmt.Append(line, l.seq)
	line = append(line, ',')
	line = append(line, body[1:]...)
	return append(line, '\n')
}

// toFile writes a line, after a newline that ends a torn one.
func (l *Log) toFile(line []byte) error {
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.file.Write(line)
	l.failing = err != nil
	if err == nil {
		l.torn = false
		return nil
	}
	l.torn = l.torn || n > 0
	l.failed++
	if l.failure == nil {
		l.failure = err
	}
	return err
}

// Sync makes what was logged survive a power cut. After Close it does nothing.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return l.file.Sync()
}

// Close ends the log: it waits up to two seconds for the bus to take the lines still queued, notes in
// the file how many the bus never took, and syncs the file. Its error tells lines that are not in the
// file. Later calls return nil.
func (l *Log) Close() error { return l.close(closeWait) }

func (l *Log) close(patience time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.bus != nil {
		if lost := l.bus.close(patience); lost > 0 {
			body := fmt.Appendf(nil, `{"msg":"log lines that the bus did not take are in this file only","lines":%d}`, lost)
			_ = l.toFile(l.append(time.Now(), zapcore.WarnLevel, body)) // counted in l.failed
		}
	}
	var err error
	if l.failed > 0 {
		err = fmt.Errorf("write the log: %d lines are missing: %w", l.failed, l.failure)
	}
	return errors.Join(err, l.file.Sync())
}
