// Package kernel holds the arithmetic of the CPU engine: matrix products and the vector
// functions of a training step, in fp32. Each exists once in Go, which defines the bits, and
// in generated assembly for AVX-512, AVX2 and NEON that gives the same bits. A product's element is
// one chain of fused multiply-adds over ascending k; a reduction over a row has 16 partial
// results and a fixed tree. So neither the instruction set nor the number of workers nor the
// blocking shows in a result. NaN payloads are the one exception: only NaN-ness agrees.
package kernel

//go:generate go run ./gen
