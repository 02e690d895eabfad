//go:build cuda && cgo && linux

package driver

/*
#cgo LDFLAGS: -lcuda -ldl
#include <cuda.h>
int andrea_cuda_load(char *why, size_t size);
*/
import "C"

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"gorgonia.org/cu"
)

// loaded is the state of the driver's library, for the whole process.
var loaded struct {
	sync.Mutex
	ok bool
}

// load opens and initializes the driver's library once; after a failure it tries again.
func load() error {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.ok {
		return nil
	}
	var why [512]C.char
	switch code := C.andrea_cuda_load(&why[0], C.size_t(len(why))); {
	case code < 0:
		return fmt.Errorf("opening the CUDA driver: %s: install NVIDIA's driver, or run on a machine that has it, or use the CPU engine", C.GoString(&why[0]))
	case code > 0:
		return fmt.Errorf("opening the CUDA driver: %w", &Error{"cuInit", int(code)})
	}
	loaded.ok = true
	return nil
}

// check turns what package cu returns into an *Error. Its error type is not exported, but is a number.
func check(call string, err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return &Error{call, int(v.Int())}
	}
	return fmt.Errorf("%s: %w", call, err)
}

// result turns a code of the driver into an *Error.
func result(call string, code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return &Error{call, int(code)}
}

// allocPinned returns host memory that the device may read and write while the program goes on.
func allocPinned(bytes int64) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	return p, result("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(bytes), 0))
}

// maxDynamicShared is CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
const maxDynamicShared = 8

// allowShared lets launches of a kernel ask for that much dynamic shared memory; without it the limit is 48 KiB.
func allowShared(f cu.Function, bytes int) error {
	handle := *(*C.CUfunction)(unsafe.Pointer(&f)) // cu.Function is a struct of just the handle
	return result("cuFuncSetAttribute", C.cuFuncSetAttribute(handle, maxDynamicShared, C.int(bytes)))
}
