package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Create(path string, perm fs.FileMode) (File, error) {
	return openFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, perm)
}

func (osFS) CreateExclusive(path string, perm fs.FileMode) (File, error) {
	return openFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

func (osFS) OpenAppend(path string) (File, error) {
	return openFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

// Open looks at the file first, because opening a pipe that nobody writes to would wait for ever.
func (osFS) Open(path string) (File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: it is not a regular file but %s", path, kindOf(info.Mode()))
	}
	return openFile(path, os.O_RDONLY, 0)
}

// Lock takes the operating system's own lock of an open file, which no death of a process leaves behind.
func (osFS) Lock(path string) (File, error) {
	f, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// openFile keeps a nil *os.File from becoming a non-nil File.
func openFile(path string, flags int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func kindOf(mode fs.FileMode) string {
	if mode.IsDir() {
		return "a folder"
	}
	return "a special file (" + mode.Type().String() + ")"
}

func (osFS) Rename(oldPath, newPath string) error       { return os.Rename(oldPath, newPath) }
func (osFS) Remove(path string) error                   { return os.Remove(path) }
func (osFS) MkdirAll(path string) error                 { return os.MkdirAll(path, 0o755) }
func (osFS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (osFS) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }

func (osFS) SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there; renames are journaled by NTFS itself
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if closeErr := dir.Close(); err == nil {
		err = closeErr
	}
	return err
}
