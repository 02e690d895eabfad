// Package watch makes one readable stream of the logs of a run's processes: it cuts what was read into
// lines, judges them, puts the lines of all processes in the order of time, filters them and writes
// them for people or programs. Package logdir reads the files.
//
// Nothing in a log file is trusted: a line that is too long, torn or no log line of its process is
// passed on as damaged, with its beginning, and never ends the reading.
package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// MaxLine is the longest line in bytes, without its newline, that is read; those that package
	// telemetry writes are shorter.
	MaxLine = 64 << 10
	// maxKept is how many bytes of a damaged line are kept to be shown.
	maxKept = 200
)

// Level is how much a line matters. The values are in the order of weight.
type Level int

// The levels.
const (
	Debug Level = iota
	Info
	Warn
	Error
	DPanic
	Panic
	Fatal
)

var levelNames = [...]string{"debug", "info", "warn", "error", "dpanic", "panic", "fatal"}

// String is the level as it stands in a line.
func (l Level) String() string { return levelNames[l] }

// ParseLevel reads the name of a level.
func ParseLevel(name string) (Level, error) {
	for i, n := range levelNames {
		if n == name {
			return Level(i), nil
		}
	}
	return 0, fmt.Errorf("level %.40q is unknown: choose one of %s", name, strings.Join(levelNames[:], ", "))
}

// Line is one line of a log.
type Line struct {
	Raw     []byte // as it was written, without the newline; of a damaged line the beginning
	Process string // whose log it is in
	Damage  string // why this is no log line, for people; empty: it is one
	Bytes   int    // how long it is, of a damaged line too

	// What follows is of a line that is not damaged. A damaged one counts as a warning without a step.
	Time   time.Time
	Level  Level
	Seq    uint64 // number in one life of the process, from 1
	Msg    string
	Step   int64   // -1: it is of no step
	Fields []Field // the rest, in order
}

// Field is a key of a line with its value as JSON.
type Field struct {
	Key   string
	Value json.RawMessage
}

// Parse judges a whole line of a process's log. raw, at most MaxLine bytes, passes to the line.
func Parse(process string, raw []byte) Line {
	l := Line{Raw: raw, Process: process, Bytes: len(raw), Step: -1}
	fields, err := object(raw)
	if err == nil {
		err = l.take(fields)
	}
	if err != nil {
		return Damaged(process, raw, len(raw), err.Error())
	}
	return l
}

// Damaged is a line that is none. raw, which may be its beginning only, stays the caller's; length is
// how long the whole is in bytes.
func Damaged(process string, raw []byte, length int, why string) Line {
	kept := bytes.Clone(raw[:min(len(raw), maxKept)])
	return Line{Raw: kept, Process: process, Damage: why, Bytes: length, Level: Warn, Step: -1}
}

// object reads one JSON object and keeps the order of its keys.
func object(raw []byte) (fields []Field, err error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		fields = append(fields, Field{key.(string), value}) // in an object every first token is a string
	}
	if _, err := d.Token(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return fields, nil
}

// take fills the line from the keys that every line begins with and keeps the others.
func (l *Line) take(fields []Field) error {
	var ts, level, process string
	heads := []struct {
		key   string
		value any
	}{{"ts", &ts}, {"level", &level}, {"run", new(string)}, {"process", &process}, {"seq", &l.Seq}, {"msg", &l.Msg}}
	if len(fields) < len(heads) {
		return errors.New("keys are missing")
	}
	for i, head := range heads {
		if f := fields[i]; f.Key != head.key || json.Unmarshal(f.Value, head.value) != nil {
			return fmt.Errorf("key %d is not %s with a value of its kind", i+1, head.key)
		}
	}
	var err error
	if l.Time, err = time.Parse(time.RFC3339Nano, ts); err != nil {
		return errors.New("ts is no time")
	}
	if l.Level, err = ParseLevel(level); err != nil {
		return err
	}
	switch {
	case process != l.Process:
		return fmt.Errorf("it is of process %.40q", process)
	case l.Seq == 0:
		return errors.New("seq is 0")
	}
	l.Fields = fields[len(heads):]
	for _, f := range l.Fields {
		var step int64
		if f.Key == "step" && string(f.Value) != "null" && json.Unmarshal(f.Value, &step) == nil && step >= 0 {
			l.Step = step
		}
	}
	return nil
}
