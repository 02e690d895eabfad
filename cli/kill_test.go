package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"andrea/launch"
	"andrea/pipeline/transport"
	"andrea/vfs"
)

// seedVariable sets the seed of what is drawn in a test.
const seedVariable = "ANDREA_TEST_SEED"

// drawing is a generator of random numbers whose seed the test's log tells.
func drawing(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("drawn with %s=%d", seedVariable, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// few is how many cases are drawn of many.
func few(n int) int {
	if os.Getenv(everythingVariable) != "" {
		return 10 * n
	}
	return n
}

// wholeRun trains the tiny run undisturbed, and returns its sums and how many file
// operations, engine calls and control messages it took.
func wholeRun(t *testing.T) (want string, operations, calls, messages int) {
	t.Helper()
	p := newPlace(t)
	data := p.prepared()
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	var done, called, sent atomic.Int64
	engine.Open = counting(engine.Open, func() error { called.Add(1); return nil })
	count := func(b transport.Bus) transport.Bus {
		return countingBus{b, func() error { sent.Add(1); return nil }, nothing}
	}
	o := outside{engine: engine, bus: count, fs: &countingFS{FS: vfs.OS, before: onFile(func() error { done.Add(1); return nil })}}
	if r := p.here(o, p.trainHere(data, "runs/demo")...); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	return p.sums("runs/demo"), int(done.Load()), int(called.Load()), int(sent.Load())
}

// Killed in any file operation or engine call, before or after any message, and killed
// again while it resumes: the same bits.
func TestAProcessKilledAnywhere(t *testing.T) {
	want, operations, calls, messages := wholeRun(t)
	rng := drawing(t)
	for _, c := range []struct {
		fault   string
		of      int
		workers string
	}{
		{"kill-operation", operations, "1"}, {"kill-engine", calls, "1"}, {"kill-operation", operations, "2"},
		{"kill-before-message", messages, "1"}, {"kill-after-message", messages, "1"}, {"kill-after-message", messages / 2, "2"},
	} {
		for range few(1) {
			first, second := 1+rng.IntN(c.of), 1+rng.IntN(c.of)
			t.Run(fmt.Sprintf("%s %d, %d, workers %s", c.fault, first, second, c.workers), func(t *testing.T) {
				p := newPlace(t)
				p.text()
				p.run(fmt.Sprintf("%s:%d", c.fault, first), append(slices.Clone(tiny), "--workers", c.workers)...)
				if _, err := os.Stat(filepath.Join(p.dir, "runs/demo/job.yaml")); err != nil {
					if r := p.run("", tiny...); r.code != 0 { // there was no run yet
						t.Fatalf("beginning again: exit %d\n%s", r.code, r.stderr)
					}
				}
				p.run(fmt.Sprintf("%s:%d", c.fault, second), "resume", "demo", "--workers", c.workers)
				if r := p.run("", "resume", "demo"); r.code != 0 {
					t.Fatalf("resume: exit %d\n%s", r.code, r.stderr)
				}
				if got := p.sums("runs/demo"); got != want {
					t.Errorf("other bits:\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// A worker that is lost is named and started again, and the run ends in the same bits.
func TestALostWorkerCostsNoBits(t *testing.T) {
	want, _, calls, _ := wholeRun(t)
	rng := drawing(t)
	for range few(1) {
		n := 2 + rng.IntN(calls/8) // which worker-1 reaches whatever its share is
		t.Run(fmt.Sprintf("in engine call %d", n), func(t *testing.T) {
			p := newPlace(t)
			p.text()
			r := p.run(fmt.Sprintf("kill-worker-1:%d", n), append(slices.Clone(tiny), "--workers", "2")...)
			if r.code != 0 || !strings.Contains(r.stderr, "worker worker-1 was lost: its process ended") {
				t.Fatalf("exit %d\n%s", r.code, r.stderr)
			}
			if got := p.sums("runs/demo"); got != want {
				t.Errorf("other bits:\n%s\nwant\n%s", got, want)
			}
		})
	}
}
