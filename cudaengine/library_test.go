//go:build cuda && cgo && linux

package cudaengine

import (
	"math"
	"os"
	"strings"
	"testing"

	"andrea/enginetest"
	"andrea/model"
)

// withLibrary skips where there is no library of products beside the device.
func withLibrary(t *testing.T) {
	t.Helper()
	if os.Getenv("ANDREA_CUBLASLT_LIBRARY") == "" {
		t.Skip("no library of products is named: set ANDREA_CUBLASLT_LIBRARY")
	}
}

// With the library the engine passes the suite of all engines.
func TestLibrarySuite(t *testing.T) {
	withLibrary(t)
	with := func(precision string) func(t *testing.T, c model.Config, microbatch, slots int) model.Engine {
		return func(t *testing.T, c model.Config, microbatch, slots int) model.Engine {
			return open(t, c, Options{Microbatch: microbatch, Slots: slots, Precision: precision, GEMM: CuBLASLt})
		}
	}
	t.Run(FP32, func(t *testing.T) { enginetest.RunSmall(t, with(FP32)) })
	if !testing.Short() {
		t.Run(BF16, func(t *testing.T) { enginetest.RunBF16(t, with(BF16)) })
	}
}

// The engine says which library and which algorithms it multiplies with.
func TestLibraryIsNamed(t *testing.T) {
	withLibrary(t)
	o := Options{Microbatch: 1, Slots: 1, Precision: BF16, GEMM: CuBLASLt}
	first, second := open(t, small(), o).Info(), open(t, small(), o).Info()
	devices, err := Devices(CuBLASLt)
	if err != nil || devices[0].BF16 != first.Class || !strings.Contains(first.Class, "-cublaslt_") || model.ClassPrecision(first.Class) != BF16 {
		t.Errorf("engine class %s, the devices are %+v, %v", first.Class, devices, err)
	}
	own := open(t, small(), Options{Microbatch: 1, Slots: 1, Precision: BF16}).Info()
	if own.Class == first.Class || !strings.Contains(first.Device, "products by cuBLASLt") || strings.Contains(own.Device, "cuBLASLt") {
		t.Errorf("with the library %+v, without %+v", first, own)
	}
	if first != second {
		t.Errorf("opened twice: %+v and %+v", first, second)
	}
	o.Microbatch = 2
	if other := open(t, small(), o).Info(); other.Device == first.Device {
		t.Errorf("other shapes have the same algorithms: %s", other.Device)
	}
}

// A shape is planned when the engine opens, so that no step asks the library for anything.
func TestStepsPlanNothing(t *testing.T) {
	withLibrary(t)
	c := small()
	for _, final := range []bool{false, true} {
		c.FinalNorm = final
		for _, precision := range precisions {
			e := open(t, c, Options{Microbatch: 2, Slots: 1, Precision: precision, GEMM: CuBLASLt}).(*engine)
			load(t, e, c, enginetest.DrawState(c, 1))
			planned := e.library.Planned()
			batch := enginetest.DrawBatch(c, 2, c.Context, 2)
			if _, err := e.Accumulate(0, batch); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Eval(batch); err != nil {
				t.Fatal(err)
			}
			if now := e.library.Planned(); planned == 0 || now != planned {
				t.Errorf("%s, final norm %v: %d shapes were planned, after a step %d", precision, final, planned, now)
			}
		}
	}
}

// What the library cannot do, or a library that is not there, is refused when the engine opens.
func TestLibraryFailsAtOpening(t *testing.T) {
	softwareOnly(t)
	withLibrary(t)
	o := Options{Microbatch: 1, Slots: 1, Precision: BF16, GEMM: CuBLASLt}
	for fail, says := range map[string]string{
		"cublasLtCreate:1:1":                  "this driver may be older than it needs",
		"cublasLtMatmulAlgoGetHeuristic:3:15": "planning a product of 20 rows",
		"cublasLtMatrixLayoutCreate:5:3":      "the library found no memory",
	} {
		t.Setenv("SOFTCUDA_FAIL", fail)
		if _, err := Open(small(), o); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "closing") {
			t.Errorf("%s: %v", fail, err)
		}
	}
	t.Setenv("SOFTCUDA_FAIL", "")
	o.GEMM = "mkl"
	if _, err := Open(small(), o); err == nil || !strings.Contains(err.Error(), `gemm is "mkl"`) {
		t.Errorf("%v", err)
	}
}

// A product that fails ends the call; one that fails because the device has ends the engine.
func TestLibraryFailsInAStep(t *testing.T) {
	softwareOnly(t)
	withLibrary(t)
	c := small()
	e, err := Open(c, Options{Microbatch: 1, Slots: 1, Precision: FP32, GEMM: CuBLASLt})
	if err != nil {
		t.Fatal(err)
	}
	load(t, e, c, enginetest.DrawState(c, 1))
	batch := enginetest.DrawBatch(c, 1, c.Context, 2)
	want, err := e.Eval(batch)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTCUDA_FAIL", "cublasLtMatmul:2:13")
	if _, err := e.Eval(batch); err == nil || !strings.Contains(err.Error(), "cublasLtMatmul: cuBLAS status 13") {
		t.Errorf("a failed product: %v", err)
	}
	if got, err := e.Eval(batch); err != nil || got != want {
		t.Errorf("after a failed product: %v, %v, want %v", got, err, want)
	}
	t.Setenv("SOFTCUDA_FAIL", "cublasLtMatmul:2:719")
	if _, err := e.Eval(batch); err == nil {
		t.Error("a failed device is not reported")
	}
	if err := e.Zero(0); err == nil || !strings.Contains(err.Error(), "open it anew") {
		t.Errorf("the next call: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// In every mode of the device a step has the same bits, and learns what one by our own kernels learns.
func TestLibraryTrains(t *testing.T) {
	softwareOnly(t)
	withLibrary(t)
	c := small()
	for precision, tolerance := range map[string]float64{FP32: 1e-4, BF16: 2e-2} {
		own := open(t, c, Options{Microbatch: 2, Slots: 2, Precision: precision})
		load(t, own, c, initial(c))
		want, _ := train(t, own, c, 1, 6)
		var digest model.Digest
		for i, streams := range []string{"eager", "lazy", "rand:1"} {
			t.Setenv("SOFTCUDA_STREAMS", streams)
			e := open(t, c, Options{Microbatch: 2, Slots: 2, Precision: precision, GEMM: CuBLASLt})
			load(t, e, c, initial(c))
			got, state := train(t, e, c, 1, 6)
			for step := range got {
				if d := math.Abs(got[step] - want[step]); !(d <= tolerance) {
					t.Errorf("%s, %s: the loss of step %d is %v, by our own kernels %v", precision, streams, step+1, got[step], want[step])
				}
			}
			if i == 0 {
				digest = state
			} else if state != digest {
				t.Errorf("%s, %s: state %v, want %v", precision, streams, state, digest)
			}
		}
	}
}
