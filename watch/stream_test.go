package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// growing is a reader that says io.EOF after every part.
type growing struct{ parts [][]byte }

func (g *growing) Read(p []byte) (int, error) {
	if len(g.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, g.parts[0])
	if g.parts[0] = g.parts[0][n:]; len(g.parts[0]) == 0 {
		g.parts = g.parts[1:]
		return n, io.EOF // as a reader may, with the last bytes
	}
	return n, nil
}

// all reads what there is.
func all(t interface{ Fatal(...any) }, next func() (Line, error)) (lines []Line) {
	for ends := 0; ends < 100; {
		l, err := next()
		switch {
		case err == nil:
			lines = append(lines, l)
		case errors.Is(err, io.EOF):
			ends++
		default:
			t.Fatal(err)
		}
	}
	return lines
}

// However a file grows, its lines come out whole, each once, and what has no end is told apart.
func TestTailGivesEveryLineOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(MaxLine-2, MaxLine+2), rapid.Just(3*MaxLine)), 0, 6).Draw(t, "lengths")
		torn := rapid.IntRange(0, 50).Draw(t, "torn")
		var file []byte
		for i, n := range lengths {
			file = append(append(file, bytes.Repeat([]byte{byte('a' + i)}, n)...), '\n')
		}
		file = append(file, bytes.Repeat([]byte{'~'}, torn)...)
		g := &growing{}
		for len(file) > 0 {
			n := rapid.IntRange(1, len(file)).Draw(t, "part")
			g.parts, file = append(g.parts, file[:n]), file[n:]
		}
		tail := NewTail("worker", g)
		lines := all(t, tail.Next)
		if len(lines) != len(lengths) {
			t.Fatalf("%d lines, want %d", len(lines), len(lengths))
		}
		for i, l := range lines {
			if l.Bytes != lengths[i] || len(l.Raw) > maxKept || strings.Trim(string(l.Raw), string(byte('a'+i))) != "" || l.Damage == "" {
				t.Fatalf("line %d has %d bytes %q, want %d", i, l.Bytes, l.Raw, lengths[i])
			}
			if tooLong := strings.Contains(l.Damage, "longer than"); tooLong != (lengths[i] > MaxLine) {
				t.Fatalf("line %d of %d bytes: %s", i, lengths[i], l.Damage)
			}
		}
		if l, ok := tail.Torn(); ok != (torn > 0) || ok && (l.Bytes != torn || len(l.Raw) != torn) {
			t.Fatalf("torn %v %+v, want %d bytes", ok, l, torn)
		}
	})
}

func TestTailHoldsLittleOfAHugeLine(t *testing.T) {
	tail := NewTail("worker", io.LimitReader(endless{}, 64<<20))
	if _, err := tail.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if l, ok := tail.Torn(); !ok || l.Bytes != 64<<20 || cap(tail.begun) > 4*MaxLine {
		t.Errorf("%d bytes of the line, %d held", l.Bytes, cap(tail.begun))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// fed is a log that is given lines in parts; between parts it says io.EOF.
type fed struct{ parts [][]Line }

func (f *fed) next() (Line, error) {
	if len(f.parts) == 0 || len(f.parts[0]) == 0 {
		return Line{}, io.EOF
	}
	l := f.parts[0][0]
	f.parts[0] = f.parts[0][1:]
	return l, nil
}

// more lets the next part be read.
func (f *fed) more() { f.parts = f.parts[min(1, len(f.parts)):] }

// Merging loses and doubles nothing and keeps every log's order; logs whose times rise come out in the
// order of time.
func TestMergerOrdersByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rising := rapid.Bool().Draw(t, "rising")
		logs := rapid.IntRange(0, 4).Draw(t, "logs")
		want := map[string][]Line{}
		var m Merger
		for i := range logs {
			name := fmt.Sprint("p", i)
			var at int64
			for n := range rapid.IntRange(0, 20).Draw(t, "lines") {
				if v := rapid.Int64Range(0, 30).Draw(t, "time"); rising {
					at += v
				} else {
					at = v
				}
				want[name] = append(want[name], Line{Process: name, Seq: uint64(n + 1), Time: time.Unix(at, 0)})
			}
			m.Add(name, (&fed{[][]Line{slices.Clone(want[name])}}).next)
		}
		got, last := map[string][]Line{}, time.Time{}
		err := m.Drain(func(l Line) error {
			if rising && l.Time.Before(last) {
				t.Fatalf("%v after %v", l.Time, last)
			}
			last = l.Time
			got[l.Process] = append(got[l.Process], l)
			return nil
		}, func(err error) { t.Fatal(err) })
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v\n%v\nwant\n%v", err, got, want)
		}
	})
}

