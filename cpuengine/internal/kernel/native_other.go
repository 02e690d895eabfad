//go:build !amd64 && !arm64

package kernel

// nativePaths returns the assembly paths of this machine: none on this architecture.
func nativePaths() []*Path { return nil }
