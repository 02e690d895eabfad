package enginetest

import (
	"testing"

	"andrea/model"
)

// The plain engine is one goroutine of slow loops: short runs, such as those of the race
// detector, take the shapes that are cheap.
func TestPlainEngine(t *testing.T) {
	check := Run
	if testing.Short() {
		check = RunSmall
	}
	check(t, func(_ *testing.T, cfg model.Config, microbatch, slots int) model.Engine {
		return NewPlain(cfg, microbatch, slots)
	})
}

func TestPlainOps(t *testing.T) { RunOps(t, plainOps[float32]()) }
