package cli

import (
	"strings"
	"testing"
	"time"
)

func TestMessagesBecomeLinesOfJSON(t *testing.T) {
	var out strings.Builder
	l := &jsonLog{out: &out, now: func() time.Time { return time.Unix(0, 0) }}
	for _, text := range []string{"one\n", "\n", "two, ", "in pieces\n", "of\ntwo lines\n", "warning: \"three\"\n", "andrea: four\n", `{"ts":"now"}` + "\n", "{no object}\n", strings.Repeat("x", maxMessage)} {
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	var want strings.Builder
	for _, m := range []struct{ level, text string }{
		{"info", "one"}, {"info", "two, in pieces"}, {"info", `of\ntwo lines`}, {"warn", `\"three\"`}, {"error", "four"}, {"", `{"ts":"now"}`},
		{"info", "{no object}"}, {"info", strings.Repeat("x", maxMessage)},
	} {
		if m.level == "" {
			want.WriteString(m.text + "\n")
			continue
		}
		want.WriteString(`{"ts":"1970-01-01T00:00:00Z","level":"` + m.level + `","msg":"` + m.text + "\"}\n")
	}
	if out.String() != want.String() {
		t.Errorf("it wrote\n%s", out.String())
	}
}

// The program itself does so when it is told to.
func TestTheProgramLogsJSON(t *testing.T) {
	t.Setenv(logVariable, "json")
	r := newPlace(t).run("", "train", "--text", "nowhere")
	if lines := strings.Count(r.stderr, "\n"); r.code != 2 || !strings.HasPrefix(r.stderr, `{"ts":"`) || strings.Count(r.stderr, `"level":`) != lines {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}
