package sim

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"andrea/enginetest"
)

var (
	update = flag.Bool("update", false, "write the golden table of the coverage anew")
	seeds  = flag.Int("seeds", 0, "how many seeds TestSeeds runs; 0: 2200, or 100000 with ANDREA_TEST_EVERYTHING")
	first  = flag.Uint64("first", 0, "the seed that TestSeeds begins with")
	enough = flag.Int("enough", 5, "after how many failed seeds TestSeeds ends")
)

// report fails the test for a run that violated something, with the last lines of its story.
func report(t *testing.T, r Result, o Options) {
	t.Helper()
	if r.Failure == "" {
		return
	}
	var story []string
	o.Trace = func(line string) { story = append(story, line) }
	func() {
		defer func() { _ = recover() }() // a panic of the machines is r.Failure already
		Run(r.Seed, o)
	}()
	t.Errorf("seed %d, %d workers: %s\nrepeat it: ANDREA_TEST_SEED=%d go test ./pipeline/sim -run TestOneSeed -v\n%s",
		r.Seed, r.Workers, r.Failure, r.Seed, strings.Join(story[max(0, len(story)-25):], "\n"))
}

// One seed, with everything that happens.
func TestOneSeed(t *testing.T) {
	text := os.Getenv("ANDREA_TEST_SEED")
	if text == "" {
		t.Skip("ANDREA_TEST_SEED names no seed to repeat")
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("ANDREA_TEST_SEED: %v", err)
	}
	r := Run(seed, Options{Trace: func(line string) { fmt.Println(line) }})
	t.Logf("%d workers, %d events in %d ticks, %d restarts, excused %q", r.Workers, r.Events, r.Ticks, r.Restarts, r.Excused)
	if r.Failure != "" {
		t.Errorf("seed %d: %s", seed, r.Failure)
	}
}

// ciSeeds is how many seeds TestSeeds runs when nothing else is said.
const ciSeeds = 2200

func everything() bool { return os.Getenv("ANDREA_TEST_EVERYTHING") != "" }

// wanted is how many seeds to run. Few of them do not meet every state.
func wanted() (n int, all bool) {
	switch {
	case *seeds > 0:
		return *seeds, false
	case testing.Short():
		return 100, false
	case everything():
		return 100_000, true
	}
	return ciSeeds, true
}

// Whole jobs with faults, each from a fixed seed; the faults strike in every state.
func TestSeeds(t *testing.T) {
	n, all := wanted()
	var total Result
	failed, excused, restarted, joined := 0, 0, 0, 0
	for seed := *first; seed < *first+uint64(n); seed++ {
		r := Run(seed, Options{})
		report(t, r, Options{})
		if failed += count(r.Failure != ""); failed == *enough {
			t.Fatal("these are enough")
		}
		total.Coverage.Add(r.Coverage)
		total.Events += r.Events
		total.Errors += r.Errors
		total.Rest = max(total.Rest, r.Rest)
		excused += count(r.Excused != "")
		restarted += count(r.Restarts > 0)
		joined += count(r.Joined > 0)
		if done := seed - *first + 1; done%5000 == 0 {
			t.Logf("%d seeds are done", done)
		}
	}
	t.Logf("%d seeds, %d events, %d with a coordinator's restart, %d with late joiners, %d errors that were justified, %d excused; done at the latest %d ticks after the faults",
		n, total.Events, restarted, joined, total.Errors, excused, total.Rest)
	t.Logf("strikes by the coordinator's and the worker's states:\n%s", total.Coverage)
	if all && (100*excused > 3*n || 100*restarted < 90*n || 100*joined < 60*n) {
		t.Errorf("of %d seeds %d are excused, %d have a restart and %d late joiners: too many or too few", n, excused, restarted, joined)
	}
	if all {
		required(t, "testdata/coverage.txt", total.Coverage.Cells())
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// required fails where the golden table has a strike and this one has none.
func required(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != len(got) {
		t.Fatalf("%s has other faults or states (-update writes it anew):\n%s", path, got)
	}
	for i := range got {
		if want[i] != got[i] && got[i] != 'x' {
			t.Fatalf("a fault has not struck in a state in which %s has it (-update writes that anew):\n%s", path, got)
		}
	}
}

// Without faults nothing goes wrong at all.
func TestQuietRuns(t *testing.T) {
	for seed := range uint64(100) {
		r := Run(seed, Options{Quiet: true})
		report(t, r, Options{Quiet: true})
		if r.Errors+r.Restarts > 0 || r.Excused != "" {
			t.Errorf("seed %d: %d errors, %d restarts, excused %q", seed, r.Errors, r.Restarts, r.Excused)
		}
	}
}

// The same on an engine that computes the job's model.
func TestRunsOnARealEngine(t *testing.T) {
	for seed := range uint64(12) {
		o := Options{Open: enginetest.NewPlain}
		report(t, Run(seed, o), o)
	}
}

// A run is a function of its seed.
func TestASeedRepeats(t *testing.T) {
	for seed := range uint64(20) {
		if a, b := Run(seed, Options{}), Run(seed, Options{}); a != b {
			t.Errorf("seed %d: %+v and then %+v", seed, a, b)
		}
	}
}
