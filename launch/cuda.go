package launch

import (
	"fmt"
	"strings"

	"andrea/cpuengine"
	"andrea/cudaengine"
	"andrea/model"
)

// What --engine may be.
const (
	EngineAuto = model.AnyEngine // a GPU where there is one, else the processors
	EngineCPU  = "cpu"
	EngineCUDA = "cuda"
)

// What --gemm may be: what multiplies matrices on a GPU.
const (
	OwnGEMM  = cudaengine.OwnGEMM
	CuBLASLt = cudaengine.CuBLASLt
)

// ClassGEMM is what multiplies in an engine of a class: OwnGEMM or CuBLASLt.
func ClassGEMM(class string) string {
	if strings.Contains(class, "-"+CuBLASLt+"_") {
		return CuBLASLt
	}
	return OwnGEMM
}

// Choose is the engine that a person asks for: EngineAuto, EngineCPU or EngineCUDA, on the GPU of that number,
// as nvidia-smi counts, where OwnGEMM or CuBLASLt multiplies. What it found by EngineAuto is told in Chosen.
func Choose(choice string, device int, gemm string) (Engine, error) {
	if gemm != OwnGEMM && gemm != CuBLASLt {
		return Engine{}, fmt.Errorf("choosing the engine: --gemm is %q: choose %s or %s", gemm, OwnGEMM, CuBLASLt)
	}
	switch choice {
	case EngineCPU:
		if gemm != OwnGEMM {
			return Engine{}, fmt.Errorf("choosing the engine: --gemm is %s: that multiplies on GPUs alone: leave it out, or take --engine %s", gemm, EngineCUDA)
		}
		return CPU("", 0)
	case EngineCUDA:
		return CUDA(device, gemm)
	case EngineAuto:
		engine, err := CUDA(device, gemm)
		if gemm != OwnGEMM && err != nil {
			return Engine{}, err // the processors are not what was asked for
		}
		if err == nil {
			engine.Chosen = "a GPU answers"
			return engine, nil
		}
		why := "no GPU: " + err.Error()
		engine, err = CPU("", 0)
		engine.Chosen = why
		return engine, err
	}
	return Engine{}, fmt.Errorf("choosing the engine: %q is none: choose %s, %s or %s", choice, EngineAuto, EngineCPU, EngineCUDA)
}

// CUDA is the engine of a GPU, where OwnGEMM or CuBLASLt multiplies. The error says why there is none, and in a program that was built without CUDA how
// to build one with it.
func CUDA(device int, gemm string) (Engine, error) {
	devices, err := cudaengine.Devices(gemm)
	if err != nil {
		return Engine{}, err
	}
	if device < 0 || device >= len(devices) {
		return Engine{}, fmt.Errorf("looking for CUDA device %d: this machine has %d: the first is 0", device, len(devices))
	}
	d := devices[device]
	if d.FP32 == "" {
		return Engine{}, fmt.Errorf("looking for CUDA device %d: %s is too old: compute capability 8.0 or newer is needed", device, d.Text)
	}
	vectors, err := cpuengine.NewVectors("") // gradients pass through the host
	if err != nil {
		return Engine{}, err
	}
	in := func(precision, class string) Engine {
		return Engine{
			Class: class, Device: d.Text, Vectors: vectors,
			Open: func(c model.Config, microbatch, slots int) (model.Engine, error) {
				return cudaengine.Open(c, cudaengine.Options{Microbatch: microbatch, Slots: slots, Device: device, Precision: precision, GEMM: gemm})
			},
		}
	}
	engine, bf16 := in(cudaengine.FP32, d.FP32), in(cudaengine.BF16, d.BF16)
	engine.BF16 = &bf16
	return engine, nil
}
