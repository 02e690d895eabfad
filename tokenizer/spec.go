package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	bytesName    = "bytes"
	harrisPrefix = "harris:"
)

// Spec is the kind of a tokenizer, as a person asks for it.
type Spec struct {
	Segments int // N, the segments to learn; 0 is the tokenizer "bytes"
}

// ParseSpec reads "bytes" or "harris:N", N from 1 to MaxSegments in plain decimal digits.
func ParseSpec(s string) (Spec, error) {
	if s == bytesName {
		return Spec{}, nil
	}
	digits, ok := strings.CutPrefix(s, harrisPrefix)
	if !ok {
		return Spec{}, fmt.Errorf("tokenizer %q: unknown kind: use bytes or harris:N, such as harris:2048", s)
	}
	n, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(n) != digits || n < 1 || n > MaxSegments {
		return Spec{}, fmt.Errorf("tokenizer %q: %q is no number of segments: use a whole number from 1 to %d",
			s, digits, MaxSegments)
	}
	return Spec{Segments: n}, nil
}

// String returns the text that ParseSpec reads.
func (s Spec) String() string {
	if s.Segments == 0 {
		return bytesName
	}
	return harrisPrefix + strconv.Itoa(s.Segments)
}

// Vocab returns V, the number of ids of such a tokenizer.
func (s Spec) Vocab() int { return s.Segments + firstSegment }
