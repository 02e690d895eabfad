package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"andrea/telemetry"
)

const head = `{"ts":"2026-01-02T03:04:05.678901Z","level":"warn","run":"demo","process":"worker","seq":7,"msg":"a \"message\""`

func TestParseReadsALine(t *testing.T) {
	raw := []byte(head + `,"step":12,"loss":2.5,"to":"b c"}`)
	l := Parse("worker", raw)
	if l.Damage != "" {
		t.Fatal(l.Damage)
	}
	if !l.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)) || l.Level != Warn || l.Seq != 7 || l.Msg != `a "message"` || l.Step != 12 {
		t.Errorf("%+v", l)
	}
	if got := fmt.Sprintf("%s", l.Fields); got != "[{step 12} {loss 2.5} {to \"b c\"}]" {
		t.Errorf("fields %s", got)
	}
	if !bytes.Equal(l.Raw, raw) {
		t.Errorf("raw %q", l.Raw)
	}
}

func TestParseNamesDamage(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                "not JSON",
		head:                              "not JSON",
		head + "}" + head + "}":           "not JSON", // glued
		head + "}x":                       "not JSON",
		"[1]":                             "not a JSON object",
		"null":                            "not a JSON object",
		"{}":                              "missing",
		`{"a":1,"b":2,"c":3,"d":4,"e":5}`: "missing",
		strings.Replace(head, "ts", "at", 1) + "}":              "key 1 is not ts",
		strings.Replace(head, "2026-01", "2026-13", 1) + "}":    "ts is no time",
		strings.Replace(head, "warn", "loud", 1) + "}":          "loud",
		strings.Replace(head, `"seq":7`, `"seq":-7`, 1) + "}":   "key 5 is not seq",
		strings.Replace(head, `"seq":7`, `"seq":"7"`, 1) + "}":  "key 5 is not seq",
		strings.Replace(head, `"seq":7`, `"seq":null`, 1) + "}": "key 5 is not seq",
		strings.Replace(head, `"worker"`, `"other"`, 1) + "}":   "other",
		strings.Replace(head, `"seq":7`, `"seq":0`, 1) + "}":    "key 5 is not seq",
		strings.Replace(head, `"seq":7`, `"seq":7.0`, 1) + "}":  "key 5 is not seq",
		strings.Replace(head, `"warn"`, `5`, 1) + "}":           "key 2 is not level",
		strings.Replace(head, `"worker"`, `null`, 1) + "}":      "key 4 is not process",
		strings.Repeat("[", 60000):                              "not JSON",
	} {
		l := Parse("worker", []byte(raw))
		if !strings.Contains(l.Damage, want) || l.Bytes != len(raw) || len(l.Raw) > maxKept || l.Level != Warn || l.Step != -1 || l.Process != "worker" {
			t.Errorf("%.80q: %+v, want damage %q", raw, l, want)
		}
	}
}

func TestParseTakesOnlyWholeSteps(t *testing.T) {
	for value, want := range map[string]int64{"0": 0, "5": 5, "5.5": -1, "-3": -1, `"5"`: -1, "99999999999999999999": -1, "null": -1, "[5]": -1} {
		if l := Parse("worker", []byte(head+`,"step":`+value+"}")); l.Damage != "" || l.Step != want {
			t.Errorf("step %s: %d %s", value, l.Step, l.Damage)
		}
	}
}

// memory is a log file in memory.
type memory struct{ bytes.Buffer }

func (*memory) Sync() error { return nil }

// Whatever package telemetry writes is read as a line.
func TestParseReadsWhatTelemetryWrites(t *testing.T) {
	var file memory
	log, err := telemetry.New(telemetry.Options{Run: "demo", Process: "worker", File: &file, Level: zap.DebugLevel})
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("a\nb\x1b[31m", zap.Int64("step", 3))
	log.Warn(strings.Repeat("long", 40000), zap.Int("seq", 5))
	log.Error("", zap.Float64("nan", 0), zap.Error(fmt.Errorf("x")))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	tail := NewTail("worker", &file)
	for i, want := range []Level{Debug, Warn, Error} {
		l, err := tail.Next()
		if err != nil || l.Damage != "" || l.Level != want || l.Seq != uint64(i+1) {
			t.Errorf("line %d: %+v, %v", i+1, l, err)
		}
	}
}

func TestLevels(t *testing.T) {
	for l := Debug; l <= Fatal; l++ {
		if got, err := ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("%s: %v, %v", l, got, err)
		}
	}
	if _, err := ParseLevel("WARN"); err == nil || !strings.Contains(err.Error(), "info, warn") {
		t.Errorf("an unknown level: %v", err)
	}
}

