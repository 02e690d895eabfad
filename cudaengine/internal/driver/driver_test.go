//go:build cuda && cgo && linux

package driver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"andrea/cudaengine/softcuda"
)

// image names the kernels of testdata/probe.cu.
const image = ".version 7.0\n.entry axpy(\n.entry reverse(\n.entry fail(\n.entry lonely(\n.entry wild(\n.entry crooked(\n.entry absent(\n"

// TestMain runs the tests on the software device; without a compiler they skip.
func TestMain(m *testing.M) {
	if os.Getenv("ANDREA_DRIVER_TEST_CHILD") != "" {
		os.Exit(m.Run())
	}
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		panic(err)
	}
	library, err := softcuda.Build("driver", testdata)
	switch {
	case errors.Is(err, softcuda.ErrNoCompiler):
		fmt.Println("skipping:", err)
		return
	case err != nil:
		fmt.Println(err)
		os.Exit(1)
	}
	os.Setenv("ANDREA_CUDA_LIBRARY", library)
	os.Setenv("ANDREA_CUBLASLT_LIBRARY", library)
	os.Exit(m.Run())
}

// within opens a device, runs f on its thread and closes. f must not end the test: it runs on another goroutine.
func within(t *testing.T, f func(d *Device) error) {
	t.Helper()
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Do(func() error { return f(d) }); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// bench is what a test launches kernels with: n floats on the device and two pinned copies of them.
type bench struct {
	x, y    Pointer
	in, out Pinned
	bytes   int64
	stream  *Stream
	module  *Module
}

func newBench(d *Device, n int) (b bench, err error) {
	var p Plan
	b.bytes = int64(4 * n)
	x, y := p.Add("x", b.bytes), p.Add("y", b.bytes)
	arena, e1 := d.Allocate(&p)
	b.x, b.y = arena.At(x), arena.At(y)
	var e2, e3, e4, e5 error
	b.in, e2 = d.Pin(b.bytes)
	b.out, e3 = d.Pin(b.bytes)
	b.stream, e4 = d.NewStream()
	b.module, e5 = d.Load(image)
	for i := range b.in.Floats() {
		b.in.Floats()[i] = float32(i)
	}
	return b, errors.Join(e1, e2, e3, e4, e5)
}

// modes are the orders in which the software device may work.
var modes = []map[string]string{
	{},
	{"SOFTCUDA_STREAMS": "lazy", "SOFTCUDA_ORDER": "rev"},
	{"SOFTCUDA_STREAMS": "rand:1", "SOFTCUDA_ORDER": "rand:1"},
	{"SOFTCUDA_STREAMS": "rand:2", "SOFTCUDA_ORDER": "rand:2"},
}

func inModes(t *testing.T, f func(t *testing.T)) {
	for _, mode := range modes {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			for name, value := range mode {
				t.Setenv(name, value)
			}
			f(t)
		})
	}
}

func TestKernelComputes(t *testing.T) {
	inModes(t, func(t *testing.T) {
		within(t, func(d *Device) error {
			b, err := newBench(d, 1000)
			if err != nil {
				return err
			}
			axpy, err := b.module.Kernel("axpy", 4, 0)
			if err != nil {
				return err
			}
			err = errors.Join(
				b.stream.Zero(b.y, 1000),
				b.stream.CopyIn(b.x, b.in, b.bytes),
				axpy.Launch(b.stream, Geometry{X: 8, Y: 1, Z: 1, Threads: 128}, b.y, b.x, Float(0.5), Int(1000)),
				b.stream.CopyOut(b.out, b.y, b.bytes),
				b.stream.Synchronize())
			for i, got := range b.out.Floats() {
				if got != 0.5*float32(i) {
					t.Errorf("y[%d] is %v, want %v", i, got, 0.5*float32(i))
					break
				}
			}
			return err
		})
	})
}

