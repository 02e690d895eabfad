package cpuengine

import (
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/enginetest"
	"andrea/model"
)

// The portable path gives the same bits and is some fifty times slower, so it runs
// the small suite where a faster path runs the whole one.
func TestSuite(t *testing.T) {
	for i, path := range kernel.Paths() {
		run := enginetest.Run
		if i > 0 {
			run = enginetest.RunSmall
		}
		if underRace {
			run = enginetest.RunSmall
		}
		t.Run(path.String(), func(t *testing.T) {
			skipUnderRace(t, i)
			run(t, func(t *testing.T, c model.Config, microbatch, slots int) model.Engine {
				e, err := New(c, Options{Microbatch: microbatch, Slots: slots, Threads: 2, Path: path.String()})
				if err != nil {
					t.Fatal(err)
				}
				return e
			})
		})
	}
}

// skipUnderRace skips all paths but the first: the race detector makes the suite ten
// times slower, and the paths share the Go code that it looks at.
func skipUnderRace(t *testing.T, path int) {
	if underRace && path > 0 {
		t.Skip("under the race detector the fastest path runs alone: all share the code that could race")
	}
}

func TestOperations(t *testing.T) {
	for i, path := range kernel.Paths() {
		t.Run(path.String(), func(t *testing.T) {
			skipUnderRace(t, i)
			enginetest.RunOps(t, operations(newDevice(t, path)))
		})
	}
}
