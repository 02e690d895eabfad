//go:build cuda && cgo && linux

package cudaengine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"andrea/cudaengine/softcuda"
	"andrea/enginetest"
	"andrea/model"
)

// TestMain runs the tests on the software device, or on that of the library which ANDREA_CUDA_LIBRARY names. Without
// that and a compiler there is nothing to run them on.
func TestMain(m *testing.M) {
	if os.Getenv("ANDREA_CUDA_LIBRARY") == "" {
		sources, err := filepath.Abs("../kernels")
		if err != nil {
			panic(err)
		}
		library, err := softcuda.Build("kernels", sources)
		switch {
		case errors.Is(err, softcuda.ErrNoCompiler):
			fmt.Println("skipping:", err)
			return
		case err != nil:
			fmt.Println(err)
			os.Exit(1)
		}
		os.Setenv("ANDREA_CUDA_LIBRARY", library)
		os.Setenv("ANDREA_CUBLASLT_LIBRARY", library) // it has those functions too
	}
	os.Exit(m.Run())
}

var precisions = []string{FP32, BF16}

func open(t testing.TB, c model.Config, o Options) model.Engine {
	t.Helper()
	e, err := Open(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// In fp32 the engine passes the suite of all engines.
func TestSuite(t *testing.T) {
	run := enginetest.Run
	if testing.Short() {
		run = enginetest.RunSmall
	}
	run(t, opener(FP32))
}

// In bf16 it passes the one of engines that compute in bfloat16.
func TestSuiteBF16(t *testing.T) {
	if testing.Short() {
		t.Skip("short runs take the small suite in fp32")
	}
	enginetest.RunBF16(t, opener(BF16))
}

func opener(precision string) func(t *testing.T, c model.Config, microbatch, slots int) model.Engine {
	return func(t *testing.T, c model.Config, microbatch, slots int) model.Engine {
		return open(t, c, Options{Microbatch: microbatch, Slots: slots, Precision: precision})
	}
}

func TestInfo(t *testing.T) {
	e := open(t, small(), Options{Microbatch: 2, Slots: 2, Precision: BF16})
	info := e.Info()
	if !strings.HasPrefix(info.Class, "cuda-") || !strings.Contains(info.Class, "-bf16-n") || info.Device == "" {
		t.Errorf("class %q, device %q", info.Class, info.Device)
	}
	if least := int64(model.NewLayout(small()).Size) * 5 * 4; info.Bytes < least {
		t.Errorf("%d bytes, fewer than weights, moments and slots need", info.Bytes)
	}
	devices, err := Devices(OwnGEMM)
	if err != nil || len(devices) == 0 || devices[0].BF16 != info.Class || devices[0].FP32 != strings.Replace(info.Class, BF16, FP32, 1) || devices[0].Text != info.Device {
		t.Errorf("the devices are %v, %v", devices, err)
	}
}

func TestOptionsAreRefused(t *testing.T) {
	good := Options{Microbatch: 1, Precision: FP32}
	for says, change := range map[string]func(*model.Config, *Options){
		"microbatch is 0":         func(_ *model.Config, o *Options) { o.Microbatch = 0 },
		"slots is -1":             func(_ *model.Config, o *Options) { o.Slots = -1 },
		"precision is \"fp16\"":   func(_ *model.Config, o *Options) { o.Precision = "fp16" },
		"d_model is 0":            func(c *model.Config, _ *Options) { c.DModel = 0 },
		"looking for CUDA device": func(_ *model.Config, o *Options) { o.Device = 1 << 20 },
		"lower the microbatch":    func(c *model.Config, o *Options) { c.Context, o.Microbatch = model.MaxContext, MaxMicrobatch },
	} {
		c, o := small(), good
		change(&c, &o)
		if e, err := Open(c, o); err == nil || e != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// Without slots there is a model to run, and nothing to train.
func TestInference(t *testing.T) {
	for _, precision := range precisions {
		c := small()
		state := enginetest.DrawState(c, 1)
		trainer := open(t, c, Options{Microbatch: 2, Slots: 1, Precision: precision})
		e := open(t, c, Options{Microbatch: 2, Precision: precision})
		load(t, trainer, c, state)
		for b := range model.NewLayout(c).Buckets() {
			lo, hi := model.NewLayout(c).Bucket(b)
			if err := e.Load(b, state.W[lo:hi], nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		batch := enginetest.DrawBatch(c, 2, c.Context, 2)
		want, err1 := trainer.Eval(batch)
		got, err2 := e.Eval(batch)
		if err := errors.Join(err1, err2); err != nil || got != want {
			t.Errorf("%s: loss %v, with slots %v, %v", precision, got, want, err)
		}
		x := make([]float32, model.BucketSize)
		lo, hi := model.NewLayout(c).Bucket(0)
		_, err := e.Accumulate(0, batch)
		for what, err := range map[string]error{"Accumulate": err, "Save": e.Save(0, x[lo:hi], x[lo:hi], x[lo:hi]), "Zero": e.Zero(0)} {
			if err == nil || !strings.Contains(err.Error(), "inference alone") {
				t.Errorf("%s without slots: %v", what, err)
			}
		}
	}
}

// A GPU that is too old is listed, without an engine class.
func TestOldDevice(t *testing.T) {
	softwareOnly(t)
	t.Setenv("SOFTCUDA_CAPABILITY", "7.5")
	devices, err := Devices(OwnGEMM)
	if err != nil || len(devices) != 1 || devices[0].Capability != "7.5" || devices[0].FP32 != "" || devices[0].BF16 != "" {
		t.Errorf("the devices are %+v, %v", devices, err)
	}
}

// A failure of the device is final for the engine, and for no other.
func TestFailureIsFinal(t *testing.T) {
	softwareOnly(t)
	c := small()
	batch := enginetest.DrawBatch(c, 1, 5, 2)
	e, err := Open(c, Options{Microbatch: 1, Slots: 1, Precision: FP32})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTCUDA_FAIL", "cuLaunchKernel:7:719")
	if _, err := e.Accumulate(0, batch); !errors.Is(err, model.ErrDevice) || !strings.Contains(err.Error(), "CUDA error 719") {
		t.Errorf("a failed launch: %v", err)
	}
	if err := e.Zero(0); !errors.Is(err, model.ErrDevice) || !strings.Contains(err.Error(), "open it anew") {
		t.Errorf("the next call: %v", err)
	}
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Errorf("closing: %v", err)
	}
	if err := e.Zero(0); err == nil {
		t.Error("a closed engine works")
	}
	open(t, c, Options{Microbatch: 1, Slots: 1, Precision: FP32})
}

// An error that does not stay ends the call alone.
func TestErrorEndsTheCall(t *testing.T) {
	softwareOnly(t)
	c := small()
	e := open(t, c, Options{Microbatch: 1, Slots: 1, Precision: FP32})
	load(t, e, c, enginetest.DrawState(c, 1))
	batch := enginetest.DrawBatch(c, 1, 5, 2)
	want, err := e.Eval(batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, fail := range []string{"cuLaunchKernel:2:701", "cuMemcpyHtoDAsync_v2:1:1", "cuStreamSynchronize:1:4"} {
		t.Setenv("SOFTCUDA_FAIL", fail)
		if _, err := e.Eval(batch); err == nil || errors.Is(err, model.ErrDevice) {
			t.Errorf("%s is reported as %v", fail, err)
		}
		t.Setenv("SOFTCUDA_FAIL", "")
		if got, err := e.Eval(batch); err != nil || got != want {
			t.Errorf("after %s: %v, %v, want %v", fail, got, err, want)
		}
	}
}

func TestShortMemoryIsRefused(t *testing.T) {
	softwareOnly(t)
	t.Setenv("SOFTCUDA_MEMORY", "300000")
	_, err := Open(small(), Options{Microbatch: 64, Slots: 2, Precision: FP32})
	if err == nil || !strings.Contains(err.Error(), "the largest parts are") {
		t.Errorf("%v", err)
	}
}

// Every failing call of the driver while an engine opens is an error that leaves nothing behind: the software device
// reports what is not freed.
func TestOpeningFailsCleanly(t *testing.T) {
	softwareOnly(t)
	for _, call := range []string{"cuMemAlloc_v2:1", "cuMemHostAlloc:1", "cuMemHostAlloc:6", "cuModuleLoadData:3", "cuModuleGetFunction:11", "cuStreamCreate:2", "cuEventCreate:1", "cuMemsetD32Async:2"} {
		t.Setenv("SOFTCUDA_FAIL", call+":2")
		if _, err := Open(small(), Options{Microbatch: 1, Slots: 1, Precision: FP32}); err == nil || strings.Contains(err.Error(), "closing") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// softwareOnly skips a test that needs the software device's switches.
func softwareOnly(t *testing.T) {
	t.Helper()
	devices, err := Devices(OwnGEMM)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(devices[0].Text, "software") {
		t.Skip("only the software device fails on demand")
	}
}

// Widths at which no row and no weight starts at a multiple of 16 bytes are slow, and right.
func TestOddWidths(t *testing.T) {
	if testing.Short() {
		t.Skip("the context is long, for the sake of sums in parts")
	}
	c := small()
	c.DModel, c.NHead, c.Vocab, c.Context = 6, 2, 61, 1024 // long enough for sums in parts
	batch := enginetest.DrawBatch(c, 1, c.Context, 2)
	plain := enginetest.NewPlain(c, 1, 1)
	load(t, plain, c, enginetest.DrawState(c, 1))
	want, err := plain.Accumulate(0, batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, precision := range precisions {
		e := open(t, c, Options{Microbatch: 1, Slots: 1, Precision: precision})
		load(t, e, c, enginetest.DrawState(c, 1))
		got, err := e.Accumulate(0, batch)
		if err != nil || math.Abs(got.Mean()-want.Mean()) > 0.01 {
			t.Errorf("%s: loss %v, want %v, %v", precision, got.Mean(), want.Mean(), err)
		}
	}
}
