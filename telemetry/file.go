package telemetry

import (
	"errors"
	"fmt"
	"io/fs"

	"andrea/vfs"
)

// OpenFile opens a process's log file for a new life that appends to it, and makes it when it is
// missing. A last line that a crash tore is ended first: the new life's first line would else be glued
// to it and lost with it.
func OpenFile(fsys vfs.FS, path string) (vfs.File, error) {
	torn, err := isTorn(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("open the log %s: look at its end: %w", path, err)
	}
	file, err := fsys.OpenAppend(path)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	if !torn {
		return file, nil
	}
	if _, err := file.Write([]byte{'\n'}); err != nil {
		return nil, fmt.Errorf("open the log %s: end its torn last line: %w", path, errors.Join(err, file.Close()))
	}
	return file, nil
}

// isTorn tells whether a file ends within a line. A missing one does not.
func isTorn(fsys vfs.FS, path string) (bool, error) {
	info, err := fsys.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || info.Size() == 0:
		return false, err
	}
	file, err := fsys.Open(path)
	if err != nil {
		return false, err
	}
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', errors.Join(err, file.Close())
}
