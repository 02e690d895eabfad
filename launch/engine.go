package launch

import (
	"fmt"

	"andrea/cpuengine"
	"andrea/model"
	"andrea/pipeline"
)

// Engine is a kind of engine that workers can be given, in one precision.
type Engine struct {
	Class  string // engine class
	Device string // for people
	// Chosen says why it is this one, for people; empty: nothing was to be chosen.
	Chosen string
	// Vectors are the passes over gradients on their way; nil: in plain Go.
	Vectors model.Vectors
	// Open allocates an engine for microbatches of so many windows and so many
	// gradient slots; none: for inference alone.
	Open func(c model.Config, microbatch, slots int) (model.Engine, error)
	// BF16 is the same device's engine in bf16; nil: it has none.
	BF16 *Engine
}

// In is the engine in a precision. The error names both where it has not that.
func (e Engine) In(precision string) (Engine, error) {
	for _, candidate := range []*Engine{&e, e.BF16} {
		if candidate != nil && model.ClassPrecision(candidate.Class) == precision {
			chosen := *candidate
			chosen.Chosen = e.Chosen
			return chosen, nil
		}
	}
	return Engine{}, fmt.Errorf("choosing the engine: precision is %q: the engine %q has %s alone: set precision=%s in a new run, or compute on a GPU with --engine cuda",
		precision, model.ClassKind(e.Class), model.FP32, model.FP32)
}

// CheckJob refuses a job that asks for an engine which this program does not have.
func (e Engine) CheckJob(spec pipeline.JobSpec) error {
	in, err := e.In(spec.Precision)
	switch {
	case err != nil:
		return fmt.Errorf("checking the job: %w", err)
	case !model.ClassFits(in.Class, spec.Engine):
		return fmt.Errorf("checking the job: engine is %q: this program has %q (engine class %s): write that, or auto", spec.Engine, model.ClassKind(in.Class), in.Class)
	}
	return nil
}

// checkJob refuses a job for which the environment's workers have no engine. Those elsewhere bring their own.
func (e Environment) checkJob(spec pipeline.JobSpec) error {
	if e.Crew.Elsewhere {
		return nil
	}
	return e.Engine.CheckJob(spec)
}

// CPU is the engine of this machine's processors. path names an instruction set,
// "" the fastest; threads is how many run, 0 all.
func CPU(path string, threads int) (Engine, error) {
	options := cpuengine.Options{Threads: threads, Path: path}
	device, err := cpuengine.Device(options)
	if err != nil {
		return Engine{}, err
	}
	vectors, err := cpuengine.NewVectors(path)
	if err != nil {
		return Engine{}, err
	}
	return Engine{
		Class:   cpuengine.Class(),
		Device:  device,
		Vectors: vectors,
		Open: func(c model.Config, microbatch, slots int) (model.Engine, error) {
			o := options
			o.Microbatch, o.Slots = microbatch, slots
			if err := checkMemory(c, o); err != nil {
				return nil, err
			}
			return cpuengine.New(c, o)
		},
	}, nil
}

// checkMemory refuses an engine that does not fit into what is available: allocated
// anyway, it would end the process without a word.
func checkMemory(c model.Config, o cpuengine.Options) error {
	need, err := cpuengine.Bytes(c, o)
	if err != nil {
		return err
	}
	if available := availableMemory(); available > 0 && need > available {
		const gib = 1 << 30
		return fmt.Errorf("opening the CPU engine: it needs %.1f GiB and %.1f GiB are available: end other programs, lower batch.microbatch (it is %d) or batch.lanes of a new run, or take a smaller model", float64(need)/gib, float64(available)/gib, o.Microbatch)
	}
	return nil
}
