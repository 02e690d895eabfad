//go:build cuda && cgo && linux

package driver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// products starts the library with a workspace on the device.
func products(d *Device, workspace int64) (*Products, error) {
	var plan Plan
	region := plan.Add("workspace", workspace)
	arena, err := d.Allocate(&plan)
	if err != nil {
		return nil, err
	}
	if _, err := LibraryVersion(); err != nil {
		return nil, err
	}
	return d.NewProducts(arena.At(region), workspace)
}

// A product in every layout, stored and then added to itself, with rows that are longer than the matrix is wide.
func TestLibraryMultiplies(t *testing.T) {
	inModes(t, func(t *testing.T) {
		for _, turned := range [][2]bool{{false, true}, {false, false}, {true, false}} {
			within(t, func(d *Device) error { return multiply(t, d, turned[0], turned[1]) })
		}
	})
}

func multiply(t *testing.T, d *Device, turnA, turnB bool) error {
	const m, n, k, wide = 3, 5, 7, 8
	b, e1 := newBench(d, 3*wide*wide)
	p, e2 := products(d, 1<<12)
	if err := errors.Join(e1, e2); err != nil {
		return err
	}
	at := func(matrix, row, column int) int { return matrix*wide*wide + row*wide + column }
	A := func(i, j int) float32 { return float32(i*i+3*j) - 4 }
	B := func(i, j int) float32 { return float32(2*i-j*j) + 3 }
	x := b.in.Floats()
	clear(x)
	for j := range k {
		for i := range m {
			if turnA {
				x[at(0, j, i)] = A(i, j)
			} else {
				x[at(0, i, j)] = A(i, j)
			}
		}
		for i := range n {
			if turnB {
				x[at(1, i, j)] = B(j, i)
			} else {
				x[at(1, j, i)] = B(j, i)
			}
		}
	}
	s := Shape{M: m, N: n, K: k, LDA: wide, LDB: wide, LDC: wide, TurnA: turnA, TurnB: turnB, AlignA: 16, AlignB: 16, AlignC: 16}
	second, third := b.x+Pointer(4*at(1, 0, 0)), b.x+Pointer(4*at(2, 0, 0))
	err := errors.Join(
		p.Plan(s), p.Plan(s),
		b.stream.CopyIn(b.x, b.in, b.bytes),
		p.Multiply(b.stream, s, third, b.x, second, false), p.Multiply(b.stream, s, third, b.x, second, true),
		b.stream.CopyOut(b.out, b.x, b.bytes), b.stream.Synchronize())
	if p.Planned() != 1 || p.Digest() == 0 {
		t.Errorf("%d shapes are planned, digest %d", p.Planned(), p.Digest())
	}
	for i := range wide {
		for j := range wide {
			var want float32
			for l := 0; l < k && i < m && j < n; l++ {
				want += 2 * A(i, l) * B(l, j)
			}
			if got := b.out.Floats()[at(2, i, j)]; got != want {
				t.Errorf("turned %v and %v: element %d,%d is %v, want %v", turnA, turnB, i, j, got, want)
			}
		}
	}
	return err
}

// What the library refuses is an error with its meaning, and leaves nothing behind.
func TestLibraryRefuses(t *testing.T) {
	good := Shape{M: 4, N: 4, K: 4, LDA: 4, LDB: 4, LDC: 4, TurnB: true, AlignA: 16, AlignB: 16, AlignC: 16}
	within(t, func(d *Device) error {
		b, e1 := newBench(d, 64)
		p, e2 := products(d, 1<<12)
		if err := errors.Join(e1, e2, p.Plan(good)); err != nil {
			return err
		}
		narrow, unsupported := good, good
		narrow.LDC, unsupported.HalfOut = 3, true
		for what, test := range map[string]struct {
			err  error
			code int
		}{
			"rows that overlap":                   {p.Plan(narrow), 7},
			"float32 stored as bfloat16":          {p.Plan(unsupported), 15},
			"an address that is not aligned":      {p.Multiply(b.stream, good, b.y, b.x+4, b.x, false), 7},
			"a matrix beyond the device's memory": {p.Multiply(b.stream, good, b.y+1<<30, b.x, b.x, false), 7},
		} {
			var e *LibraryError
			if !errors.As(test.err, &e) || e.Code != test.code || !strings.Contains(test.err.Error(), "cuBLAS status") {
				t.Errorf("%s: %v, want status %d", what, test.err, test.code)
			}
		}
		return nil
	})
	for _, call := range []string{"Create", "MatmulDescCreate", "MatrixLayoutCreate", "MatmulPreferenceCreate", "MatmulPreferenceSetAttribute", "MatmulAlgoGetHeuristic"} {
		within(t, func(d *Device) error {
			t.Setenv("SOFTCUDA_FAIL", "cublasLt"+call+":1:14")
			defer t.Setenv("SOFTCUDA_FAIL", "")
			p, err := products(d, 1<<12)
			if err == nil {
				err = p.Plan(good)
			}
			if err == nil || !strings.Contains(err.Error(), "cublasLt"+call+": cuBLAS status 14: a fault of the library") {
				t.Errorf("%s: %v", call, err)
			}
			return nil
		})
	}
}

// Where the library is missing the error says which names were tried.
func TestWithoutLibrary(t *testing.T) {
	if os.Getenv("ANDREA_DRIVER_TEST_CHILD") != "" {
		_, err := LibraryVersion()
		fmt.Println("child:", err)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for variable, says := range map[string]string{
		"ANDREA_CUBLASLT_LIBRARY=/nowhere/lib.so": "child: opening cuBLASLt: /nowhere/lib.so: cannot open shared object file",
		"ANDREA_CUBLASLT_LIBRARY=libdl.so.2":      "libdl.so.2 has no function cublasLtGetVersion",
	} {
		cmd := exec.Command(self, "-test.run", "^TestWithoutLibrary$", "-test.count", "1")
		cmd.Env = append(os.Environ(), "ANDREA_DRIVER_TEST_CHILD=1", variable)
		output, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(output), says) || !strings.Contains(string(output), "--gemm own") {
			t.Errorf("%s: %v\n%s", variable, err, output)
		}
	}
}
