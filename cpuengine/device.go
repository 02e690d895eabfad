package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/cpuengine/internal/pool"
)

// device is what every operation computes with.
type device struct {
	path *kernel.Path
	pool *pool.Pool
	gemm *kernel.Gemm
}
