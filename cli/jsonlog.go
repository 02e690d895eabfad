package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// logVariable set to "json" makes a JSON object of every message on standard error, for collectors that read both outputs
// of a container as one log.
const logVariable = "ANDREA_LOG"

// messages is where messages go that a process writes to out.
func messages(out *os.File) io.Writer {
	if os.Getenv(logVariable) != "json" {
		return out
	}
	return &jsonLog{out: out, now: time.Now}
}

// jsonLog writes each message as a line of JSON. It may be used by several goroutines.
type jsonLog struct {
	out  io.Writer
	now  func() time.Time
	mu   sync.Mutex
	rest []byte // of a message whose end has not come
}

// maxMessage bounds a message, in bytes; what is longer becomes several.
const maxMessage = 64 << 10

// logLine is what a line holds, under the names that records of a run's log have.
type logLine struct {
	Time    string `json:"ts"`    // RFC 3339, UTC
	Level   string `json:"level"` // info, warn, error
	Message string `json:"msg"`
}

// Write takes whole messages, which end with a line, and pieces of them. What is an object already stays as it is.
func (l *jsonLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	if !bytes.HasSuffix(l.rest, []byte("\n")) && len(l.rest) < maxMessage {
		return len(p), nil
	}
	text := strings.TrimRight(string(l.rest), "\n")
	l.rest = l.rest[:0]
	if text == "" {
		return len(p), nil
	}
	line := []byte(text)
	if text[0] != '{' || !json.Valid(line) {
		var err error
		if line, err = json.Marshal(leveled(text, l.now())); err != nil {
			return len(p), err
		}
	}
	_, err := l.out.Write(append(line, '\n'))
	return len(p), err
}

// leveled takes the level out of a text, where it begins with it.
func leveled(text string, now time.Time) logLine {
	m := logLine{Time: now.UTC().Format(time.RFC3339Nano), Level: "info", Message: text}
	for _, l := range []struct{ prefix, level string }{{"warning: ", "warn"}, {program + ": ", "error"}} {
		if rest, found := strings.CutPrefix(text, l.prefix); found {
			m.Level, m.Message = l.level, rest
		}
	}
	return m
}
