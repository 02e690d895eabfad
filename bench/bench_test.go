package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"andrea/cpuengine"
	"andrea/model"
)

// tiny is a shape whose every measurement takes milliseconds, on any path.
func tiny() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 16, 2, 1, 48, 65
	return c
}

func testMeter(t *testing.T, ctx context.Context) *meter {
	t.Helper()
	bench, err := cpuengine.NewWorkbench(2, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bench.Close)
	return newMeter(ctx, bench)
}

func checkTiming(t *testing.T, what string, x Timing) {
	t.Helper()
	if x.Rounds < 1 || x.Rounds > max(maxRounds, maxTurns) || !(x.Seconds > 0) || !(x.Fastest > 0) || x.Fastest > x.Seconds || !(x.Peak > 0) {
		t.Errorf("%s: %+v", what, x)
	}
}

func TestMeasurementsOfATinyModel(t *testing.T) {
	m, c := testMeter(t, t.Context()), tiny()
	for _, windows := range []int{1, 3} {
		training, err := train(m, subject{config: c, budget: time.Second}, windows)
		if err != nil {
			t.Fatal(err)
		}
		checkTiming(t, "training", training.Timing)
		tokens := windows * c.Context
		if training.Tokens != tokens || training.FLOPs != float64(tokens)*float64(c.FLOPsPerToken()) || training.EngineBytes <= 0 || len(training.Parts) != 6 {
			t.Errorf("training: %+v", training)
		}
		for _, p := range training.Parts {
			if p.Seconds < 0 {
				t.Errorf("part %s took %v s", p.Name, p.Seconds)
			}
		}
	}
	decoding, err := decode(m, c)
	if err != nil {
		t.Fatal(err)
	}
	checkTiming(t, "decoding", decoding.Timing)
	products, err := products(m, c)
	if err != nil || len(products) != 15 {
		t.Fatalf("%d products, %v", len(products), err)
	}
	different := map[float64]bool{}
	for _, p := range products {
		checkTiming(t, p.Layer+p.Way, p.Timing)
		different[p.Seconds] = true
	}
	if len(different) < 2 {
		t.Errorf("all products take %v s", products[0].Seconds)
	}
	if p := products[12]; p.Layer != "head" || p.In != 16 || p.Out != 65 || p.FLOPs != 2*1024*16*65 {
		t.Errorf("product %+v", p)
	}
	attentions, err := attentions(m, c)
	if err != nil || len(attentions) != 2 {
		t.Fatalf("%+v, %v", attentions, err)
	}
	if f := attentions[0].FLOPs; f != 2*48*48*16 || attentions[1].FLOPs != 2*f {
		t.Errorf("attention %+v", attentions)
	}
}

func TestACancelledMeasurementEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, c := testMeter(t, ctx), tiny()
	_, trained := train(m, subject{config: c, budget: time.Hour}, 1)
	_, multiplied := products(m, c)
	_, attended := attentions(m, c)
	_, ran := Run(ctx, Options{})
	for _, err := range []error{trained, multiplied, attended, ran} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
}

// A failure ends a measurement in an untimed call as well as in a timed one.
func TestAFailureEndsAMeasurement(t *testing.T) {
	m, broken := testMeter(t, t.Context()), errors.New("broken")
	for good := range 5 {
		failing := func() func() error {
			calls := 0
			return func() error {
				if calls++; calls > good {
					return broken
				}
				return nil
			}
		}
		if _, err := m.time(time.Hour, failing()); err != broken {
			t.Errorf("after %d calls: error %v", good, err)
		}
		if _, err := m.turns(time.Hour, []func() error{failing()}); err != broken {
			t.Errorf("in turns, after %d calls: error %v", good, err)
		}
	}
}

// One round is always timed, however small the budget.
func TestRounds(t *testing.T) {
	m := testMeter(t, t.Context())
	for budget, want := range map[time.Duration]int{0: 1, time.Hour: maxRounds} {
		seconds := 0.0
		x, err := m.rounds(budget, func() (float64, error) { seconds++; return seconds, nil })
		if err != nil || x.Rounds != want || x.Fastest != 1 || x.Seconds != float64(want+1)/2 {
			t.Errorf("budget %v: %+v, %v", budget, x, err)
		}
	}
}

