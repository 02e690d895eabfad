package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// memory is a File in memory that counts Sync.
type memory struct {
	bytes.Buffer
	synced int
}

func (m *memory) Sync() error { m.synced++; return nil }

func newLog(t testing.TB, o Options) *Log {
	t.Helper()
	o.Run, o.Process = "demo", "worker-1"
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// parsed reads lines as a program would, and checks what every line must have.
func parsed(t testing.TB, text string) []map[string]any {
	t.Helper()
	if !strings.HasSuffix(text, "\n") {
		t.Fatalf("the last line does not end: %q", text)
	}
	var lines []map[string]any
	for line := range strings.Lines(text) {
		if len(line) > 64<<10 {
			t.Errorf("a line of %d bytes", len(line))
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("not JSON: %v: %q", err, line)
		}
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(object["ts"])); err != nil || !strings.HasSuffix(object["ts"].(string), "Z") {
			t.Errorf("ts %v, %v", object["ts"], err)
		}
		if object["run"] != "demo" || object["process"] != "worker-1" {
			t.Errorf("run %v, process %v", object["run"], object["process"])
		}
		if object["seq"] != float64(len(lines)+1) {
			t.Errorf("line %d has seq %v", len(lines)+1, object["seq"])
		}
		lines = append(lines, object)
	}
	return lines
}

type inner struct {
	Loss  float64 `json:"loss"`
	Small float32
	When  time.Time
	Gone  float64 `json:"-"`
	own   float64
}

func TestFieldsBecomeJSON(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	cycle := map[string]any{}
	cycle["self"] = cycle
	when := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	for name, c := range map[string]struct {
		field zap.Field
		want  string // the field's value
	}{
		"number":          {zap.Float64("x", 0.1), `0.1`},
		"NaN":             {zap.Float64("x", nan), `"NaN"`},
		"float32 Inf":     {zap.Float32("x", float32(inf)), `"+Inf"`},
		"-Inf":            {zap.Float64("x", -inf), `"-Inf"`},
		"list":            {zap.Float64s("x", []float64{1, nan}), `[1,"NaN"]`},
		"map":             {zap.Any("x", map[string]float64{"a": nan, "b": 2}), `{"a":"NaN","b":2}`},
		"map by number":   {zap.Any("x", map[int][]any{3: {-inf, nil, true, uint8(1), "s", []byte("hi")}}), `{"3":["-Inf",null,true,1,"s","aGk="]}`},
		"struct":          {zap.Any("x", &inner{Loss: nan, Small: 0.1, When: when, Gone: 1, own: 1}), `{"Small":0.1,"When":"2026-01-02T03:04:05.000006+01:00","loss":"NaN"}`},
		"nothing":         {zap.Any("x", []any{nan, (*inner)(nil), []float64(nil), map[string]int(nil)}), `["NaN",null,null,null]`},
		"channel":         {zap.Any("x", []any{make(chan int), complex(1, nan)}), `["chan int","(1+NaNi)"]`},
		"good reflected":  {zap.Any("x", inner{When: when}), `{"loss":0,"Small":0,"When":"2026-01-02T03:04:05.000006+01:00"}`},
		"newlines":        {zap.String("x", "a\nb\r\n\x00\""), `"a\nb\r\n\u0000\""`},
		"broken UTF-8":    {zap.String("x", "a\xffb"), `"a\ufffdb"`},
		"error":           {zap.NamedError("x", errors.New("line 1\nline 2")), `"line 1\nline 2"`},
		"bytes":           {zap.Binary("x", []byte{0, 255}), `"AP8="`},
		"duration":        {zap.Duration("x", 1500*time.Millisecond), `"1.5s"`},
		"time":            {zap.Time("x", when), `"2026-01-02T03:04:05.000006+01:00"`},
		"raw with breaks": {zap.Any("x", json.RawMessage("{\n\"a\": 1\n}")), `{"a":1}`},
	} {
		var file memory
		l := newLog(t, Options{File: &file})
		l.Info("m", c.field)
		var line struct{ X json.RawMessage }
		if err := json.Unmarshal(file.Bytes(), &line); err != nil || string(line.X) != c.want {
			t.Errorf("%s: got %s, want %s, %v", name, line.X, c.want, err)
		}
		parsed(t, file.String())
	}

	var file memory
	newLog(t, Options{File: &file}).Info("m", zap.Any("x", cycle))
	parsed(t, file.String())
	if !strings.Contains(file.String(), cutMark) {
		t.Errorf("a value that contains itself: %s", file.String())
	}
}

