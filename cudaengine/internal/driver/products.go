//go:build cuda && cgo && linux

package driver

// #include <stdlib.h>
// #include "products.h"
import "C"

import (
	"errors"
	"fmt"
	"hash/fnv"
	"unsafe"
)

// LibraryVersion opens NVIDIA's library of products, cuBLASLt, and returns its version, such as "13.0.2". The error says which
// names were tried.
func LibraryVersion() (string, error) {
	loaded.Lock()
	defer loaded.Unlock()
	var why [1024]C.char
	if C.andrea_products_load(&why[0], C.size_t(len(why))) != 0 {
		return "", fmt.Errorf("opening cuBLASLt: %s: install NVIDIA's cuBLAS 12 or 13, or name its libcublasLt.so in ANDREA_CUBLASLT_LIBRARY, or use the kernels of this program (--gemm own)", C.GoString(&why[0]))
	}
	v := int(C.andrea_products_version())
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100), nil
}

// LibraryError is a failed call of cuBLASLt.
type LibraryError struct {
	Call string // the library's function
	Code int    // cublasStatus_t
}

// statuses says what the codes mean, and what to do.
var statuses = map[int]string{
	1:  "the library could not start: this driver may be older than it needs",
	3:  "the library found no memory: end what else runs on the device",
	7:  "invalid value: this is a fault of the program",
	8:  "the library does not know this GPU: install a newer one",
	13: "a product failed on the device",
	14: "a fault of the library",
	15: "the library has no way to compute this: use --gemm own",
}

// Error says which call failed and why.
func (e *LibraryError) Error() string {
	if text, ok := statuses[e.Code]; ok {
		return fmt.Sprintf("%s: cuBLAS status %d: %s", e.Call, e.Code, text)
	}
	return fmt.Sprintf("%s: cuBLAS status %d", e.Call, e.Code)
}

// libraryResult turns a status into an error.
func libraryResult(status C.int, call *C.char) error {
	if status == 0 {
		return nil
	}
	return &LibraryError{C.GoString(call), int(status)}
}

// Shape is a product C[M,N] = A·B of matrices that lie row by row. A is [M,K], or [K,M] if it is turned; B is [K,N], or
// [N,K] if it is turned. It decides the algorithm, and so the bits.
type Shape struct {
	M, N, K         int
	LDA, LDB, LDC   int // elements from one row to the next
	TurnA, TurnB    bool
	HalfIn, HalfOut bool // A and B, and C, are bfloat16 instead of float32
	AlignA, AlignB  int  // bytes that the addresses are multiples of
	AlignC          int
}

// Products multiplies matrices by cuBLASLt. It is the device's, and gone after its Close.
type Products struct {
	device    *Device
	handle    unsafe.Pointer
	workspace Pointer
	bytes     int64
	planned   map[Shape]*C.struct_andrea_product
	made      []*C.struct_andrea_product // also of what could not be planned to its end
	digest    uint64                     // of the shapes that were planned and their algorithms, in order
}

// NewProducts starts the library on the device, after LibraryVersion has opened it. All products use the one workspace, so they
// belong into one stream.
func (d *Device) NewProducts(workspace Pointer, bytes int64) (*Products, error) {
	p := &Products{device: d, workspace: workspace, bytes: bytes, planned: map[Shape]*C.struct_andrea_product{}}
	var call *C.char
	if err := libraryResult(C.andrea_products_create(&p.handle, &call), call); err != nil {
		return nil, fmt.Errorf("starting cuBLASLt: %w", err)
	}
	d.own(p.release)
	return p, nil
}

// release gives everything back to the library.
func (p *Products) release() error {
	var errs []error
	var call *C.char
	for _, made := range p.made {
		errs = append(errs, libraryResult(C.andrea_product_release(made, &call), call))
		C.free(unsafe.Pointer(made))
	}
	p.planned, p.made = nil, nil
	return errors.Join(append(errs, libraryResult(C.andrea_products_destroy(p.handle, &call), call))...)
}

// Plan asks the library once for an algorithm for a shape; it is the shape's until the device is closed.
func (p *Products) Plan(s Shape) error {
	if p.planned[s] != nil {
		return nil
	}
	planned := (*C.struct_andrea_product)(C.calloc(1, C.sizeof_struct_andrea_product))
	p.made = append(p.made, planned)
	shape := C.struct_andrea_shape{
		m: C.int64_t(s.M), n: C.int64_t(s.N), k: C.int64_t(s.K), lda: C.int64_t(s.LDA), ldb: C.int64_t(s.LDB), ldc: C.int64_t(s.LDC),
		turn_a: flag(s.TurnA), turn_b: flag(s.TurnB), half_in: flag(s.HalfIn), half_out: flag(s.HalfOut),
		align_a: C.uint32_t(s.AlignA), align_b: C.uint32_t(s.AlignB), align_c: C.uint32_t(s.AlignC),
	}
	var call *C.char
	if err := libraryResult(C.andrea_product_plan(p.handle, &shape, C.size_t(p.bytes), planned, &call), call); err != nil {
		return fmt.Errorf("planning a product of %d rows, %d columns and %d products an element: %w", s.M, s.N, s.K, err)
	}
	h := fnv.New64a()
	fmt.Fprint(h, p.digest, s, planned.algorithm)
	p.digest = h.Sum64()
	p.planned[s] = planned
	return nil
}

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// Multiply queues C = A·B, or with add C = C + A·B, of a shape that has been planned.
func (p *Products) Multiply(to *Stream, s Shape, c, a, b Pointer, add bool) error {
	stream := *(*unsafe.Pointer)(unsafe.Pointer(&to.handle)) // cu.Stream is a struct of just the handle
	var call *C.char
	status := C.andrea_product_run(p.handle, p.planned[s], C.uint64_t(c), C.uint64_t(a), C.uint64_t(b), C.int(flag(add)), C.uint64_t(p.workspace), C.size_t(p.bytes), stream, &call)
	if err := libraryResult(status, call); err != nil {
		return fmt.Errorf("multiplying %d rows, %d columns and %d products an element: %w", s.M, s.N, s.K, err)
	}
	return nil
}

// Planned is how many shapes have an algorithm.
func (p *Products) Planned() int { return len(p.planned) }

// Digest is a number that differs where shapes or algorithms differ.
func (p *Products) Digest() uint64 { return p.digest }
