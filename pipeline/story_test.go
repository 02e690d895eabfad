package pipeline_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"andrea/model"
)

// A story in testdata/coordinator or testdata/worker is a list of events, each with
// what the state machine wants done. Lines that begin with "> " are events, "#" are
// comments; the indented lines are effects, which -update writes anew. A digest goes
// by the name that the story gives it; "a+b" is the digest of a state of two buckets.

// teller knows the events and the effects of one state machine.
type teller interface {
	event(words []string) ([]string, error)
}

func TestCoordinatorStories(t *testing.T) {
	stories(t, "coordinator", func(t *testing.T) teller { return newCoordinatorTeller(t) })
}

func TestWorkerStories(t *testing.T) {
	stories(t, "worker", func(t *testing.T) teller {
		return newWorkerTeller()
	})
}

func stories(t *testing.T, folder string, newTeller func(*testing.T) teller) {
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		name := filepath.Join(folder, filepath.Base(path))
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			golden(t, name, tell(t, newTeller(t), readStory(t, path)))
		})
	}
}

// tell plays a story's events and returns it with the effects that they have.
func tell(t *testing.T, m teller, lines []string) string {
	var b strings.Builder
	for number, line := range lines {
		if strings.HasPrefix(line, "  ") {
			continue // an effect of an earlier telling
		}
		b.WriteString(line + "\n")
		event, found := strings.CutPrefix(line, "> ")
		if !found {
			continue
		}
		effects, err := m.event(strings.Fields(event))
		if err != nil {
			t.Fatalf("line %d: %q: %v", number+1, line, err)
		}
		if len(effects) == 0 {
			effects = []string{"(nothing)"}
		}
		for _, e := range effects {
			b.WriteString("  " + e + "\n")
		}
	}
	return b.String()
}

// named is the digest that a story calls name.
func named(name string) model.Digest {
	if name == "none" {
		return model.Digest{}
	}
	var d model.Digest
	for part := range strings.SplitSeq(name, "+") {
		ids := make([]uint32, 0, len(part))
		for _, c := range part {
			ids = append(ids, uint32(c))
		}
		d = d.Add(model.TokenDigestOf(0, ids))
	}
	digestNames[d] = name
	return d
}

var digestNames = map[model.Digest]string{{}: "none"}

// plain replaces digests in a text by their names.
func plain(text string) string {
	for d, name := range digestNames {
		text = strings.ReplaceAll(text, d.String(), name)
	}
	return text
}

func nameOf(d model.Digest) string { return plain(d.String()) }

// arguments are the key=value words of an event.
type arguments map[string]string

func argumentsOf(words []string) (rest []string, a arguments) {
	a = arguments{}
	for _, w := range words {
		if key, value, found := strings.Cut(w, "="); found {
			a[key] = value
		} else {
			rest = append(rest, w)
		}
	}
	return rest, a
}

// number is an argument, or its default.
func (a arguments) number(key string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(a[key], 10, 64); err == nil {
		return n
	}
	return otherwise
}

// seconds is a duration, 0 unless it is given.
func (a arguments) seconds() float64 {
	s, _ := strconv.ParseFloat(a["seconds"], 64)
	return s
}

// list is an argument of values with commas between them.
func (a arguments) list(key string) []string {
	return strings.FieldsFunc(a[key], func(r rune) bool { return r == ',' })
}

func (a arguments) text(key, otherwise string) string {
	if text, given := a[key]; given {
		return text
	}
	return otherwise
}

var errUnknownEvent = errors.New("there is no such event")

func readStory(t *testing.T, path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}
