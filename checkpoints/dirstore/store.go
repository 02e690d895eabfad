// Package dirstore keeps checkpoints in a folder, one subfolder each. A checkpoint is written beside
// its place and moved there as the last act, so that a crash leaves the old checkpoints and at most
// one complete new one; everything is verified when it is read, and a damaged checkpoint is passed
// over for the newest intact one. docs/formats/checkpoint.md has the order of operations and why.
package dirstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"andrea/checkpoints"
	"andrea/vfs"
)

// ErrNone is wrapped by Newest's error when there is no intact checkpoint.
var ErrNone = errors.New("there is no intact checkpoint")

// Store is a folder of checkpoints. It is not safe for concurrent use, but any number of processes may
// read a folder while its one owner writes.
type Store struct {
	fsys     vfs.FS
	dir      string
	unusable map[int]bool // steps that failed verification, or were not accepted, in this process and were not replaced since
}

// Open returns the store in dir for reading; nothing is touched, and a missing folder holds no
// checkpoints.
func Open(fsys vfs.FS, dir string) *Store {
	return &Store{fsys: fsys, dir: dir, unusable: map[int]bool{}}
}

// OpenOwned returns the store in dir for reading and writing. It makes the folder durable and deletes
// what crashes left half done, so only the one process that owns the run may call it.
func OpenOwned(fsys vfs.FS, dir string) (*Store, error) {
	s := Open(fsys, dir)
	if err := vfs.MkdirAllDurable(fsys, dir); err != nil {
		return nil, fmt.Errorf("opening the checkpoints in %s: %w", dir, err)
	}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("opening the checkpoints in %s: %w", dir, err)
	}
	if err := s.try(); err != nil {
		return nil, fmt.Errorf("opening the checkpoints in %s: no checkpoint could be written there: %w: make the folder writable", dir, err)
	}
	return s, nil
}

// try makes and deletes a folder as a checkpoint needs one, so that a run does not learn at its first checkpoint
// that it may not. What a crash leaves of it is swept.
func (s *Store) try() error {
	path := filepath.Join(s.dir, checkpoints.TempPrefix+"try")
	if err := s.fsys.MkdirAll(path); err != nil {
		return err
	}
	return s.fsys.Remove(path)
}

// sweep makes durable what a killed owner may have left unsynced, and deletes the temporary folders. The
// order matters: one of them may have been a checkpoint, and must not come back with half its files.
func (s *Store) sweep() error {
	entries, err := s.fsys.ReadDir(s.dir)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), checkpoints.TempPrefix) })
	if err := s.fsys.SyncDir(s.dir); err != nil {
		return err
	}
	for _, e := range entries {
		if err := vfs.RemoveAll(s.fsys, filepath.Join(s.dir, e.Name())); err != nil {
			return fmt.Errorf("delete the unfinished %s: %w", e.Name(), err)
		}
	}
	return nil
}

// List returns the steps that have a folder here, damaged ones too, in ascending order of the numbers.
func (s *Store) List() ([]int, error) {
	entries, err := s.fsys.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the checkpoints in %s: %w", s.dir, err)
	}
	var steps []int
	for _, e := range entries {
		if step, ok := checkpoints.ParseStepFolder(e.Name()); ok {
			steps = append(steps, step)
		}
	}
	slices.SortFunc(steps, cmp.Compare)
	return steps, nil
}

// Path is the folder of a step's checkpoint, whether it exists or not.
func (s *Store) Path(step int) string {
	return filepath.Join(s.dir, checkpoints.StepFolder(step))
}

// temp is a folder beside the checkpoints that OpenOwned deletes.
func (s *Store) temp(purpose string, step int) string {
	return filepath.Join(s.dir, checkpoints.TempPrefix+purpose+checkpoints.StepFolder(step))
}