// Two streams: one copies in, the other computes and copies out, twice over the same memory, ordered by events.
func TestStreamsWaitForEvents(t *testing.T) {
	inModes(t, func(t *testing.T) {
		within(t, func(d *Device) error {
			b, err := newBench(d, 64)
			if err != nil {
				return err
			}
			copies, e1 := d.NewStream()
			arrived, e2 := d.NewEvent()
			read, e3 := d.NewEvent()
			reverse, e4 := b.module.Kernel("reverse", 2, 0)
			if err := errors.Join(e1, e2, e3, e4); err != nil {
				return err
			}
			for round := range 2 {
				for i := range b.in.Floats() {
					b.in.Floats()[i] = float32(i + 1000*round)
				}
				err := errors.Join(
					copies.Wait(read),
					copies.CopyIn(b.x, b.in, b.bytes), copies.Record(arrived),
					b.stream.Wait(arrived),
					reverse.Launch(b.stream, Geometry{X: 1, Y: 1, Z: 1, Threads: 64, Shared: 256}, b.y, b.x),
					b.stream.Record(read),
					b.stream.CopyOut(b.out, b.y, b.bytes),
					b.stream.Synchronize())
				want := slices.Clone(b.in.Floats())
				slices.Reverse(want)
				if !slices.Equal(b.out.Floats(), want) {
					t.Errorf("round %d: %v, want %v", round, b.out.Floats(), want)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// The modes can fail: without the event, a lazy device copies too late.
func TestMissingEventIsFound(t *testing.T) {
	t.Setenv("SOFTCUDA_STREAMS", "lazy")
	within(t, func(d *Device) error {
		b, err := newBench(d, 64)
		if err != nil {
			return err
		}
		copies, e1 := d.NewStream()
		reverse, e2 := b.module.Kernel("reverse", 2, 0)
		err = errors.Join(e1, e2,
			copies.CopyIn(b.x, b.in, b.bytes),
			reverse.Launch(b.stream, Geometry{X: 1, Y: 1, Z: 1, Threads: 64, Shared: 256}, b.y, b.x),
			b.stream.CopyOut(b.out, b.y, b.bytes),
			b.stream.Synchronize())
		if got := b.out.Floats()[0]; got == got {
			t.Errorf("the kernel saw %v before anything was copied in", got)
		}
		return err
	})
}

func TestFaultPoisonsTheDevice(t *testing.T) {
	type fault struct {
		code  int
		slots []Slot
	}
	faults := map[string]fault{"fail": {719, nil}, "lonely": {719, nil}, "wild": {700, []Slot{64}}}
	if _, err := exec.LookPath("clang++-19"); err == nil { // other compilers cannot look at alignment
		faults["crooked"] = fault{716, []Slot{64}}
	}
	for name, fault := range faults {
		d, err := Open(0)
		if err != nil {
			t.Fatal(err)
		}
		err = d.Do(func() error {
			b, err := newBench(d, 64)
			if err != nil {
				return err
			}
			k, err := b.module.Kernel(name, len(fault.slots), 0)
			if err != nil {
				return err
			}
			return errors.Join(k.Launch(b.stream, Geometry{X: 1, Y: 1, Z: 1, Threads: 64}, fault.slots...), b.stream.Synchronize())
		})
		var e *Error
		if !errors.As(err, &e) || e.Code != fault.code {
			t.Errorf("%s: %v, want CUDA error %d", name, err, fault.code)
		}
		ran := false
		err = d.Do(func() error { ran = true; return nil })
		if ran || err == nil || !strings.Contains(err.Error(), "open it anew") {
			t.Errorf("after %s the device ran %v and said %v", name, ran, err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("closing after %s: %v", name, err)
		}
		if err := d.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed device says %v", err)
		}
	}
	TestKernelComputes(t) // a device that is opened anew works
}

func TestMemoryIsRefusedInWords(t *testing.T) {
	t.Setenv("SOFTCUDA_MEMORY", "1048576")
	within(t, func(d *Device) error {
		var p Plan
		p.Add("activations", 900<<10)
		p.Add("weights", 200<<10)
		_, err := d.Allocate(&p)
		if err == nil || !strings.Contains(err.Error(), "1.1 MiB needed, 1.0 MiB free: the largest parts are activations 0.9 MiB, weights") {
			t.Errorf("the refusal says %v", err)
		}
		var e *Error
		t.Setenv("SOFTCUDA_FAIL", "cuMemAlloc_v2:1:2")
		_, err = d.Allocate(&Plan{})
		if !errors.As(err, &e) || e.Code != 2 {
			t.Errorf("%v, want CUDA error 2", err)
		}
		t.Setenv("SOFTCUDA_FAIL", "")
		free, err := d.Free()
		if free != 1<<20 {
			t.Errorf("%d bytes are free after two refusals", free)
		}
		return err
	})
}

func TestFaultyCallsAreRefused(t *testing.T) {
	within(t, func(d *Device) error {
		b, err := newBench(d, 64)
		if err != nil {
			return err
		}
		one := Geometry{X: 1, Y: 1, Z: 1, Threads: 32}
		axpy, e1 := b.module.Kernel("axpy", 4, 0)
		fail, e2 := b.module.Kernel("fail", 0, 64<<10)
		for what, err := range map[string]error{
			"a kernel that is not compiled":     second(b.module.Kernel("absent", 0, 0)),
			"a kernel that the image lacks":     second(b.module.Kernel("nobody", 0, 0)),
			"too much shared memory":            second(b.module.Kernel("fail", 0, 200<<10)),
			"too many parameters":               second(b.module.Kernel("fail", maxParameters+1, 0)),
			"a launch with too few parameters":  axpy.Launch(b.stream, one, b.x),
			"a launch of no blocks":             axpy.Launch(b.stream, Geometry{Threads: 32}, 0, 0, 0, 0),
			"more shared memory than allowed":   fail.Launch(b.stream, Geometry{X: 1, Y: 1, Z: 1, Threads: 32, Shared: 65 << 10}),
			"a copy beyond the pinned memory":   b.stream.CopyIn(b.x, b.in, b.bytes+4),
			"a copy beyond the device's memory": b.stream.CopyIn(b.y+3*Alignment, b.in, b.bytes),
			"an image that is none":             second(d.Load("nothing")),
		} {
			if err == nil {
				t.Errorf("%s is accepted", what)
			}
		}
		return errors.Join(e1, e2, b.stream.Synchronize())
	})
}

func second[T any](_ T, err error) error { return err }

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(7); err == nil || !strings.Contains(err.Error(), "CUDA device 7") {
		t.Errorf("device 7: %v", err)
	}
	t.Setenv("SOFTCUDA_CAPABILITY", "7.5")
	if _, err := Open(0); err == nil || !strings.Contains(err.Error(), "8.0 or newer") {
		t.Errorf("compute capability 7.5: %v", err)
	}
}

func TestDevicesAreListed(t *testing.T) {
	list, err := Devices()
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if got, want := list[0].String(), "software CUDA device (device 0, compute capability 8.0, 1024.0 MiB, driver for CUDA 13.0)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Closing after a failure releases the context, so that the next opening works.
func TestFailureIsForgotten(t *testing.T) {
	t.Setenv("SOFTCUDA_FAIL", "cuMemGetInfo_v2:1:719")
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Do(func() error { return second(d.Free()) }); err == nil {
		t.Error("an injected failure is not reported")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	t.Setenv("SOFTCUDA_FAIL", "")
	within(t, func(d *Device) error { return second(d.Free()) })
}

// A program with this package starts without a driver, and says what is missing when it looks for a device.
func TestWithoutDriver(t *testing.T) {
	if os.Getenv("ANDREA_DRIVER_TEST_CHILD") != "" {
		_, err := Open(0)
		fmt.Println("child:", err)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ variable, says string }{
		"no library": {"ANDREA_CUDA_LIBRARY=/nowhere/libcuda.so.1", "child: opening the CUDA driver: /nowhere/libcuda.so.1: cannot open shared object file"},
		"no device":  {"SOFTCUDA_DEVICES=0", "child: opening the CUDA driver: cuInit: CUDA error 100: no CUDA device"},
	} {
		cmd := exec.Command(self, "-test.run", "^TestWithoutDriver$", "-test.count", "1")
		cmd.Env = append(os.Environ(), "ANDREA_DRIVER_TEST_CHILD=1", test.variable)
		output, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(output), test.says) {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}
