// Package softcuda builds the software CUDA device, for tests: a libcuda.so.1 that runs the project's kernels on
// the processor. README.md says what it is and which modes it has.
package softcuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// ErrNoCompiler is returned where there is no C++ compiler to build the device with.
var ErrNoCompiler = errors.New("building the software CUDA device: neither clang++-19 nor g++ is installed")

// Build compiles the device with the kernels of a folder, and returns the path of its library. What has been
// compiled before is kept in the user's cache, under name.
func Build(name, kernels string) (string, error) {
	_, source, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("building the software CUDA device: the program does not know where its sources are")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("building the software CUDA device: %w", err)
	}
	compiler, err := compiler()
	if err != nil {
		return "", err
	}
	out := filepath.Join(cache, "andrea", "softcuda", name)
	cmd := exec.Command("sh", filepath.Join(filepath.Dir(source), "build.sh"), out)
	cmd.Env = append(os.Environ(), "CXX="+compiler, "KERNELS="+kernels)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the software CUDA device: %w\n%s", err, text)
	}
	return filepath.Join(out, "libcuda.so.1"), nil
}

// compiler is the first C++ compiler that is installed.
func compiler() (string, error) {
	for _, name := range []string{"clang++-19", "g++"} {
		if _, err := exec.LookPath(name); err == nil {
			return name, nil
		}
	}
	return "", ErrNoCompiler
}
