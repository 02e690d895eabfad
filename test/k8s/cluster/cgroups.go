//go:build linux

package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cgroupRoot is where the machine's hierarchies of control groups lie.
const cgroupRoot = "/sys/fs/cgroup"

// hierarchies lists the folders of the hierarchies: one, or one for each controller where the machine has the first version.
func hierarchies() (dirs []string) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() { // links lead to others of these
			dirs = append(dirs, filepath.Join(cgroupRoot, e.Name()))
		}
	}
	return dirs
}

// makeCgroup makes a group, and those above it, in every hierarchy. What a new group may use is what the one above may.
func makeCgroup(path string) error {
	for _, hierarchy := range hierarchies() {
		dir := hierarchy
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			above := dir
			dir = filepath.Join(dir, part)
			if err := allow(above); err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
				if err := inherit(above, dir, name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// allow passes the controllers of a group of the second version on to those below it.
func allow(dir string) error {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil || len(strings.Fields(string(controllers))) == 0 {
		return nil // of the first version, or without controllers
	}
	text := "+" + strings.Join(strings.Fields(string(controllers)), " +")
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(text), 0)
}

// inherit copies a setting that a new group of the first version has empty.
func inherit(above, dir, name string) error {
	now, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || strings.TrimSpace(string(now)) != "" {
		return nil // it has no such setting, or a value
	}
	value, err := os.ReadFile(filepath.Join(above, name))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), value, 0)
}

// removeCgroup removes a group and those below it from every hierarchy. Groups stay busy for a moment after their last
// process has ended.
func removeCgroup(path string) (err error) {
	const tries = 50
	for range tries {
		err = nil
		for _, hierarchy := range hierarchies() {
			err = errors.Join(err, removeTree(filepath.Join(hierarchy, path)))
		}
		if err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// removeTree removes folders, the deepest first; the files in them are the kernel's.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeTree(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, os.Remove(dir))
}
