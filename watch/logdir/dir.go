// Package logdir reads the log files of a run's folder, NAME.jsonl for the process NAME, and follows
// them while the run is alive.
//
// The files are the truth, the bus is the bell: a line on the bus of a process that has a file here
// says only that there is something to read. So no line of it is missed or seen twice, whatever the bus
// loses. The lines of a process that has no file here, because it runs elsewhere, are taken from the bus.
package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"andrea/vfs"
	"andrea/watch"
)

const extension = ".jsonl"

// Dir is a folder of log files that is being read. Close it.
type Dir struct {
	fsys   vfs.FS
	path   string
	warn   func(error)
	merger watch.Merger
	tails  map[string]*watch.Tail // by process; nil: not read, see look and Skip
	files  []vfs.File
}

// Open returns the log files in a folder, which need not exist yet. A file that cannot be read is told
// to warn, once, and left out.
func Open(fsys vfs.FS, path string, warn func(error)) *Dir {
	return &Dir{fsys: fsys, path: path, warn: warn, tails: map[string]*watch.Tail{}}
}

// Drain gives emit what is new since the last call, in the order of time. The error is emit's.
func (d *Dir) Drain(emit func(watch.Line) error) error {
	d.look()
	return d.merger.Drain(emit, d.warn)
}

// look opens the files that are new.
func (d *Dir) look() {
	entries, err := d.fsys.ReadDir(d.path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.once("", fmt.Errorf("list the logs in %s: %w", d.path, err))
		}
		return
	}
	for _, e := range entries {
		process, isLog := strings.CutSuffix(e.Name(), extension)
		if _, known := d.tails[process]; known || !isLog || process == "" {
			continue
		}
		path := filepath.Join(d.path, e.Name())
		file, err := d.fsys.Open(path)
		if err != nil {
			d.once(process, fmt.Errorf("read a log: %w", err))
			continue
		}
		d.add(process, path, file)
	}
}

// once warns of a file, or of the folder under the name "", and gives it up.
func (d *Dir) once(process string, err error) {
	if _, known := d.tails[process]; !known {
		d.tails[process] = nil
		d.warn(err)
	}
}

func (d *Dir) add(process, path string, file vfs.File) {
	tail := watch.NewTail(process, file)
	d.files = append(d.files, file)
	d.tails[process] = tail
	d.merger.Add(process, func() (watch.Line, error) {
		line, err := tail.Next()
		if err != nil {
			err = fmt.Errorf("read the log %s: %w", path, err)
		}
		return line, err
	})
}

// Torn gives emit the lines that have begun and not ended, by process. Call it last.
func (d *Dir) Torn(emit func(watch.Line) error) error {
	for _, process := range slices.Sorted(maps.Keys(d.tails)) {
		tail := d.tails[process]
		if tail == nil {
			continue
		}
		if line, ok := tail.Torn(); ok {
			if err := emit(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// Has reports whether the log of a process is read here.
func (d *Dir) Has(process string) bool { return d.tails[process] != nil }

// Processes returns the processes that have a log here, in the order of their names.
func (d *Dir) Processes() []string {
	var names []string
	for _, process := range slices.Sorted(maps.Keys(d.tails)) {
		if d.Has(process) {
			names = append(names, process)
		}
	}
	return names
}

// Skip leaves the log of a process out, should there be one later.
func (d *Dir) Skip(process string) {
	if !d.Has(process) {
		d.tails[process] = nil
	}
}

// Close closes the files.
func (d *Dir) Close() error {
	var errs []error
	for _, file := range d.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
