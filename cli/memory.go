package cli

import (
	"runtime/debug"

	"andrea/launch"
	"andrea/model"
)

// gcPercent is how much garbage the Go runtime lets lie while a run trains, in
// percent of the memory in use. A run holds a few huge blocks without pointers, so
// collecting costs next to nothing, and Go's default of 100 would double the memory
// that a model needs.
const gcPercent = 10

// garbageBytes is how much garbage a large model may leave. A run makes it by messages,
// whatever the model's size, and every percent of a model of 480 million is 200 MB.
const garbageBytes = 256 << 20

// gcPercentOf is the percentage for a run that holds so many bytes.
func gcPercentOf(bytes int64) int {
	return int(max(1, min(gcPercent, garbageBytes*100/max(1, bytes))))
}

// heldBytes is what a run in this process holds: its engine, and its copy for
// checkpoints of weights and both moments.
func heldBytes(c model.Config, engine int64) int64 { return engine + 12*c.Parameters() }

// sumGarbage is how much garbage a process that only coordinates may leave, in bytes. All messages between its
// workers make it, some 100 MiB a step of the variant 12m, so a tenth of the little that such a process holds
// would have it collect some thirty times a step: a quarter of its processor time.
const sumGarbage = 64 << 20

// coordinatorBytes is what a process that only coordinates holds besides the root, in bytes.
const coordinatorBytes = 32 << 20

// gcPercentOfCoordinator is the percentage for a run whose engines are in other processes.
func gcPercentOfCoordinator(c model.Config) int {
	held := coordinatorBytes + 4*c.Parameters()
	return max(gcPercentOf(held), int(sumGarbage*100/held))
}

// frugal has the runtime collect at a percentage until the function that it returns is called. Engines of
// frugalEngine change it when they are opened meanwhile.
func frugal(percent int) (restore func()) {
	former := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(former) }
}

// frugalEngine is an engine that, opened for training, has the runtime collect as
// gcPercentOf says.
func frugalEngine(e launch.Engine) launch.Engine {
	if e.Open == nil {
		return e // there is none
	}
	if e.BF16 != nil {
		bf16 := frugalEngine(*e.BF16)
		e.BF16 = &bf16
	}
	open := e.Open
	e.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
		engine, err := open(c, microbatch, slots)
		if err == nil && slots > 0 {
			held := engine.Info().Bytes
			if model.ClassKind(e.Class) == launch.EngineCUDA {
				held = 0 // a GPU has memory of its own
			}
			debug.SetGCPercent(gcPercentOf(heldBytes(c, held)))
		}
		return engine, err
	}
	return e
}
