package progress

import (
	"fmt"
	"io"
	"strings"
)

// screen keeps the live rows at the bottom of a terminal.
type screen struct {
	out   io.Writer
	color bool
	drawn []int // columns of the live rows that stand there
}

// draw replaces the live rows and prints finished lines above them, in one write. The cursor stays
// behind the last row. width is that of the terminal now: rows that were drawn on a wider one have been
// wrapped by it.
func (s *screen) draw(finished []string, rows []row, width int) error {
	var b strings.Builder
	b.WriteString(s.erase(width))
	for _, line := range finished {
		b.WriteString(line + "\n")
	}
	s.drawn = s.drawn[:0]
	for i, r := range rows {
		if i > 0 {
			b.WriteString("\n")
		}
		if s.color {
			b.WriteString(r.painted)
		} else {
			b.WriteString(r.plain)
		}
		s.drawn = append(s.drawn, columns(r.plain))
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// erase returns what takes the live rows away: to the first of them, and clear to the end.
func (s *screen) erase(width int) string {
	if len(s.drawn) == 0 {
		return ""
	}
	up := -1
	for _, c := range s.drawn {
		up += max(1, (c+width-1)/width)
	}
	if up == 0 {
		return "\r\x1b[J"
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", up)
}
