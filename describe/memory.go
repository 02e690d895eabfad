package describe

import "andrea/model"

// Memory is what a run with one worker in its process takes, in bytes, after some steps and a checkpoint.
type Memory struct {
	State       int64 `json:"state"`       // weights and both moments, 12 for each parameter
	Gradients   int64 `json:"gradients"`   // all slots
	Activations int64 `json:"activations"` // of one microbatch, and the scratch memory of the threads
	Snapshot    int64 `json:"snapshot"`    // the copy of the state that checkpoints are written from
	Garbage     int64 `json:"garbage"`     // what the Go runtime lets lie before it collects
	Program     int64 `json:"program"`     // the program, its server, and buffers of fixed size
	Total       int64 `json:"total"`
}

const (
	floatBytes = 4
	stateParts = 3 // weights, first and second moments

	// programBytes is what a run of a model of no size takes, as measured.
	programBytes = 40 << 20
)

func memoryOf(c model.Config, s Setting, slots int) Memory {
	vector := c.Parameters() * floatBytes
	m := Memory{State: stateParts * vector, Gradients: int64(slots) * vector, Snapshot: stateParts * vector, Program: programBytes}
	m.Activations = s.EngineBytes - m.State - m.Gradients
	// The runtime begins to collect at GCPercent and goes on to allocate until it has finished: half as
	// much again, as measured.
	m.Garbage = (s.EngineBytes + m.Snapshot) / 200 * 3 * int64(s.GCPercent)
	m.Total = s.EngineBytes + m.Snapshot + m.Garbage + m.Program
	return m
}
