package cli

import (
	"io"
	"unicode"
	"unicode/utf8"
)

// textStream passes on bytes as whole characters: one that has not arrived to its
// end is held back. What is no UTF-8 becomes U+FFFD, byte by byte.
type textStream struct {
	out  io.Writer
	safe bool // control characters, which could move a terminal's cursor, become U+FFFD too
	held []byte
}

// write passes on what can be passed on.
func (s *textStream) write(b []byte) error {
	s.held = append(s.held, b...)
	return s.pass(utf8.FullRune)
}

// flush passes on the rest, broken or not.
func (s *textStream) flush() error {
	return s.pass(func([]byte) bool { return true })
}

// pass passes on the characters up to the first that is not ready.
func (s *textStream) pass(ready func([]byte) bool) error {
	var text []byte
	for len(s.held) > 0 && ready(s.held) {
		r, size := utf8.DecodeRune(s.held)
		if s.safe && unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			r = utf8.RuneError
		}
		text = utf8.AppendRune(text, r)
		s.held = s.held[size:]
	}
	if len(text) == 0 {
		return nil
	}
	_, err := s.out.Write(text)
	return err
}
