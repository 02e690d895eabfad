package progress

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// terminal is what a person would see: it understands the few codes that the package writes and fails
// on any other. It never scrolls anything away.
type terminal struct {
	t     testing.TB
	lines [][]rune
	x, y  int
	width int
	paint bool // the output had colours
}

var control = regexp.MustCompile(`^\x1b\[([0-9]*)([AJm])`)

// Write implements io.Writer.
func (s *terminal) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if m := control.FindStringSubmatch(text); m != nil {
			s.control(m[1], m[2])
			text = text[len(m[0]):]
			continue
		}
		r := []rune(text)[0]
		s.put(r)
		text = text[len(string(r)):]
	}
	return len(p), nil
}

func (s *terminal) control(argument, code string) {
	switch code {
	case "A":
		n, err := strconv.Atoi(argument)
		if err != nil || n < 1 || n > s.y {
			s.t.Fatalf("the cursor goes up %q rows from row %d", argument, s.y)
		}
		s.y -= n
	case "J":
		s.lines = append(s.lines[:s.y], s.lines[s.y][:min(s.x, len(s.lines[s.y]))])
	case "m":
		s.paint = true
	}
}

func (s *terminal) put(r rune) {
	for len(s.lines) <= s.y {
		s.lines = append(s.lines, nil)
	}
	switch r {
	case '\r':
		s.x = 0
		return
	case '\n':
		s.x, s.y = 0, s.y+1
		if len(s.lines) <= s.y {
			s.lines = append(s.lines, nil)
		}
		return
	}
	if r < ' ' {
		s.t.Fatalf("control character %q", r)
	}
	if s.x >= s.width { // terminals wrap when the next character comes
		s.x, s.y = 0, s.y+1
		s.put(r)
		return
	}
	line := s.lines[s.y]
	for len(line) <= s.x {
		line = append(line, ' ')
	}
	line[s.x] = r
	s.lines[s.y] = line
	s.x++
}

// String is the screen with its right border and the cursor's place.
func (s *terminal) String() string {
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	fmt.Fprintf(&b, "[cursor at row %d, column %d of %d]\n", s.y, s.x, s.width)
	return b.String()
}
