//go:build !(cuda && cgo && linux)

package cudaengine

import (
	"errors"

	"andrea/model"
)

// errAbsent answers in a program that was built without CUDA.
var errAbsent = errors.New("looking for CUDA devices: this program was built without CUDA: on linux, build it with: cudaengine/internal/driver/build.sh go build -tags cuda ./cmd/andrea")

// Open would open an engine; this program was built without CUDA, and the error says how to build it with.
func Open(model.Config, Options) (model.Engine, error) { return nil, errAbsent }

// Devices would list the GPUs of this machine; this program was built without CUDA.
func Devices(string) ([]Device, error) { return nil, errAbsent }
