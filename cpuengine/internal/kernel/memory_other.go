//go:build !linux

package kernel

// adviseHugePages does nothing where pages are the system's own business.
func adviseHugePages([]byte) {}