func TestGoldenLine(t *testing.T) {
	var file memory
	l := newLog(t, Options{File: &file})
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.FixedZone("", 7200))
	log := l.WithOptions(zap.WithClock(fixed{at})).With(zap.Int64("step", 12))
	log.Warn("slow\nworker", zap.Float64("loss", math.NaN()), zap.Int("seq", 3))
	want := `{"ts":"2026-01-02T01:04:05.678Z","level":"warn","run":"demo","process":"worker-1","seq":1,` +
		`"msg":"slow\nworker","step":12,"loss":"NaN","seq_":3}` + "\n"
	if file.String() != want {
		t.Errorf("got  %s\nwant %s", file.String(), want)
	}
}

// fixed is a clock that stands still.
type fixed struct{ at time.Time }

func (f fixed) Now() time.Time                         { return f.at }
func (f fixed) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

func TestLevels(t *testing.T) {
	var file memory
	l := newLog(t, Options{File: &file})
	l.Debug("unseen")
	l.Info("a")
	l.Error("b")
	verbose := newLog(t, Options{File: &memory{}, Level: zapcore.DebugLevel})
	if !verbose.Core().Enabled(zapcore.DebugLevel) {
		t.Error("debug is not enabled where it was asked for")
	}
	lines := parsed(t, file.String())
	if len(lines) != 2 || lines[0]["level"] != "info" || lines[1]["level"] != "error" {
		t.Errorf("%v", lines)
	}
}

func TestLongLinesAreShortened(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		field   zap.Field
	}{
		"long field":     {"short", zap.String("x", strings.Repeat("é", 1<<20))},
		"long message":   {strings.Repeat("é", 1<<20), zap.Skip()},
		"worst escaping": {strings.Repeat("\x00", 1<<20), zap.String("x", strings.Repeat("\x00", 1<<20))},
		"broken UTF-8":   {strings.Repeat("\xff", 1<<20), zap.String("x", strings.Repeat("\xff", 1<<20))},
		"long key":       {"short", zap.Int(strings.Repeat("k", 1<<20), 1)},
		"deep":           {"short", zap.Any("x", [][]string{{strings.Repeat("<\"", 1<<19)}})},
	} {
		var file memory
		l := newLog(t, Options{File: &file})
		l.Info(c.message, c.field)
		l.Info("next")
		lines := parsed(t, file.String())
		if length, ok := lines[0]["truncated"].(float64); !ok || length < 1<<20 {
			t.Errorf("%s: truncated is %v", name, lines[0]["truncated"])
		}
		begins, _, _ := strings.Cut(lines[0]["msg"].(string), "\ufffd")
		if !strings.HasPrefix(c.message, begins) {
			t.Errorf("%s: msg is no beginning of the message", name)
		}
	}
}

func TestNumbersHaveNoGapUnderConcurrency(t *testing.T) {
	var file memory
	var mu sync.Mutex
	var sent []string
	l := newLog(t, Options{File: &file, Publish: func(subject string, line []byte) error {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, string(line)+"\n")
		if want := "andrea.demo.log.worker-1.info"; subject != want {
			t.Errorf("subject %s, want %s", subject, want)
		}
		return nil
	}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			log := l.With(zap.Int("goroutine", i))
			for j := range 50 {
				log.Info("m", zap.Int("j", j))
			}
		})
	}
	all.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(parsed(t, file.String())); n != 400 {
		t.Errorf("%d lines", n)
	}
	if strings.Join(sent, "") != file.String() {
		t.Error("what was sent is not what is in the file")
	}
	l.Info("after Close")
	if err := errors.Join(l.Sync(), l.Close()); err != nil || strings.Contains(file.String(), "after") || file.synced != 1 {
		t.Errorf("after Close: %v, synced %d times", err, file.synced)
	}
}

func TestASlowBusHoldsUpNobody(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		n       int // lines, more than the queue takes
	}{
		"many lines": {"m", maxQueuedLines + 100},
		"many bytes": {strings.Repeat("m", 32<<10), 2 * maxQueuedBytes / (32 << 10)},
	} {
		var file memory
		entered, release := make(chan bool, 1), make(chan bool)
		sent := 0
		l := newLog(t, Options{File: &file, Publish: func(string, []byte) error {
			if sent++; sent == 1 {
				entered <- true
				<-release
			}
			return nil
		}})
		l.Info("first")
		<-entered
		for range c.n { // would never return if a full queue blocked
			l.Info(c.message)
		}
		close(release)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		lines := parsed(t, file.String())
		if len(lines) != c.n+2 {
			t.Fatalf("%s: the file has %d lines, want all %d and the note", name, len(lines), c.n+1)
		}
		note := lines[c.n+1]
		if note["level"] != "warn" || note["lines"] != float64(c.n+1-sent) || sent < 100 || sent > c.n {
			t.Errorf("%s: %d sent; the note says %v", name, sent, note)
		}
	}
}

