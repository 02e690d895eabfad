package cli

import "runtime/debug"

// gcPercent is how much garbage the Go runtime lets lie while a run trains, in
// percent of the memory in use. A run holds a few huge blocks without pointers, so
// collecting costs next to nothing, and Go's default of 100 would double the memory
// that a model needs.
const gcPercent = 10

// frugal applies gcPercent until the function that it returns is called.
func frugal() (restore func()) {
	former := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(former) }
}
