//go:build cuda && cgo && linux

package cudaengine

import (
	"errors"
	"fmt"
	"math"

	"andrea/model"
)

// trains reports whether the engine holds gradients.
func (o Options) trains() bool { return o.Slots > 0 }

// check lists the faults of the options.
func (o Options) check(c model.Config) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("opening the CUDA engine: the shape is not valid: %w", err)
	}
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("opening the CUDA engine: "+format, args...))
	}
	if o.Microbatch < 1 || o.Microbatch > MaxMicrobatch {
		add("microbatch is %d: must be between 1 and %d", o.Microbatch, MaxMicrobatch)
	}
	if o.Slots < 0 || o.Slots > MaxSlots {
		add("slots is %d: must be between 0 and %d", o.Slots, MaxSlots)
	}
	if o.Precision != FP32 && o.Precision != BF16 {
		add("precision is %q: must be %q or %q", o.Precision, FP32, BF16)
	}
	if o.GEMM != "" && o.GEMM != OwnGEMM && o.GEMM != CuBLASLt {
		add("gemm is %q: must be %q or %q", o.GEMM, OwnGEMM, CuBLASLt)
	}
	// Kernels count elements in 32 bits.
	if widest := int64(o.Microbatch) * int64(c.Context) * 4 * int64(c.DModel); len(errs) == 0 && widest > math.MaxInt32 {
		add("%d windows of %d tokens have %d activations after fc1: at most %d are supported: lower the microbatch", o.Microbatch, c.Context, widest, math.MaxInt32)
	}
	return errors.Join(errs...)
}