func TestPiecesTakeTurns(t *testing.T) {
	m := testMeter(t, t.Context())
	for budget, want := range map[time.Duration]int{0: 1, time.Hour: maxTurns} {
		changes, last := 0, -1
		piece := func(i int) func() error {
			return func() error {
				if i != last {
					changes, last = changes+1, i
				}
				return nil
			}
		}
		timings, err := m.turns(budget, []func() error{piece(0), piece(1)})
		if err != nil || len(timings) != 2 || timings[0].Rounds != want || timings[1].Rounds != want || changes != 2*want {
			t.Errorf("budget %v: %+v, %d changes, %v", budget, timings, changes, err)
		}
	}
}

// What is reported is the time of one call: of all timed ones, thousands where nothing disturbs, it is no more than has passed.
func TestARoundIsOfOneCall(t *testing.T) {
	m, calls := testMeter(t, t.Context()), 0
	start := time.Now()
	timings, err := m.turns(0, []func() error{func() error { calls++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if timed := calls - 2; timings[0].Seconds*float64(timed) > time.Since(start).Seconds() {
		t.Errorf("%d timed calls of %v s", timed, timings[0].Seconds)
	}
}

func TestRepeats(t *testing.T) {
	for took, want := range map[time.Duration]int{0: 8001, time.Millisecond: 9, 5 * time.Millisecond: 2, 8 * time.Millisecond: 2, time.Second: 1} {
		if got := repeats(took); got != want {
			t.Errorf("%v: %d, want %d", took, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{8, 1, 2, 4}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestUnitWidth(t *testing.T) {
	for _, c := range []struct {
		path     string
		measured float64
		width    float64
		reached  bool
	}{
		{"avx512", 63.9, 64, true}, {"avx512", 60.9, 64, true}, {"avx512", 60.7, 64, false}, {"avx512", 40, 64, false},
		{"avx512", 32.2, 32, true}, {"avx512", 30, 32, false}, {"avx2", 31.8, 32, true}, {"avx2", 29, 32, false}, {"avx2", 15.9, 16, true},
		{"neon", 15.9, 16, true}, {"neon", 31, 32, true}, {"neon", 30, 32, false}, {"portable", 0.4, 0, true},
	} {
		p := Peak{Path: c.path, FLOPPerCycle: c.measured, Width: unitWidth(c.path, c.measured)}
		if p.Width != c.width || p.reached() != c.reached {
			t.Errorf("%s %v: width %v, reached %v", c.path, c.measured, p.Width, p.reached())
		}
	}
}

// chain must not be something that a compiler can shorten.
func TestChainAdds(t *testing.T) {
	for _, c := range []struct{ a, b uint64 }{{3, 5}, {math.MaxUint64, 1}, {0, 0}} {
		want := c.a
		for range 2 * addsPerRound / 2 {
			want = (want + c.a) ^ c.b
		}
		if got := chain(2, c.a, c.b); got != want {
			t.Errorf("%v: %d, want %d", c, got, want)
		}
	}
}

func TestChosen(t *testing.T) {
	type training struct {
		variant string
		windows []int
	}
	for _, c := range []struct {
		variants []string
		path     string
		want     []training
	}{
		{nil, "avx2", []training{{"12m", []int{1, 4}}, {"120m", []int{2}}, {"480m", nil}}},
		{nil, portable, []training{{"12m", nil}, {"120m", nil}, {"480m", nil}}},
		{[]string{"12m"}, portable, []training{{"12m", []int{1}}}},
		{[]string{"480m", "12m"}, "avx2", []training{{"12m", []int{1, 4}}, {"480m", []int{1}}}},
	} {
		chosen, err := Options{Variants: c.variants}.chosen(c.path)
		if err != nil || !slices.EqualFunc(chosen, c.want, func(s subject, w training) bool {
			return s.config.Variant == w.variant && slices.Equal(s.windows, w.windows) && s.config.DModel > 0
		}) {
			t.Errorf("%v on %s: %+v, %v", c.variants, c.path, chosen, err)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for want, o := range map[string]Options{`"7b"`: {Variants: []string{"12m", "7b"}}, `"mmx"`: {Path: "mmx"}} {
		_, err := Run(t.Context(), o)
		for _, err := range []error{o.Check(), err} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one about %s", err, want)
			}
		}
	}
	if err := (Options{Variants: []string{"12m"}}).Check(); err != nil {
		t.Error(err)
	}
}

// made is a report of round numbers.
func made() *Report {
	x := Timing{Rounds: 5, Seconds: 2, Fastest: 1, Peak: 100e9}
	return &Report{
		Machine: Machine{CPU: "Example 9000", System: "linux/amd64", Go: "go9", Threads: 2},
		Path:    "avx2", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Peaks:      []Peak{{"avx512", 400e9, 64, 64, 3e9}, {"avx2", 200e9, 32, 32, 3e9}, {"portable", 1e9, 0.4, 0, 3e9}},
		Memory:     Bandwidth{Copy: 40e9, Read: 70e9, Bytes: 256 << 20},
		Products:   []Product{{"12m", "qkv", "forward", 384, 1152, 100e9, x}, {"12m", "out", "weight_gradient", 384, 384, 20e9, x}, {"120m", "qkv", "forward", 768, 2304, 180e9, x}},
		Attentions: []Attention{{"12m", "forward", 50e9, x}},
		Trainings:  []Training{{"120m", 1, 1024, 75e9, 100 << 20, 200 << 20, []Part{{"matmul", 1.5}, {"cross_entropy", 0.25}}, x}, {"12m", 4, 4096, 150e9, 100 << 20, 200 << 20, []Part{{"matmul", 1.5}, {"cross_entropy", 0.25}}, x}},
		Decodings:  []Decoding{{"12m", 512, 16, x}},
	}
}

func TestValues(t *testing.T) {
	r := made()
	r.settle([]float64{220e9, 110e9, 100e9})
	v := r.Values()
	for key, want := range map[string]any{
		"train.12m.fp32.w4.share": 0.75, "train.12m.fp32.w4.tokens_per_second": 2048.0, "train.12m.fp32.w4.gflops": 75.0, "train.12m.fp32.w4.rounds": 5,
		"train.12m.fp32.w4.matmul_ms": 1500.0, "train.12m.fp32.w4.cross_entropy_ms": 250.0, "train.12m.fp32.w4.peak_bytes": int64(200 << 20),
		"gemm.12m.fp32.qkv.forward.share": 0.5, "gemm.12m.fp32.share": 0.3, "gemm.120m.fp32.share": 0.9, "attention.12m.fp32.forward.gflops": 25.0,
		"decode.12m.fp32.tokens_per_second": 8.0, "peak.avx2.gflops": 220.0, "peak.avx512.gflops": 400.0, "peak.avx512.flop_per_cycle": 64.0,
		"memory.read.gbps": 70.0, "quiet": 0.5, "path": "avx2", "machine.cpu": "Example 9000", "started": "2026-01-02T03:04:05Z",
	} {
		if v[key] != want {
			t.Errorf("%s is %v, want %v", key, v[key], want)
		}
	}
	if _, err := json.Marshal(v); err != nil {
		t.Error(err)
	}
}

func TestText(t *testing.T) {
	r := made()
	r.settle([]float64{190e9})
	text := r.Text()
	for _, want := range []string{"Example 9000", "120m, 1 window ", "12m, 4 windows", "2048", "75.0 %", "cross-entropy", "12m all of these", "unknown", "32.00"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "not quiet") {
		t.Errorf("a quiet machine is called busy:\n%s", text)
	}
	r.settle([]float64{170e9})
	if !strings.Contains(r.Text(), "not quiet: those probes reached 85 %") {
		t.Errorf("a busy machine is called quiet:\n%s", r.Text())
	}
}

// A product that is faster than the peak says that the peak is wrong.
func TestCheck(t *testing.T) {
	r := made()
	if err := r.check(); err != nil {
		t.Error(err)
	}
	r.Products[2].Fastest = 0.5
	if err := r.check(); err == nil || !strings.Contains(err.Error(), "qkv forward of 120m ran at 360.0 GFLOP/s, the best probe at 200.0") {
		t.Errorf("error %v", err)
	}
}

func TestCPUName(t *testing.T) {
	for list, want := range map[string]string{
		"":                                "",
		"processor\t: 0\nmodel\t: 7\n":    "",
		"model name\t: A: B 1\nx: y\n":    "A: B 1",
		"model name : first\nmodel name:": "first",
	} {
		if got := cpuName(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func TestMemoryIsMeasured(t *testing.T) {
	if n := peakBytes(); n < 1<<20 && n != 0 {
		t.Errorf("this process has had %d bytes at most", n)
	}
}
