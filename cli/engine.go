package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/model"
)

// engineFlags say on what a process computes.
type engineFlags struct {
	choice string
	device int
	gemm   string // empty: what the run was trained with, or launch.OwnGEMM
}

func (f *engineFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.choice, "engine", launch.EngineAuto, "what to compute on: cpu, cuda, or auto: a GPU where this program and this machine have one ('andrea doctor' shows it)")
	c.Flags().IntVar(&f.device, "device", 0, "which GPU, as nvidia-smi counts; every worker needs its own")
	c.Flags().StringVar(&f.gemm, "gemm", "", gemmUsage)
}

// gemmUsage explains --gemm.
const gemmUsage = "what multiplies matrices on a GPU: own, or cublaslt: NVIDIA's library, where it is installed, which makes another engine class (default own, or what the run was trained with)"

// multiplies is --gemm, or what a run was trained with; trained is its engine class, or empty.
func (f engineFlags) multiplies(trained string) string {
	if f.gemm != "" {
		return f.gemm
	}
	return launch.ClassGEMM(trained)
}

// use gives the outside the engine that the flags ask for. By "auto" a run that was trained before keeps its kind
// of engine; trained is its engine class, or empty.
func (f engineFlags) use(o outside, trained string) (outside, error) {
	if f.device < 0 {
		return o, badInput(fmt.Errorf("--device is %d: GPUs count from 0, as nvidia-smi does", f.device))
	}
	o, err := f.find(o, trained)
	if err == nil && f.device > 0 && model.ClassKind(o.engine.Class) == launch.EngineCPU {
		err = badInput(fmt.Errorf("--device is %d: it chooses a GPU, and this process computes on the processors: leave it out, or take --engine %s", f.device, launch.EngineCUDA))
	}
	return o, err
}

// find gives the outside the engine, whatever its device.
func (f engineFlags) find(o outside, trained string) (outside, error) {
	choice, choose, gemm := f.choice, o.choose, f.multiplies(trained)
	if choice == launch.EngineAuto && trained != "" {
		choice = model.ClassKind(trained)
	}
	if choose == nil {
		if gemm == launch.OwnGEMM && (choice == launch.EngineAuto || choice == launch.EngineCPU) {
			return o, o.engineErr
		}
		choose = launch.Choose
	}
	engine, err := choose(choice, f.device, gemm)
	switch {
	case err != nil && f.choice == launch.EngineAuto && trained != "":
		err = fmt.Errorf("the run was trained with engine class %s: %w", trained, err)
	case engine.Chosen == "":
		engine.Chosen = "--engine " + choice
	}
	o.engine, o.engineErr = engine, err
	return o, badInput(err)
}

// crew is the workers of a run: one in this process, several in processes of their own. Each has a GPU of its own,
// where they compute on GPUs, the first the one of the flags.
func (f engineFlags) crew(o outside, workers int) (launch.Crew, error) {
	if workers == 1 {
		return launch.Crew{}, nil
	}
	kind := model.ClassKind(o.engine.Class)
	each := func(int) []string { return []string{"--engine", launch.EngineCPU} }
	if kind == launch.EngineCUDA {
		gemm := launch.ClassGEMM(o.engine.Class)
		if _, err := launch.CUDA(f.device+workers-1, gemm); err != nil {
			return launch.Crew{}, badInput(errors.Join(fmt.Errorf("--workers is %d, of which each needs a GPU of its own, from number %d on", workers, f.device), err))
		}
		each = func(i int) []string {
			return []string{"--engine", launch.EngineCUDA, "--device", strconv.Itoa(f.device + i), "--gemm", gemm}
		}
	}
	return launch.Crew{Workers: workers, Command: append(o.self[:len(o.self):len(o.self)], "worker"), Each: each}, nil
}
