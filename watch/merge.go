package watch

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"
)

// Merger puts the lines of several logs in the order of time. The lines of one log keep their order: one
// with an earlier time than the line before it, or with none, counts as simultaneous with that.
type Merger struct{ sources []*source }

// source is one log in a pass.
type source struct {
	next func() (Line, error)
	head Line
	at   time.Time // of head; never falls
	name string    // decides between logs at one time
}

// Add adds a log. next returns its lines; io.EOF means that there is no more for now, any other error
// that there never will be.
func (m *Merger) Add(name string, next func() (Line, error)) {
	m.sources = append(m.sources, &source{next: next, name: name})
}

// Drain gives emit all lines that are there now, merged. A log that fails is told to failed, once, and
// is not asked again. An error of emit ends the pass at once and is returned.
func (m *Merger) Drain(emit func(Line) error, failed func(error)) error {
	var active []*source
	for _, s := range slices.Clone(m.sources) {
		if m.advance(s, failed) {
			active = append(active, s)
		}
	}
	for len(active) > 0 {
		first := slices.MinFunc(active, earlier)
		if err := emit(first.head); err != nil {
			return err
		}
		if !m.advance(first, failed) {
			active = without(active, first)
		}
	}
	return nil
}

// advance reads the next line of a log, if there is one.
func (m *Merger) advance(s *source, failed func(error)) (more bool) {
	var err error
	s.head, err = s.next()
	switch {
	case err == nil && s.head.Time.After(s.at):
		s.at = s.head.Time
	case err != nil && !errors.Is(err, io.EOF):
		failed(err)
		m.sources = without(m.sources, s)
	}
	return err == nil
}

func without(sources []*source, gone *source) []*source {
	return slices.DeleteFunc(sources, func(s *source) bool { return s == gone })
}

// earlier orders logs by the time of their next line.
func earlier(a, b *source) int {
	if c := a.at.Compare(b.at); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}
