package enginetest

import (
	"testing"

	"andrea/model"
)

func TestPlainEngine(t *testing.T) {
	Run(t, func(_ *testing.T, cfg model.Config, microbatch, slots int) model.Engine {
		return NewPlain(cfg, microbatch, slots)
	})
}

func TestPlainOps(t *testing.T) { RunOps(t, plainOps[float32]()) }
