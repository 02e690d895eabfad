package progress

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// field is a part of a row. Where the row is too narrow, the field with the highest rank goes first.
type field struct {
	text string
	rank int
}

// fit joins the fields that a row of so many columns can hold.
func fit(fields []field, width int) string {
	fields = slices.Clone(fields)
	for {
		texts := make([]string, len(fields))
		for i, f := range fields {
			texts[i] = f.text
		}
		row := strings.Join(texts, "  ")
		if columns(row) <= width || len(fields) < 2 {
			return clip(row, width)
		}
		last := slices.MaxFunc(fields, func(a, b field) int { return cmp.Compare(a.rank, b.rank) })
		fields = slices.DeleteFunc(fields, func(f field) bool { return f == last })
	}
}

// row is a row of the terminal: its text without colours, and with them.
type row struct {
	plain, painted string
}

// plainRow is a row without colours.
func plainRow(text string) row { return row{text, text} }

// Colours of the terminal.
const (
	paintDone  = "\x1b[36m"
	paintLeft  = "\x1b[2m"
	paintWarn  = "\x1b[33m"
	paintReset = "\x1b[0m"
)

// minBar is the number of columns below which a bar tells nothing.
const minBar = 8

// barRow is a bar over part done of 1, its percentage, and a note where there is room for it.
func barRow(part float64, note string, width int) row {
	part = min(max(part, 0), 1)
	if math.IsNaN(part) {
		part = 0
	}
	// Rounded down: 100% is said of what is done.
	tail := "  " + padLeft(formatCount(math.Floor(100*part))+"%", 4)
	if long := tail + "  " + note; note != "" && width-columns(long) >= 2*minBar {
		tail = long
	}
	length := width - columns(tail)
	if length < minBar {
		return plainRow(clip(strings.TrimLeft(tail, " "), width))
	}
	halves := int(math.Floor(part * float64(2*length)))
	done, left := strings.Repeat("━", halves/2), strings.Repeat("─", length-halves/2-halves%2)
	if halves%2 == 1 {
		done += "╸"
	}
	return row{
		plain:   done + left + tail,
		painted: paintDone + done + paintReset + paintLeft + left + paintReset + tail,
	}
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-columns(s))) + s
}
