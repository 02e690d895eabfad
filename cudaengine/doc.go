// Package cudaengine is the model.Engine of NVIDIA GPUs: the kernels of package kernels on one device, launched
// through package driver.
//
// Its bits depend on the shapes, the precision and the GPU model only. In "fp32" everything is IEEE float32, the mode
// in which it is compared with other engines. In "bf16" products read bfloat16 and add in float32; the residual
// stream, master weights, moments and gradients stay float32.
//
// With CuBLASLt that library multiplies, and everything else stays as it is. It is asked for an algorithm once for every
// shape, which it keeps. Its version is part of the engine class. Which algorithm it chooses is up to it, so that here, unlike
// with our own kernels, a row of a product may have other bits in a batch of another size. Software has tested the calls;
// the library itself was never run.
//
// All memory is one arena, sized before the first step; the calls of a step allocate nothing on the device. Products
// and everything else run in one stream; a second one copies what the host prepares meanwhile. After an error of the
// driver that stays, every call fails until the engine is closed and another is opened.
//
// A program has this engine if it was built with tag cuda, see internal/driver/build.sh; otherwise Open says so.
package cudaengine

// Precisions of an engine.
const (
	FP32 = "fp32"
	BF16 = "bf16"
)

// What multiplies matrices.
const (
	OwnGEMM  = "own"      // the kernels of package kernels
	CuBLASLt = "cublaslt" // NVIDIA's library, opened at run time
)

// Limits of the options.
const (
	MaxMicrobatch = 1 << 10
	MaxSlots      = 1 << 6
)

// Options are what Open needs besides the model. Precision, GEMM (with the library's
// version) and the device's model decide the bits, the others do not.
//
// Without slots the engine serves inference alone: Eval and Logits. It holds the weights but neither moments nor
// gradients nor what only the backward pass needs, and refuses the calls that do.
type Options struct {
	Microbatch int    // most windows of one batch, 1 to MaxMicrobatch
	Slots      int    // gradients held at a time, 0 to MaxSlots; model.Slots(lanes) for a tree
	Device     int    // from 0, as nvidia-smi counts
	Precision  string // FP32 or BF16
	GEMM       string // OwnGEMM or CuBLASLt; empty: OwnGEMM
}

// Device says what a GPU of this machine is.
type Device struct {
	Ordinal    int    // from 0, as nvidia-smi counts
	Name       string // the GPU model's
	Capability string // compute capability, such as "9.0"
	Bytes      int64  // memory in all
	Driver     string // newest CUDA version that the driver knows, such as "13.0"
	Text       string // all of that, for people
	FP32, BF16 string // engine class in each precision, with the GEMM that was asked for; empty: the GPU is too old
}