// Damaged lines, which have no time, stay where they are between their neighbours.
func TestMergerKeepsDamagedLinesInPlace(t *testing.T) {
	at := func(name string, second int64) Line { return Line{Process: name, Time: time.Unix(second, 0)} }
	var m Merger
	m.Add("b", (&fed{[][]Line{{at("b", 2), at("b", 4)}}}).next)
	m.Add("a", (&fed{[][]Line{{at("a", 3), Damaged("a", nil, 1, "x"), at("a", 5)}}}).next)
	var got []string
	if err := m.Drain(func(l Line) error { got = append(got, l.Process+l.Damage); return nil }, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b", "a", "ax", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMergerGoesOn(t *testing.T) {
	log := &fed{[][]Line{{{Seq: 1}}, {}, {{Seq: 2}, {Seq: 3}}}}
	broken, told := errors.New("disk"), 0
	var m Merger
	m.Add("a", log.next)
	m.Add("b", func() (Line, error) { return Line{}, broken })
	for range 3 {
		var got []uint64
		if err := m.Drain(func(l Line) error { got = append(got, l.Seq); return nil }, func(err error) { told++ }); err != nil {
			t.Fatal(err)
		}
		if n := len(log.parts); n == 3 && !slices.Equal(got, []uint64{1}) || n == 1 && !slices.Equal(got, []uint64{2, 3}) {
			t.Errorf("pass %d: %v", 4-n, got)
		}
		log.more()
	}
	if told != 1 {
		t.Errorf("a broken log was told %d times", told)
	}
}

func TestMergerStopsWhenNobodyTakesLines(t *testing.T) {
	full := errors.New("full")
	var m Merger
	m.Add("a", (&fed{[][]Line{{{Seq: 1}, {Seq: 2}}}}).next)
	if err := m.Drain(func(Line) error { return full }, nil); err != full {
		t.Errorf("%v", err)
	}
}

func TestEnding(t *testing.T) {
	started, ended := Line{Process: Coordinator, Msg: RunStarted}, Line{Process: Coordinator, Msg: RunEnded}
	other := Line{Process: "worker", Msg: RunEnded}
	for _, c := range []struct {
		name  string
		lines []Line
		link  Link
		looks int // after the lines, until complete; 0: never
	}{
		{"asked and answering", []Line{started}, Answering, 0},
		{"answering after the end: a new life", []Line{ended}, Answering, 0},
		{"gone after the end", []Line{started, ended}, Gone, 2},
		{"gone without an end", []Line{started}, Gone, 9},
		{"gone, nothing ever logged", nil, Gone, 9},
		{"gone after a new start", []Line{ended, started}, Gone, 9},
		{"another's words", []Line{started, other}, Gone, 9},
		{"a server without a coordinator", []Line{started}, Silent, 0},
		{"an external server", []Line{ended}, Silent, 9},
		{"nobody to ask, no end", []Line{started}, Unknown, 0},
		{"nobody to ask", []Line{ended}, Unknown, 9},
	} {
		var e Ending
		for _, l := range c.lines {
			e.Saw(l)
		}
		looks := 0
		for n := 1; n <= 100 && looks == 0; n++ {
			if e.Look(c.link) {
				looks = n
			}
		}
		if looks != c.looks {
			t.Errorf("%s: complete after %d looks, want %d", c.name, looks, c.looks)
		}
	}
}

func TestEndingWaitsForMore(t *testing.T) {
	var e Ending
	for range 100 {
		e.Saw(Line{Process: "worker"})
		if e.Look(Gone) {
			t.Fatal("complete while lines come")
		}
	}
}

func TestGaps(t *testing.T) {
	g := Gaps{}
	for i, c := range []struct {
		process string
		seq     uint64
		want    uint64
	}{
		{"a", 5, 0}, {"a", 6, 0}, {"b", 1, 0}, {"a", 9, 2}, {"a", 1, 0}, {"a", 2, 0}, {"a", 2, 1}, {"b", 2, 0}, {"b", 0, 0},
	} {
		if got := g.Missing(Line{Process: c.process, Seq: c.seq}); got != c.want {
			t.Errorf("line %d: %d missing, want %d", i, got, c.want)
		}
	}
}
