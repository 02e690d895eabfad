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
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
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

// ParseLevel reads the name of a level. The error offers those that a program of ours writes: of
// the others, which end the process, there are none in the logs of one that does as it should.
func ParseLevel(name string) (Level, error) {
	for i, n := range levelNames {
		if n == name {
			return Level(i), nil
		}
	}
	return 0, fmt.Errorf("level %.40q is unknown: choose one of %s", name, strings.Join(levelNames[:Error+1], ", "))
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

// object reads one JSON object and keeps the order of its keys. The values are parts of raw.
func object(raw []byte) (fields []Field, err error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	rest := bytes.TrimSpace(raw)
	if rest[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	for rest = skip(rest[1:]); rest[0] != '}'; rest = skip(rest) {
		n := valueLength(rest)
		key, err := text(rest[:n])
		if err != nil {
			return nil, err
		}
		rest = skip(rest[n:])
		n = valueLength(rest)
		fields = append(fields, Field{key, bytes.TrimSpace(rest[:n:n])})
		rest = rest[n:]
	}
	return fields, nil
}

// text reads a JSON string, refusing other values. Most have nothing to be decoded.
func text(value []byte) (s string, err error) {
	if len(value) < 2 || value[0] != '"' {
		return "", errors.New("not a text")
	}
	if plain := value[1 : len(value)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return string(plain), nil
	}
	err = json.Unmarshal(value, &s)
	return s, err
}

// skip leaves out what stands between the keys and values of an object.
func skip(from []byte) []byte { return bytes.TrimLeft(from, " \t\r\n,:") }

// valueLength is the length of the value that valid JSON begins with, blanks after it included. Within
// an object a comma or a closing bracket always follows a number or a word.
func valueLength(from []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(from); i++ {
		switch c := from[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}'):
			return i
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(from)
}

// take fills the line from the keys that every line begins with and keeps the others.
func (l *Line) take(fields []Field) error {
	heads := [...]string{"ts", "level", "run", "process", "seq", "msg"}
	if len(fields) < len(heads) {
		return errors.New("keys are missing")
	}
	var values [len(heads)]string
	for i, key := range heads {
		f := fields[i]
		var err error
		if key == "seq" {
			l.Seq, err = strconv.ParseUint(string(f.Value), 10, 64)
			if err == nil && l.Seq == 0 {
				err = errors.New("lines are counted from 1")
			}
		} else {
			values[i], err = text(f.Value)
		}
		if f.Key != key || err != nil {
			return fmt.Errorf("key %d is not %s with a value of its kind", i+1, key)
		}
	}
	var err error
	if l.Time, err = time.Parse(time.RFC3339Nano, values[0]); err != nil {
		return errors.New("ts is no time")
	}
	if l.Level, err = ParseLevel(values[1]); err != nil {
		return err
	}
	if values[3] != l.Process {
		return fmt.Errorf("it is of process %.40q", values[3])
	}
	l.Msg, l.Fields = values[5], fields[len(heads):]
	for _, f := range l.Fields {
		if step, err := strconv.ParseUint(string(f.Value), 10, 63); f.Key == "step" && err == nil {
			l.Step = int64(step)
		}
	}
	return nil
}
