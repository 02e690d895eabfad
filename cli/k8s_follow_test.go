package cli

import (
	"bytes"
	"strings"
	"testing"
)

// However a log is cut, and wherever its stream breaks, every line is printed once.
func TestALogThatIsResumed(t *testing.T) {
	const log = "2026-01-01T00:00:01Z one\n2026-01-01T00:00:01Z one\n2026-01-01T00:00:01.000000001Z two words\n" +
		"2026-01-01T00:00:02Z \n2026-01-01T00:00:02Z last, and no end"
	const want = "one\none\ntwo words\n\nlast, and no end"
	for first := range len(log) + 1 {
		for second := first; second <= len(log); second++ {
			var out bytes.Buffer
			l := resumedLog{out: &out}
			for _, upTo := range []int{first, second, len(log)} {
				l.call("pod")
				written := log[:upTo]
				if !l.last.IsZero() { // the cluster leaves whole seconds out
					written = written[strings.Index(log, l.last.Format("2006-01-02T15:04:05")):]
				}
				for _, part := range []string{written[:len(written)/2], written[len(written)/2:]} {
					if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
						t.Fatalf("Write: %d, %v", n, err)
					}
				}
			}
			if err := l.finish(); err != nil || out.String() != want {
				t.Fatalf("broken after %d and %d bytes: %q, %v", first, second, out.String(), err)
			}
		}
	}
}

// What has no times is printed as it is, and a line that does not end is not kept for ever.
func TestALogWithoutTimes(t *testing.T) {
	var out bytes.Buffer
	l := resumedLog{out: &out}
	long := strings.Repeat("x", longestLine)
	for _, part := range []string{"unable to say when\n", "2026 is no time\n", "\n", long, "and on\n"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if want := "unable to say when\n2026 is no time\n\n" + long + "and on\n"; out.String() != want {
		t.Errorf("%d bytes were printed, want %d", out.Len(), len(want))
	}
}
