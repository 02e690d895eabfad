// Package driver is the CUDA driver as the engine needs it: one device, one thread that talks to it, memory in
// one arena, streams, events and kernels. It stands on gorgonia.org/cu's package-level functions, and calls
// itself what that module lacks: pinned memory and the attributes of functions.
//
// With build tag cuda it needs cgo and what build.sh makes; nothing of CUDA has to be installed to compile it.
// The driver's library is opened when the first device is. Without the tag the
// package is empty.
package driver
