// Package kernels holds the CUDA kernels of the GPU engine: their sources (*.cu, *.h), the images compiled
// from them (ptx/, by build.sh), and the table by which an engine launches them. The package itself is plain
// Go without cgo.
//
// Every kernel exists for the engine's two precisions, as NAME_bf16 and NAME_fp32: there activations, their
// gradients and the weights that products read are bfloat16 or float32. The residual stream, its gradient, the
// statistics of rows, the master weights, their moments and all gradients of weights are float32 in both. fp32
// uses IEEE operations only, in an order that shapes alone decide, so its bits are the same on every device;
// bf16 repeats its bits on one GPU model.
//
// # Words of the table
//
// Pointers are device addresses, a multiple of 16 unless said otherwise; "or 0" allows none. Rows are windows·t,
// row r is position r%t of window r/t. Matrices are row-major. qkv [rows,3·width] has the queries, keys and
// values of all heads side by side. Tokens are [windows][t+1] as in model.Batch.
//
// No kernel allocates, none uses an atomic on floats, none waits for another block.
package kernels
