package watch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Filter says which lines are wanted. The zero value wants all.
type Filter struct {
	Processes []string // empty: of all
	Level     Level    // the lowest
	Steps     *Steps   // nil: of all steps and of none
}

// Steps is a range of steps, both ends included.
type Steps struct{ First, Last int64 }

// Match reports whether a line is wanted.
func (f Filter) Match(l Line) bool {
	switch {
	case len(f.Processes) > 0 && !slices.Contains(f.Processes, l.Process):
		return false
	case l.Level < f.Level:
		return false
	case f.Steps != nil:
		return f.Steps.First <= l.Step && l.Step <= f.Steps.Last
	}
	return true
}

// ParseSteps reads "N" or "A-B".
func ParseSteps(text string) (Steps, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 63)
	b, errB := strconv.ParseUint(last, 10, 63)
	switch {
	case errA != nil || errB != nil:
		return Steps{}, fmt.Errorf("steps %.40q: give one step, such as 12, or the first and the last, such as 10-20", text)
	case a > b:
		return Steps{}, fmt.Errorf("steps %.40q: the first is larger than the last", text)
	}
	return Steps{int64(a), int64(b)}, nil
}
