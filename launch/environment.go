package launch

import (
	"context"
	"fmt"
	"strings"

	"andrea/cpuengine"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/vfs"
)

// Environment is the outside world of a run.
type Environment struct {
	FS     vfs.FS
	Engine Engine
	// Bus, unless nil, wraps every connection that is opened in this process, so that
	// tests can count, lose and cut messages.
	Bus func(transport.Bus) transport.Bus
	// Version is the program and its version, written into checkpoints.
	Version string
	// Notify is told what happens in a run, in order, from one goroutine at a time.
	Notify func(pipeline.Notice)
	// Warn is told what does not end the run, such as a log that cannot be written; nil:
	// nobody is told.
	Warn func(error)
	// Preparing, when it is done, ends Create and Open, which read the whole dataset; nil:
	// nothing does.
	Preparing context.Context
	// Stop carries a reason to end the run at the last confirmed state.
	Stop <-chan string
	// Crew says who computes.
	Crew Crew
	// Serving, unless nil, is told once where the server listens and which file lets a
	// worker in; none where the server is somebody else's.
	Serving func(address, keyFile string)
	// Listen is where the embedded server listens: host and port, of this machine alone unless
	// TLSCert and TLSKey are given; empty: a port of loopback that is free.
	Listen string
	// TLSCert and TLSKey are PEM files of the embedded server's certificate and its key; empty: it
	// speaks no TLS.
	TLSCert, TLSKey string
	// Keys is a file as MakeKeys writes it, with the keys of those who connect to the embedded
	// server; empty: they are made at the first start.
	Keys string
	// NATS is a server that somebody else runs; without URL the run has an embedded one.
	NATS Remote
	// HTTP is where the coordinator answers probes; empty: nowhere.
	HTTP string
}

// Crew is the workers of a run. The zero value is one worker in this process.
type Crew struct {
	Workers   int      // how many train together; 0 counts as 1
	Command   []string // starts 'andrea worker'; the run starts Workers child processes with it
	Elsewhere bool     // they are started by somebody else, with the key in the run's folder
}

// Engine is a kind of engine that workers can be given.
type Engine struct {
	Class  string // engine class
	Device string // for people
	// Vectors are the passes over gradients on their way; nil: in plain Go.
	Vectors model.Vectors
	// Open allocates an engine for microbatches of so many windows and so many
	// gradient slots; none: for inference alone.
	Open func(c model.Config, microbatch, slots int) (model.Engine, error)
}

// preparing is Preparing, or a context that is never done.
func (e Environment) preparing() context.Context {
	if e.Preparing == nil {
		return context.Background()
	}
	return e.Preparing
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

// CheckJob refuses a job that asks for an engine which this program does not have.
func (e Engine) CheckJob(spec pipeline.JobSpec) error {
	kind, _, _ := strings.Cut(e.Class, "-")
	if wanted := spec.Engine; wanted != "auto" && wanted != kind && wanted != e.Class {
		return fmt.Errorf("checking the job: engine is %q: this program has %q (engine class %s): write that, or auto", wanted, kind, e.Class)
	}
	return nil
}
