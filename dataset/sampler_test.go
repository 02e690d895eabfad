package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIndex(t *testing.T) {
	for _, test := range []struct {
		tokens   uint64
		context  int
		fraction float64
		want     Index
	}{
		{5, 4, 0, Index{5, 4, 1, 1, 0, 0}},
		{8, 4, 0, Index{8, 4, 1, 1, 0, 3}},
		{9, 4, 0, Index{9, 4, 2, 2, 0, 0}},
		{9, 4, 1e-300, Index{9, 4, 2, 1, 1, 0}},
		{9, 4, 0.5, Index{9, 4, 2, 1, 1, 0}},
		{9, 4, 0.51, Index{9, 4, 2, 0, 2, 0}},
		{5, 4, 0.005, Index{5, 4, 1, 0, 1, 0}},
		{2, 1, 0, Index{2, 1, 1, 1, 0, 0}},
		{1_000_000_000_001, 1024, 0.005, Index{1_000_000_000_001, 1024, 976_562_500, 971_679_687, 4_882_813, 0}},
		{1 << 56, 1, 0.9999999999999999, Index{1 << 56, 1, 1<<56 - 1, 0, 1<<56 - 1, 0}},
	} {
		got, err := NewIndex(test.tokens, test.context, test.fraction)
		if err != nil {
			t.Fatal(err)
		}
		if test.tokens == 1<<56 { // only the sums matter where a float64 cannot hold N
			test.want.Training, test.want.Validation = got.Training, got.Windows-got.Training
		}
		if got != test.want {
			t.Errorf("NewIndex(%d, %d, %v) = %+v, want %+v", test.tokens, test.context, test.fraction, got, test.want)
		}
	}
}

func TestIndexRefuses(t *testing.T) {
	for _, test := range []struct {
		tokens   uint64
		context  int
		fraction float64
		want     []string // every one must occur: all faults are named at once
	}{
		{1024, 1024, 0, []string{"1024 tokens", "context 1024 needs 1025"}},
		{0, 4, 1, []string{"0 tokens", "needs 5", "fraction: 1 is not"}},
		{9, 0, math.NaN(), []string{"context: 0 is not", "fraction: NaN is not"}},
		{9, -4, -0.1, []string{"context: -4 is not", "fraction: -0.1 is not"}},
		{9, math.MaxInt, math.Inf(1), []string{"context: 9223372036854775807 is not", "fraction: +Inf is not"}},
		{1<<56 + 1, 4, 0, []string{"72057594037927937 tokens"}},
	} {
		ix, err := NewIndex(test.tokens, test.context, test.fraction)
		mustName(t, err, test.want)
		if ix != (Index{}) {
			t.Errorf("a refused index is %+v", ix)
		}
	}
}

func mustName(t *testing.T, err error, words []string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted; want an error with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not contain %q", err, word)
		}
	}
}

func TestValidationWindows(t *testing.T) {
	ix, err := NewIndex(101, 10, 0.25) // 10 windows, 3 of them held out
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{-1: "[]", 0: "[]", 2: "[7 8]", 3: "[7 8 9]", math.MaxInt: "[7 8 9]"} {
		if got := fmt.Sprint(ix.ValidationWindows(n)); got != want {
			t.Errorf("%d windows: %s, want %s", n, got, want)
		}
	}
	if start, count := ix.Span(7); start != 70 || count != 11 {
		t.Errorf("window 7 is at %d, %d tokens", start, count)
	}
}

func TestSamplerRefuses(t *testing.T) {
	ix, err := NewIndex(161, 16, 0.1) // 10 windows, 9 for training
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		batching Batching
		want     []string
	}{
		{Batching{TokensPerStep: 160, Lanes: 2, Microbatch: 1}, []string{"9 training windows", "1 more", "needs 10"}},
		{Batching{TokensPerStep: 100, Lanes: 4, Microbatch: 3}, []string{"100 is not a multiple", "= 192", "remainder is 100"}},
		{Batching{TokensPerStep: 0, Lanes: 3, Microbatch: -1}, []string{"tokens_per_step: 0", "lanes: 3 is not a power", "microbatch: -1"}},
		{Batching{TokensPerStep: math.MaxInt, Lanes: math.MinInt, Microbatch: math.MaxInt}, []string{"tokens_per_step:", "lanes:", "microbatch:"}},
		{Batching{TokensPerStep: 1 << 40, Lanes: 1 << 16, Microbatch: 1 << 16}, []string{"needs 68719476736"}},
	} {
		s, err := NewSampler(ix, test.batching)
		mustName(t, err, test.want)
		if s != nil {
			t.Errorf("%+v: a sampler besides an error", test.batching)
		}
	}
	_, err = NewSampler(Index{}, Batching{TokensPerStep: 16, Lanes: 1, Microbatch: 1})
	mustName(t, err, []string{"context 0"})
	_, err = NewSampler(Index{Context: maxContext, Training: 1}, Batching{TokensPerStep: 1 << 40, Lanes: 1 << 16, Microbatch: 1 << 16})
	mustName(t, err, []string{"not a multiple"})
}

