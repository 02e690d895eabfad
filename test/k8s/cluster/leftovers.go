//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Processes, mounts and networks of a cluster end with its namespaces, however that comes. Its files and control groups
// do not: they have a name that says so, and whoever opens the next home clears away those of which nobody holds the lock.
const (
	homePrefix = "andrea-k8s-cluster-"
	lockFile   = "lock"
)

// home is a folder for a cluster's files, and the name of its control groups.
type home struct {
	dir  string
	lock *os.File
}

func (h home) cgroup() string { return "/" + filepath.Base(h.dir) }

// newHome clears away what clusters have left behind that were killed, and makes a home.
func newHome() (home, error) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), homePrefix+"*"))
	if err != nil {
		return home{}, err
	}
	for _, dir := range old {
		if err := clearAbandoned(dir); err != nil {
			return home{}, fmt.Errorf("clearing away %s, which a cluster has left behind: %w", dir, err)
		}
	}
	dir, err := os.MkdirTemp("", homePrefix)
	if err != nil {
		return home{}, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	// The image's user walks through it.
	return home{dir, lock}, errors.Join(err, os.Chmod(dir, 0o755))
}

// clearAbandoned removes a home, unless somebody lives there.
func clearAbandoned(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it is only just being made
	}
	if err != nil {
		return err
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return lock.Close()
	}
	return home{dir, lock}.remove()
}

// remove removes the home when all that lived there has ended.
func (h home) remove() error {
	return errors.Join(removeCgroup(h.cgroup()), os.RemoveAll(h.dir), h.lock.Close())
}
