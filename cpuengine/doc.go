// Package cpuengine is the model.Engine of processors: float32 in Go and assembly.
//
// Its bits depend on the shapes only: they decide which operations make up an element,
// and in which order. Every element is computed whole by one goroutine; which one, and
// what else it computes, follows from the number of threads and from chance, and cannot
// be seen. Every instruction set computes the same bits (package kernel). A weight
// gradient is one chain of fused multiply-adds that starts from what the slot holds.
//
// New allocates what a step needs: one block for tensors and activations, the buffers
// that package kernel packs into, and small tables; the calls of a step allocate nothing.
// Begin alone allocates once more, the keys and values of what it reads.
package cpuengine
