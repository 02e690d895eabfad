package progress

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// formatLoss writes a loss or a norm with the digits that people compare.
func formatLoss(x float64, decimals int) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 0):
		return strconv.FormatFloat(x, 'f', -1, 64) // +Inf, -Inf
	case a >= 1e4 || a < 1e-3 && a > 0:
		return formatTiny(x)
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// formatTiny writes x with two digits and the shortest exponent: 8.1e-4.
func formatTiny(x float64) string {
	s := strconv.FormatFloat(x, 'e', 1, 64)
	mantissa, exponent, ok := strings.Cut(s, "e")
	if !ok {
		return s // NaN and Inf
	}
	sign, digits := exponent[:1], strings.TrimLeft(exponent[1:], "0")
	if sign == "+" {
		sign = ""
	}
	if digits == "" {
		sign, digits = "", "0"
	}
	return mantissa + "e" + sign + digits
}

// formatCount writes a number of things with separators: 12,345.
func formatCount(x float64) string {
	if math.IsNaN(x) || math.Abs(x) >= 1e15 {
		return formatTiny(x)
	}
	s := strconv.FormatFloat(math.Round(math.Abs(x)), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if x <= -0.5 {
		s = "-" + s
	}
	return s
}

// formatSeconds writes a time in two units: 4.9s, 48s, 1m12s, 2h05m, 3d04h. What is no time is "--".
func formatSeconds(seconds float64) string {
	if !(seconds >= 0) || seconds > 1e4*86400 {
		return "--"
	}
	if seconds < 9.95 {
		return strconv.FormatFloat(seconds, 'f', 1, 64) + "s"
	}
	s := int64(math.Round(seconds))
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s%86400/3600)
}

// printable replaces what could move a terminal's cursor or change its colours: tabs by blanks, all else
// by question marks. Line breaks stay when breaks is set.
func printable(s string, breaks bool) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' && breaks || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ReplaceAll(s, "\t", "    "))
}

// wide are the ranges of characters that take two columns (Unicode's East Asian Width W and F, and
// pictographs), in large strokes.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x231a, Hi: 0x231b, Stride: 1}, {Lo: 0x23e9, Hi: 0x23f3, Stride: 1},
		{Lo: 0x25fd, Hi: 0x27bf, Stride: 1}, {Lo: 0x2b1b, Hi: 0x2b55, Stride: 1}, {Lo: 0x2e80, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xa960, Hi: 0xa97f, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe10, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x16fe0, Hi: 0x1b2ff, Stride: 1}, {Lo: 0x1f000, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

// columns is the width of a printable text on a terminal. Where terminals disagree it is the larger.
func columns(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.Is(wide, r):
			n += 2
		case !unicode.Is(unicode.Mn, r):
			n++
		}
	}
	return n
}

// clip shortens a text to so many columns and marks that it did.
func clip(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	used := 0
	for i, r := range s {
		if used += columns(string(r)); used >= width {
			return s[:i] + "…"
		}
	}
	return s
}
