//go:build cuda && cgo && linux

package cudaengine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"andrea/cudaengine/softcuda"
	"andrea/enginetest"
	"andrea/model"
)

// TestMain runs the tests on the software device; without a compiler there is nothing to run them on.
func TestMain(m *testing.M) {
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
	os.Exit(m.Run())
}

func open(t testing.TB, c model.Config, o Options) model.Engine {
	t.Helper()
	e, err := Open(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// In fp32 the engine passes the suite of all engines.
func TestSuite(t *testing.T) {
	enginetest.RunSmall(t, func(t *testing.T, c model.Config, microbatch, slots int) model.Engine {
		return open(t, c, Options{Microbatch: microbatch, Slots: slots, Precision: FP32})
	})
}
