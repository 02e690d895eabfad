//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package vfs

import (
	"errors"
	"io/fs"
	"os"
)

// lockFile refuses: a lock that outlives a crash would be worse than none.
func lockFile(path string) (*os.File, error) {
	return nil, &fs.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}