func TestABusThatFailsOrHangsIsNoted(t *testing.T) {
	var file memory
	l := newLog(t, Options{File: &file, Publish: func(string, []byte) error { return errors.New("disconnected") }})
	l.Info("a")
	l.Info("b")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if lines := parsed(t, file.String()); len(lines) != 3 || lines[2]["lines"] != 2.0 {
		t.Errorf("a bus that fails: %v", lines)
	}

	var other memory
	entered, release := make(chan bool, 1), make(chan bool)
	hung := newLog(t, Options{File: &other, Publish: func(string, []byte) error {
		entered <- true
		<-release
		return nil
	}})
	hung.Info("a")
	<-entered
	hung.Info("b")
	if err := hung.close(time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	close(release)
	<-hung.bus.done
	if lines := parsed(t, other.String()); len(lines) != 3 || lines[2]["lines"] != 2.0 {
		t.Errorf("a bus that hangs: %v", lines)
	}
}

// full is a File whose disk is full for some of the writes.
type full struct {
	memory
	fails []bool // by number of the write
}

var errFull = errors.New("no space left")

func (f *full) Write(line []byte) (int, error) {
	fail := f.fails[0]
	f.fails = f.fails[1:]
	if fail {
		n, _ := f.memory.Write(line[:len(line)/2])
		return n, errFull
	}
	return f.memory.Write(line)
}

func TestAFullDiskTearsNoOtherLine(t *testing.T) {
	file := full{fails: []bool{false, true, true, false, false}}
	var told memory
	l := newLog(t, Options{File: &file})
	log := l.WithOptions(zap.ErrorOutput(&told))
	for _, message := range []string{"one", "two", "three", "four", "five"} {
		log.Info(message)
	}
	if n := strings.Count(told.String(), errFull.Error()); n != 1 {
		t.Errorf("told %d times: %s", n, told.String())
	}
	var good []string
	for line := range strings.Lines(file.String()) {
		var object struct{ Msg string }
		if json.Unmarshal([]byte(line), &object) == nil {
			good = append(good, object.Msg)
		}
	}
	if strings.Join(good, " ") != "one four five" {
		t.Errorf("readable lines: %v", good)
	}
	if err := l.Close(); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "2 lines") {
		t.Errorf("Close: %v", err)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	for _, name := range []string{"", "a.b", "a b", "*", ">", "a\"", "é", strings.Repeat("a", 129)} {
		if _, err := New(Options{Run: name, Process: "p", File: &memory{}}); err == nil {
			t.Errorf("run %q is accepted", name)
		}
		if _, err := New(Options{Run: "r", Process: name, File: &memory{}}); err == nil {
			t.Errorf("process %q is accepted", name)
		}
	}
}

// FuzzLine: whatever is logged, a line is one JSON object in one line of bounded length, and the next
// line is whole.
func FuzzLine(f *testing.F) {
	f.Add("m", "key", "value", 1.5, []byte("bytes"), int64(1))
	f.Add("a\nb\x00\xff", "seq", "\u2028\"\\", math.Inf(-1), []byte{0xff, '\n'}, int64(math.MinInt64))
	f.Add(strings.Repeat("\x01", 40<<10), "msg", strings.Repeat("\xc3", 40<<10), math.NaN(), []byte("[1,\n2]"), int64(-1))
	f.Fuzz(func(t *testing.T, message, key, text string, x float64, raw []byte, n int64) {
		var file memory
		l := newLog(t, Options{File: &file})
		l.With(zap.String(key, text)).Error(message,
			zap.Float64(key, x), zap.Float32(text, float32(x)), zap.ByteString(key, raw), zap.Any(key, json.RawMessage(raw)),
			zap.Any(text, map[string]any{text: x, key: []float32{float32(x)}}), zap.Any(key, inner{Loss: x, When: time.Unix(n, n)}),
			zap.Time(key, time.Unix(n, n)), zap.Duration(text, time.Duration(n)), zap.NamedError(key, errors.New(text)),
			zap.Namespace(key), zap.Complex128(text, complex(x, x)), zap.Int64(key, n))
		l.Info("next")
		if lines := parsed(t, file.String()); len(lines) != 2 || lines[1]["msg"] != "next" {
			t.Errorf("%d lines", len(lines))
		}
	})
}
