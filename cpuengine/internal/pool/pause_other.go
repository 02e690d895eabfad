//go:build !amd64 && !arm64

package pool

// pause does nothing where no instruction for spinning is known.
func pause() {}
