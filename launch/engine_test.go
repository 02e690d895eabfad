package launch_test

import (
	"errors"
	"strings"
	"testing"

	"andrea/cudaengine"
	"andrea/launch"
	"andrea/model"
	"andrea/pipeline"
)

// twin is an engine of both precisions.
func twin() launch.Engine {
	return launch.Engine{
		Class: model.EngineClass("cuda-gpu", model.FP32), Device: "a GPU", Chosen: "it is there",
		BF16: &launch.Engine{Class: model.EngineClass("cuda-gpu", model.BF16), Device: "a GPU"},
	}
}

func TestEngineInAPrecision(t *testing.T) {
	for _, precision := range []string{model.FP32, model.BF16} {
		e, err := twin().In(precision)
		if err != nil || e.Class != model.EngineClass("cuda-gpu", precision) || e.Chosen != "it is there" {
			t.Errorf("%s: %+v, %v", precision, e, err)
		}
	}
	cpu := launch.Engine{Class: model.EngineClass("cpu", model.FP32)}
	if _, err := cpu.In(model.BF16); err == nil || !strings.Contains(err.Error(), `precision is "bf16": the engine "cpu" has fp32 alone`) {
		t.Errorf("a precision that the engine has not: %v", err)
	}
}

func TestJobsAreCheckedAgainstTheEngine(t *testing.T) {
	cpu := launch.Engine{Class: model.EngineClass("cpu", model.FP32)}
	for _, test := range []struct {
		name              string
		engine            launch.Engine
		precision, wanted string
		says              string // empty: it fits
	}{
		{"anything", cpu, model.FP32, "auto", ""},
		{"its kind", cpu, model.FP32, "cpu", ""},
		{"its class", twin(), model.BF16, "cuda-gpu-bf16-n1", ""},
		{"its GPU", twin(), model.BF16, "cuda-gpu", ""},
		{"another kind", cpu, model.FP32, "cuda", `engine is "cuda": this program has "cpu"`},
		{"another GPU", twin(), model.BF16, "cuda-other", `engine is "cuda-other"`},
		{"another precision", cpu, model.BF16, "auto", `precision is "bf16"`},
	} {
		spec := pipeline.DefaultJobSpec()
		spec.Precision, spec.Engine = test.precision, test.wanted
		err := test.engine.CheckJob(spec)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", test.name, err, test.says)
		}
	}
}

// Where there is a GPU it is chosen, and where there is none the processors are, with the reason.
func TestChoose(t *testing.T) {
	_, noGPU := cudaengine.Devices(cudaengine.OwnGEMM)
	engine, err := launch.Choose(launch.EngineAuto, 0, launch.OwnGEMM)
	if err != nil || engine.Chosen == "" {
		t.Fatalf("auto: %+v, %v", engine, err)
	}
	if want := "cpu"; noGPU != nil && (model.ClassKind(engine.Class) != want || !strings.Contains(engine.Chosen, noGPU.Error())) {
		t.Errorf("auto chose %s: %s", engine.Class, engine.Chosen)
	}
	if engine, err := launch.Choose(launch.EngineCPU, 0, launch.OwnGEMM); err != nil || model.ClassKind(engine.Class) != "cpu" {
		t.Errorf("cpu: %+v, %v", engine, err)
	}
	if _, err := launch.Choose(launch.EngineCUDA, 1<<20, launch.OwnGEMM); err == nil || !strings.Contains(err.Error(), "CUDA") {
		t.Errorf("a GPU that is not there: %v", err)
	}
	if _, err := launch.Choose("gpu", 0, launch.OwnGEMM); err == nil || !strings.Contains(err.Error(), "choose auto, cpu or cuda") {
		t.Errorf("an engine that does not exist: %v", err)
	}
}

// What multiplies on GPUs is nothing for the processors, and chosen by auto it does not fall back on them.
func TestChooseWhatMultiplies(t *testing.T) {
	for _, test := range []struct{ engine, gemm, says string }{
		{launch.EngineCPU, launch.CuBLASLt, "on GPUs alone"},
		{launch.EngineAuto, "mkl", `--gemm is "mkl": choose own or cublaslt`},
	} {
		if _, err := launch.Choose(test.engine, 0, test.gemm); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s with %s: %v", test.engine, test.gemm, err)
		}
	}
	if engine, err := launch.Choose(launch.EngineAuto, 0, launch.CuBLASLt); err == nil && model.ClassKind(engine.Class) != launch.EngineCUDA {
		t.Errorf("auto with %s chose %s", launch.CuBLASLt, engine.Class)
	}
}

// A run goes on with another engine class only where that is wanted, and says so.
func TestAnotherEngineClass(t *testing.T) {
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	fsys, spec := memory(t)
	const stopAfter = 3
	stop := make(chan string)
	stopping := engine
	stopping.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
		e, err := engine.Open(c, microbatch, slots)
		return &stopper{Engine: e, n: stopAfter*spec.Batch.TokensPerStep/16 + 1, stop: stop}, err
	}
	env := launch.Environment{FS: fsys, Engine: stopping, Version: "test", Stop: stop, Notify: func(pipeline.Notice) {}}
	run, err := launch.Create(env, killRun, spec)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := run.Train()
	if err := errors.Join(err, outcome.Err, run.Close()); err != nil || outcome.Step != stopAfter {
		t.Fatalf("%+v, %v", outcome, err)
	}
	if got := launch.TrainedClass(fsys, killRun); got != engine.Class {
		t.Errorf("the run was trained with %q, want %q", got, engine.Class)
	}

	var warned []string
	env.Engine, env.Stop, env.Warn = engine, nil, func(err error) { warned = append(warned, err.Error()) }
	env.Engine.Class = model.EngineClass("other", model.FP32)
	if _, err := launch.Open(env, killRun, ""); err == nil || !strings.Contains(err.Error(), engine.Class) || !strings.Contains(err.Error(), env.Engine.Class) || !strings.Contains(err.Error(), "--other-engine") {
		t.Fatalf("another engine class: %v", err)
	}
	env.OtherEngine = true
	if run, err = launch.Open(env, killRun, ""); err != nil {
		t.Fatal(err)
	}
	outcome, err = run.Train()
	if err := errors.Join(err, outcome.Err, run.Close()); err != nil || !outcome.Complete {
		t.Fatalf("%+v, %v", outcome, err)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], env.Engine.Class) {
		t.Errorf("warned of %q", warned)
	}
	if got := launch.TrainedClass(fsys, killRun); got != env.Engine.Class {
		t.Errorf("the run was trained with %q, want %q", got, env.Engine.Class)
	}
	env.Engine, env.OtherEngine = engine, false
	if run, err = launch.Open(env, killRun, ""); err != nil || !run.Complete() {
		t.Fatalf("a complete run: %v", err)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
}

// A coordinator whose workers are elsewhere needs no engine for its job.
func TestACoordinatorComputesNothing(t *testing.T) {
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	fsys, spec := memory(t)
	spec.Engine, spec.Precision = "cuda", model.BF16
	env := launch.Environment{FS: fsys, Engine: engine, Version: "test", Notify: func(pipeline.Notice) {}}
	if _, err := launch.Create(env, killRun, spec); err == nil || !strings.Contains(err.Error(), "bf16") {
		t.Errorf("with a worker here: %v", err)
	}
	env.Crew = launch.Crew{Workers: 1, Elsewhere: true}
	run, err := launch.Create(env, killRun, spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
}
