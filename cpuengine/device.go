package cpuengine

import (
	"fmt"
	"runtime"

	"andrea/cpuengine/internal/kernel"
	"andrea/cpuengine/internal/pool"
	"andrea/model"
)

// Class is the engine class of every engine of this package.
func Class() string { return model.EngineClass("cpu", "fp32") }

// Device describes for people what an engine with these options would compute on,
// before one is opened: Threads and Path alone matter. It fails for a path that this
// machine lacks.
func Device(o Options) (string, error) {
	path, err := choosePath(o.Path)
	if err != nil {
		return "", err
	}
	threads := o.Threads
	if threads == 0 {
		threads = min(runtime.GOMAXPROCS(0), MaxThreads)
	}
	return describe(path, threads), nil
}

func choosePath(name string) (*kernel.Path, error) {
	if name == "" {
		return kernel.Paths()[0], nil
	}
	path, err := kernel.PathByName(name)
	if err != nil {
		return nil, fmt.Errorf("opening the CPU engine: %w", err)
	}
	return path, nil
}

func describe(path *kernel.Path, threads int) string {
	return fmt.Sprintf("%s/%s %s, %d threads", runtime.GOOS, runtime.GOARCH, path, threads)
}

// device is what every operation computes with.
type device struct {
	path *kernel.Path
	pool *pool.Pool
	gemm *kernel.Gemm
}
