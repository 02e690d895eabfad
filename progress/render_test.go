package progress

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"andrea/pipeline"
)

// anyFloat draws numbers of every kind.
func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64(), rapid.Float64Range(-10, 10),
		rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 5e-324}))
}

func anyStep() *rapid.Generator[pipeline.StepDone] {
	return rapid.Custom(func(t *rapid.T) pipeline.StepDone {
		record := pipeline.CommitRecord{
			Step:            rapid.Int64().Draw(t, "step"),
			Loss:            pipeline.Float(anyFloat().Draw(t, "loss")),
			GradNorm:        pipeline.Float(anyFloat().Draw(t, "norm")),
			LR:              float32(anyFloat().Draw(t, "lr")),
			Tokens:          rapid.Int64().Draw(t, "tokens"),
			Seconds:         anyFloat().Draw(t, "seconds"),
			TokensPerSecond: anyFloat().Draw(t, "rate"),
		}
		if rapid.Bool().Draw(t, "val") {
			val := pipeline.Float(anyFloat().Draw(t, "val_loss"))
			record.ValLoss = &val
		}
		return pipeline.StepDone{Record: record, Again: rapid.Bool().Draw(t, "again")}
	})
}

// No live row is ever wider than the terminal, whatever the numbers: a wrapped row could not be redrawn.
func TestRowsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 200).Draw(t, "width")
		check := func(rows []row) {
			for _, r := range rows {
				if columns(r.plain) > width || strings.Contains(r.plain, "\n") {
					t.Fatalf("a row of %d columns for %d: %q", columns(r.plain), width, r.plain)
				}
			}
		}
		r := &run{steps: rapid.Int64().Draw(t, "steps")}
		check(r.rows(width))
		for _, done := range rapid.SliceOfN(anyStep(), 1, 20).Draw(t, "done") {
			r.add(done)
			check(r.rows(width))
			if _, err := r.line(); err != nil {
				t.Fatal(err)
			}
		}
		if strings.ContainsAny(r.summary(), "\n\x1b") {
			t.Fatalf("summary %q", r.summary())
		}
		d := New(Options{Now: func() time.Time { return time.Time{} }})
		d.phase = &phase{name: rapid.String().Draw(t, "phase"), done: rapid.Int64().Draw(t, "at"), total: rapid.Int64().Draw(t, "total")}
		check(d.phaseRows(width))
	})
}

func TestPlotFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(-1, 120).Draw(t, "width"), rapid.IntRange(-1, 20).Draw(t, "height")
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) point {
			return point{rapid.Int64().Draw(t, "step"), anyFloat().Draw(t, "loss"), anyFloat().Draw(t, "val")}
		}), 0, 40).Draw(t, "points")
		chart := plot(points, width, height)
		if !utf8.ValidString(chart) {
			t.Fatalf("%q", chart)
		}
		if chart != "" && strings.Count(chart, "\n") != height+3 {
			t.Fatalf("%d lines for a height of %d:\n%s", strings.Count(chart, "\n"), height, chart)
		}
		for line := range strings.Lines(chart) {
			if columns(strings.TrimSuffix(line, "\n")) > width {
				t.Fatalf("a line of %d columns for %d: %q", columns(line), width, line)
			}
		}
	})
}

func TestPlots(t *testing.T) {
	falling := func(n int64) (c curve) {
		for s := int64(1); s <= n; s++ {
			c.add(step(s).Record)
		}
		return c
	}
	nan := math.NaN()
	for name, points := range map[string][]point{
		"few":        {{1, 8, nan}, {2, 6, nan}, {3, 5, nan}},
		"flat":       {{10, 3, nan}, {20, 3, nan}},
		"long":       falling(7800),
		"not-finite": {{1, 8, 7}, {2, nan, nan}, {3, math.Inf(1), nan}, {4, 6, 6.5}},
	} {
		golden(t, "plot-"+name, plot(points, 60, 10))
	}
	if c := falling(3*maxPoints + 5); len(c) > maxPoints || c[len(c)-1].Step != 3*maxPoints+5 {
		t.Errorf("a curve keeps %d points, the last of step %d", len(c), c[len(c)-1].Step)
	}
}

