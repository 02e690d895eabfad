package launch

import (
	"context"
	"errors"
	"runtime"

	"andrea/cpuengine"
	"andrea/cudaengine"
	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/vfs"
)

// Machine is what this machine has to compute on.
type Machine struct {
	System    string   `json:"system"`    // such as "linux/amd64, go1.26.8"
	Processor string   `json:"processor"` // with its fastest instruction set and the threads, for people
	Paths     []string `json:"paths"`     // instruction sets that it has kernels for, the fastest first
	Threads   int      `json:"threads"`
	Class     string   `json:"cpu_class"`       // engine class of the processors
	Available int64    `json:"available_bytes"` // memory that an engine may take; 0: the system does not say
	GPUs      []GPU    `json:"gpus"`
	NoGPU     string   `json:"no_gpu,omitempty"` // why there is none, or none can be seen
}

// GPU is one GPU of this machine.
type GPU struct {
	Device     int      `json:"device"` // for --device
	Name       string   `json:"name"`
	Capability string   `json:"compute_capability"`
	Bytes      int64    `json:"bytes"`   // memory in all
	Driver     string   `json:"driver"`  // newest CUDA version that it knows
	Classes    []string `json:"classes"` // engine classes, fp32 and bf16; none: it is too old
	Text       string   `json:"-"`       // all of that, for people
}

// Examine looks at this machine.
func Examine() Machine {
	m := Machine{
		System: runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version(), Paths: cpuengine.Paths(), Threads: runtime.GOMAXPROCS(0),
		Class: cpuengine.Class(), Available: availableMemory(), GPUs: []GPU{},
	}
	var err error
	if m.Processor, err = cpuengine.Device(cpuengine.Options{}); err != nil {
		m.Processor = "no engine: " + err.Error()
	}
	devices, err := cudaengine.Devices(cudaengine.OwnGEMM)
	if err != nil {
		m.NoGPU = err.Error()
	}
	for _, d := range devices {
		g := GPU{Device: d.Ordinal, Name: d.Name, Capability: d.Capability, Bytes: d.Bytes, Driver: d.Driver, Classes: []string{}, Text: d.Text}
		if d.FP32 != "" {
			g.Classes = append(g.Classes, d.FP32, d.BF16)
		}
		m.GPUs = append(m.GPUs, g)
	}
	if err == nil && len(devices) == 0 {
		m.NoGPU = "the driver lists no device"
	}
	return m
}

// Reach connects to a server as a worker or an observer would, and returns its URL and the runs that are coordinated
// there. The error is a KeyError where the files or the address are at fault.
func (r Remote) Reach(ctx context.Context, fsys vfs.FS) (url string, runs []string, err error) {
	const name = "doctor"
	_, access, err := r.options(fsys, name, func(id natsbus.Identity) (natsbus.Credential, error) {
		if observer, err := id.Credential(RoleObserver); err == nil {
			return observer, nil
		}
		return id.Join(roleWorker, name)
	})
	if err != nil {
		return "", nil, err
	}
	access.Name = name
	runs, err = FindRuns(ctx, access)
	if errors.Is(err, transport.ErrDenied) {
		return access.URL, nil, nil // a user of another name than this one; the server has answered
	}
	return access.URL, runs, err
}
