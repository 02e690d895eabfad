// Package cpuengine is the model.Engine of processors: float32 in Go and assembly.
//
// Its bits depend on the shapes only. Work is split by shape, never by the number
// of threads; every output element is produced by one goroutine in one fixed order;
// and every instruction set computes the same bits (package kernel). A weight
// gradient is one chain of fused multiply-adds that starts from what the slot holds.
//
// All memory is one block, allocated by New; the calls of a step allocate nothing.
package cpuengine
