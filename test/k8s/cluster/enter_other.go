//go:build !linux

package cluster

import (
	"errors"
	"runtime"
)

// Enter calls run: there are no namespaces on this system.
func Enter(run func() int) int { return run() }

// Inside returns an error: there are no namespaces on this system.
func Inside() error {
	return errors.New("a control plane needs Linux namespaces, which " + runtime.GOOS + " has not")
}