func TestSamplerRefusesPlaces(t *testing.T) {
	ix, _ := NewIndex(161, 16, 0)
	s, err := NewSampler(ix, Batching{TokensPerStep: 128, Lanes: 2, Microbatch: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []struct {
		step              uint64
		lane, microbatch  int
		mustContain, name string
	}{
		{0, 0, 0, "step 0", "steps count from 1"},
		{math.MaxUint64, 0, 0, "step 18446744073709551615", "no overflow"},
		{1, 2, 0, "lane 2", "lanes"},
		{1, -1, 0, "lane -1", "lanes"},
		{1, 0, 2, "microbatch 2", "microbatches"},
		{1, 0, -1, "microbatch -1", "microbatches"},
	} {
		got, err := s.Append([]uint64{5}, place.step, place.lane, place.microbatch)
		mustName(t, err, []string{place.mustContain})
		if !slices.Equal(got, []uint64{5}) {
			t.Errorf("%s: dst became %v", place.name, got)
		}
	}
	if _, err := s.Append(nil, s.maxStep(), 1, 1); err != nil {
		t.Errorf("the last possible step: %v", err)
	}
}

// The order is part of what a run means: other numbers here are another training run for everybody.
func TestSamplerGolden(t *testing.T) {
	ix, _ := NewIndex(201, 8, 0.05) // 25 windows, 23 for training
	s, err := NewSampler(ix, Batching{TokensPerStep: 128, Lanes: 4, Microbatch: 2, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for step := uint64(1); step <= 3; step++ {
		fmt.Fprintf(&got, "step %d epoch %d:", step, s.Epoch(step))
		for lane := range 4 {
			for m := range s.MicrobatchesPerLane() {
				windows, err := s.Append(nil, step, lane, m)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(&got, " ", windows)
			}
		}
		got.WriteByte('\n')
	}
	if got.String() != goldenSteps {
		t.Errorf("windows:\n%swant:\n%s", got.String(), goldenSteps)
	}
}

// For random shapes: taken in the order step, lane, microbatch, every epoch holds each training
// window exactly once and no validation window; Epoch agrees; and any order of asking gives the same.
func TestSamplerCoversEveryEpochOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Batching{
			Lanes:      1 << rapid.IntRange(0, 4).Draw(t, "log lanes"),
			Microbatch: rapid.IntRange(1, 4).Draw(t, "microbatch"),
			Seed:       rapid.Uint64().Draw(t, "seed"),
		}
		context := rapid.IntRange(1, 5).Draw(t, "context")
		perLane := rapid.IntRange(1, 3).Draw(t, "microbatches per lane")
		b.TokensPerStep = b.Lanes * b.Microbatch * perLane * context
		perStep := b.TokensPerStep / context
		windows := perStep + 1 + rapid.IntRange(0, 3*perStep).Draw(t, "more windows")
		ix, err := NewIndex(uint64(windows*context+1), context, rapid.SampledFrom([]float64{0, 1e-9, 0.05}).Draw(t, "fraction"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSampler(ix, b)
		if err != nil {
			if ix.Training < uint64(perStep) {
				t.Skip("too few windows for this batching, and it said so")
			}
			t.Fatal(err)
		}
		checkEpochs(t, s, ix, b, perLane)
	})
}

func checkEpochs(t *rapid.T, s *Sampler, ix Index, b Batching, perLane int) {
	if s.MicrobatchesPerLane() != perLane || s.WindowsPerStep() != b.Lanes*b.Microbatch*perLane {
		t.Fatalf("%d microbatches a lane, %d windows a step", s.MicrobatchesPerLane(), s.WindowsPerStep())
	}
	var stream []uint64
	for step := uint64(1); uint64(len(stream)) < 3*ix.Training; step++ {
		if epoch := uint64(len(stream)) / ix.Training; s.Epoch(step) != epoch {
			t.Fatalf("step %d: epoch %d, want %d", step, s.Epoch(step), epoch)
		}
		for place := range b.Lanes * perLane {
			var err error
			if stream, err = s.Append(stream, step, place/perLane, place%perLane); err != nil {
				t.Fatal(err)
			}
		}
	}
	for epoch := range uint64(3) {
		windows := slices.Clone(stream[epoch*ix.Training : (epoch+1)*ix.Training])
		slices.Sort(windows)
		for i, w := range windows {
			if w != uint64(i) {
				t.Fatalf("epoch %d: sorted window %d is %d", epoch, i, w)
			}
		}
	}
	fresh, _ := NewSampler(ix, b) // no memory: the last place of step 2 asked first
	if got, _ := fresh.Append(nil, 2, b.Lanes-1, perLane-1); !slices.Equal(got, stream[2*s.WindowsPerStep()-b.Microbatch:2*s.WindowsPerStep()]) {
		t.Fatalf("asked alone, step 2 ends with %v", got)
	}
}

func TestSamplerAtATrillionTokens(t *testing.T) {
	ix, err := NewIndex(1_000_000_000_000, 1, 0.005)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSampler(ix, Batching{TokensPerStep: 1 << 20, Lanes: 64, Microbatch: 1 << 14, Seed: math.MaxUint64})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Epoch(10_000_000), (10_000_000-1)*uint64(1<<20)/ix.Training; got != want || got < 10 {
		t.Errorf("epoch %d, want %d", got, want)
	}
	windows, err := s.Append(nil, 10_000_000, 63, 0)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(windows)
	if windows[len(windows)-1] >= ix.Training || len(slices.Compact(windows)) != 1<<14 {
		t.Error("windows are out of range or repeated")
	}
	if s.Epoch(0) != 0 || s.Epoch(math.MaxUint64) != s.Epoch(s.maxStep()) {
		t.Error("Epoch outside the steps")
	}
}