func TestThinnedCurveKeepsMeansAndValidation(t *testing.T) {
	nan := math.NaN()
	got := curve{{1, 4, 5}, {2, 2, nan}, {3, 1, nan}, {4, 3, 7}, {5, 9, nan}}.halved()
	want := curve{{1, 3, 5}, {3, 2, 7}, {5, 9, nan}}
	for i := range want {
		if g, w := got[i], want[i]; len(got) != len(want) || g.Step != w.Step || g.Loss != w.Loss || g.ValLoss != w.ValLoss && finite(w.ValLoss) {
			t.Errorf("halved: %v, want %v", got, want)
		}
	}
}

// The ETA is not moved by single slow steps, and the first smoothed loss is the loss.
func TestETAAndSmoothedLoss(t *testing.T) {
	r := &run{steps: 110}
	if !math.IsNaN(r.eta()) {
		t.Errorf("ETA before the first step: %v", r.eta())
	}
	for s := int64(1); s <= 10; s++ {
		done := step(s)
		done.Record.Seconds = 2
		if s%5 == 0 {
			done.Record.Seconds = 100
		}
		done.Record.Loss = pipeline.Float(7)
		if s == 4 {
			done.Record.Loss = pipeline.Float(math.NaN())
		}
		r.add(done)
		if got := r.lossSum / r.lossWeight; math.Abs(got-7) > 1e-12 {
			t.Errorf("step %d: smoothed loss %v of a constant 7", s, got)
		}
	}
	if got, want := r.speed(), float64(r.last.Record.Tokens)/2; got != want {
		t.Errorf("speed %v, want %v, of steps of 2 s as the ETA is", got, want)
	}
	if r.eta() != 200 {
		t.Errorf("ETA %v s for 100 steps of 2 s", r.eta())
	}
	for s := int64(11); s <= 10+recentSteps; s++ { // the machine has become slower
		done := step(s)
		done.Record.Seconds = 3
		r.add(done)
	}
	if want := 3.0 * (110 - 25); r.eta() != want || len(r.recent) != recentSteps {
		t.Errorf("ETA %v s, want %v", r.eta(), want)
	}
}

func TestFormats(t *testing.T) {
	inf := math.Inf(1)
	for _, test := range []struct{ got, want string }{
		{formatSeconds(0), "0.0s"}, {formatSeconds(9.94), "9.9s"}, {formatSeconds(9.96), "10s"}, {formatSeconds(59.6), "1m00s"},
		{formatSeconds(72), "1m12s"}, {formatSeconds(3599.7), "1h00m"}, {formatSeconds(86399), "23h59m"}, {formatSeconds(3*86400 + 4*3600), "3d04h"},
		{formatSeconds(-1), "--"}, {formatSeconds(math.NaN()), "--"}, {formatSeconds(inf), "--"},
		{formatCount(0), "0"}, {formatCount(999.6), "1,000"}, {formatCount(2310.4), "2,310"}, {formatCount(1234567), "1,234,567"},
		{formatCount(-1234), "-1,234"}, {formatCount(1e15), "1.0e15"}, {formatCount(math.NaN()), "NaN"},
		{formatTiny(8.1e-4), "8.1e-4"}, {formatTiny(0), "0.0e0"}, {formatTiny(1e10), "1.0e10"}, {formatTiny(inf), "+Inf"},
		{formatLoss(5.2134, 3), "5.213"}, {formatLoss(0, 2), "0.00"}, {formatLoss(12345, 3), "1.2e4"}, {formatLoss(1e-5, 3), "1.0e-5"},
		{formatLoss(-inf, 3), "-Inf"}, {formatLoss(math.NaN(), 3), "NaN"},
		{clip("abcdef", 6), "abcdef"}, {clip("abcdef", 4), "abc…"}, {clip("abc", 1), "…"}, {clip("abc", 0), ""}, {clip("日本語", 5), "日本…"}, {clip("日本語", 4), "日…"},
		{printable("a\tb\x1b[1mc\nd", true), "a    b?[1mc\nd"}, {printable("a\nb", false), "a?b"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
