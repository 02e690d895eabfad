//go:build linux || darwin

package bench

import (
	"runtime"
	"syscall"
)

// peakBytes is the most memory that this process has had, 0 if the system does not say.
func peakBytes() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	if runtime.GOOS == "linux" {
		return usage.Maxrss << 10 // Linux counts in KiB, others in bytes
	}
	return usage.Maxrss
}
