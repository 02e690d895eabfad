//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// smallDisk is a folder with a file system of its own, in memory, which ends with the namespace of mounts.
type smallDisk string

// Sizes of a smallDisk before and after it has grown: room for dozens of checkpoints of a model of some 100,000 parameters.
const (
	smallSize = "64m"
	grownSize = "128m"
)

// make makes the folder. Nodes that are started later have it as well.
func (d smallDisk) make() error {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("small", string(d), "tmpfs", 0, "mode=777,size="+smallSize); err != nil {
		return fmt.Errorf("mounting %s: %w", d, err)
	}
	return nil
}

// fill writes a file until there is no room.
func (d smallDisk) fill() error {
	file, err := os.Create(filepath.Join(string(d), "of-somebody-else"))
	if err != nil {
		return err
	}
	_, err = io.Copy(file, zeros{})
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// zeros is as many of them as anybody reads.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (d smallDisk) grow() error {
	if err := syscall.Mount("small", string(d), "tmpfs", syscall.MS_REMOUNT, "size="+grownSize); err != nil {
		return fmt.Errorf("growing %s: %w", d, err)
	}
	return nil
}

// remove unmounts it, lazily: whoever had it open has been killed.
func (d smallDisk) remove() {
	_ = syscall.Unmount(string(d), syscall.MNT_DETACH) // it may not be there
}