func TestFilter(t *testing.T) {
	line := func(process string, level Level, step int64) Line {
		return Line{Process: process, Level: level, Step: step}
	}
	for _, c := range []struct {
		filter Filter
		line   Line
		want   bool
	}{
		{Filter{}, line("worker", Debug, -1), true},
		{Filter{}, Damaged("worker", nil, 0, "x"), true},
		{Filter{Processes: []string{"worker"}}, line("worker", Info, -1), true},
		{Filter{Processes: []string{"worker"}}, line("worker-2", Info, -1), false},
		{Filter{Processes: []string{"worker", "worker-2"}}, line("worker-2", Info, -1), true},
		{Filter{Level: Warn}, line("worker", Info, -1), false},
		{Filter{Level: Warn}, line("worker", Warn, -1), true},
		{Filter{Level: Warn}, line("worker", Fatal, -1), true},
		{Filter{Level: Warn}, Damaged("worker", nil, 0, "x"), true},
		{Filter{Level: Error}, Damaged("worker", nil, 0, "x"), false},
		{Filter{Steps: &Steps{3, 5}}, line("worker", Info, 2), false},
		{Filter{Steps: &Steps{3, 5}}, line("worker", Info, 3), true},
		{Filter{Steps: &Steps{3, 5}}, line("worker", Info, 5), true},
		{Filter{Steps: &Steps{3, 5}}, line("worker", Info, 6), false},
		{Filter{Steps: &Steps{0, 5}}, line("worker", Info, -1), false},
		{Filter{[]string{"worker"}, Warn, &Steps{3, 5}}, line("worker", Warn, 4), true},
		{Filter{[]string{"worker"}, Warn, &Steps{3, 5}}, line("worker", Info, 4), false},
	} {
		if got := c.filter.Match(c.line); got != c.want {
			t.Errorf("%+v matches %+v: %v", c.filter, c.line, got)
		}
	}
}

func TestParseSteps(t *testing.T) {
	for text, want := range map[string]Steps{"0": {0, 0}, "12": {12, 12}, "3-5": {3, 5}, "5-5": {5, 5}} {
		if got, err := ParseSteps(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "5-", "-5", "5-3", "a", "1-2-3", "1.5", " 1", "+1", "9223372036854775808"} {
		if got, err := ParseSteps(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		line Line
		want string
	}{
		{Parse("worker", []byte(head+`,"step":12,"to":"b c","x":{"y": [1, "z"]},"e":"","p":"a=b"}`)),
			`2026-01-02 03:04:05.678  WARN   worker       a "message"  step=12  to="b c"  x={"y":[1,"z"]}  e=""  p="a=b"` + "\n"},
		{Parse("worker", []byte(strings.Replace(head, "a ", `a\u001b[2J\n`, 1)+`,"\u009b":"\u0007"}`)),
			`2026-01-02 03:04:05.678  WARN   worker       a\x1b[2J\n\"message\"  \u009b=\a` + "\n"},
		{Damaged("wor\x1bker", []byte("\x1b[2J"), 70000, "too long"),
			`(no time)                BAD    wor\x1bker   too long: 70000 bytes, beginning with "\x1b[2J"` + "\n"},
		{Damaged("worker", nil, 0, "3 lines are missing"),
			`(no time)                BAD    worker       3 lines are missing` + "\n"},
	} {
		if got := string(AppendText(nil, c.line)); got != c.want {
			t.Errorf("\n%s want\n%s", got, c.want)
		}
	}
}

func TestJSON(t *testing.T) {
	raw := head + `,"x": 1}`
	if got := string(AppendJSON([]byte("before "), Parse("worker", []byte(raw)))); got != "before "+raw+"\n" {
		t.Errorf("%s", got)
	}
	got := string(AppendJSON(nil, Damaged("worker", []byte(`{"ts`), 4, "torn")))
	if want := `{"level":"damaged","process":"worker","msg":"torn","bytes":4,"text":"{\"ts"}` + "\n"; got != want {
		t.Errorf("%s want %s", got, want)
	}
}

// Any bytes are a line or a damaged one, and both can be written for people and programs.
func FuzzParse(f *testing.F) {
	f.Add([]byte(head + `,"step":12,"loss":2.5}`))
	f.Add([]byte(head))
	f.Add([]byte("\xff\x00{"))
	f.Add([]byte(`{"a" : {"b":[1,"]}\"\\"]} , "c":"}\\" ,"d":-1e9 , "e":[ ] ,"f":null}`))
	f.Add([]byte(` { } `))
	f.Add([]byte(`{"a":1,"a":[2]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := Parse("worker", bytes.Clone(raw))
		text := AppendText(nil, l)
		if bytes.IndexByte(text, '\n') != len(text)-1 || bytes.ContainsAny(text, "\x1b\r\x00\x07") {
			t.Errorf("not one harmless line: %q", text)
		}
		data := AppendJSON(nil, l)
		if l.Damage != "" && (bytes.IndexByte(data, '\n') != len(data)-1 || !json.Valid(data)) {
			t.Errorf("not one line of JSON: %q", data)
		}
		if l.Damage == "" && string(data) != string(raw)+"\n" {
			t.Errorf("%q became %q", raw, data)
		}
		sameFields(t, raw)
	})
}

// sameFields compares the fields of an object with what the standard library reads.
func sameFields(t *testing.T, raw []byte) {
	t.Helper()
	got, err := object(raw)
	var want map[string]json.RawMessage
	if wrong := json.Unmarshal(raw, &want); (wrong != nil || want == nil) != (err != nil) {
		t.Fatalf("%q: %v, the library says %v", raw, err, wrong)
	}
	last := map[string]json.RawMessage{}
	for _, f := range got {
		last[f.Key] = f.Value
	}
	if fmt.Sprintf("%q", last) != fmt.Sprintf("%q", want) {
		t.Errorf("%q has fields %q, the library says %q", raw, last, want)
	}
}

// A log of a long run is read at a useful speed.
func BenchmarkParse(b *testing.B) {
	raw := []byte(head + `,"step":12,"loss":2.5512,"grad_norm":1.34,"lr":0.001,"tokens":8192,"state_digest":"3e12be2b8fc1ed00170a28bc59eb9ef2","again":false}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if l := Parse("worker", raw); l.Damage != "" {
			b.Fatal(l.Damage)
		}
	}
}
