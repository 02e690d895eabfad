package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

// text is the status for people.
func (s runStatus) text() []byte {
	var b bytes.Buffer
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, strings.Map(harmless, fmt.Sprintf(format, args...)))
	}
	row("run", "%s", cmp.Or(s.Dir, s.Run))
	row("state", "%s", s.stateText())
	row("step", "%d of %d (%.1f %%)", s.Step, s.Steps, 100*float64(s.Step)/float64(max(1, s.Steps)))
	if loss := s.lossText(); loss != "" {
		row("loss", "%s", loss)
	}
	if s.Speed > 0 {
		row("speed", "%.0f tokens/s%s", s.Speed, s.etaText())
	}
	for _, w := range s.Workers {
		joining := ""
		if !w.Joined {
			joining = ", loading the state"
		}
		row("worker", "%s on %s%s", w.ID, w.Device, joining)
	}
	if s.Class != "" {
		row("engine", "%s", s.Class)
	}
	row("generation", "%d", s.Generation)
	if s.Checkpoint >= 0 {
		row("checkpoint", "%s", cmp.Or(s.Path, fmt.Sprint("of step ", s.Checkpoint)))
	} else {
		row("checkpoint", "none yet")
	}
	if s.Resume != "" {
		row("go on with", "%s", s.Resume)
	}
	return b.Bytes()
}

// harmless replaces what could move a terminal's cursor or change its colours.
func harmless(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

func (s runStatus) stateText() string {
	switch s.State {
	case stateRunning:
		return "running: " + s.Phase
	case stateComplete:
		return "complete: all steps are committed"
	case stateUnknown:
		return "unknown, it may be running: " + s.Reason
	}
	return "not running: " + s.Reason
}

func (s runStatus) lossText() string {
	var parts []string
	if s.Loss != nil {
		parts = append(parts, fmt.Sprintf("%.4f", float64(*s.Loss)))
	}
	if s.ValLoss != nil {
		parts = append(parts, fmt.Sprintf("validation %.4f at step %d", float64(*s.ValLoss), s.ValStep))
	}
	return strings.Join(parts, ", ")
}

// etaText is the time left of a running run; nothing before its first step.
func (s runStatus) etaText() string {
	if s.ETASeconds == nil {
		return ""
	}
	seconds := float64(*s.ETASeconds)
	if math.IsNaN(seconds) || seconds < 0 || seconds > 1e9 {
		return ""
	}
	return ", " + time.Duration(seconds*float64(time.Second)).Round(time.Second).String() + " left"
}
