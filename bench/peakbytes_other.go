//go:build !(linux || darwin)

package bench

// peakBytes is the most memory that this process has had, 0 if the system does not say.
func peakBytes() int64 { return 0 }
