package dirstore

import (
	"errors"
	"fmt"
	"io/fs"

	"andrea/checkpoints"
	"andrea/vfs"
)

// publish moves the complete temporary folder to its place, and returns the manifest that lies there.
func (w *Writer) publish(m checkpoints.Manifest) (checkpoints.Manifest, error) {
	s := w.store
	_, err := s.fsys.Stat(s.Path(w.step))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, s.moveIn(w.temp, w.step)
	case err != nil:
		return m, err
	case s.unusable[w.step]:
		return m, s.replaceDamaged(w.temp, w.step)
	}
	former, err := s.Verify(w.step)
	if err != nil {
		return m, s.replaceDamaged(w.temp, w.step)
	}
	if former.StateDigest != m.StateDigest {
		return m, fmt.Errorf("an intact checkpoint of this step with another state is there already: digest %v, new %v: the same step must give the same bits: move %s away to keep both", former.StateDigest, m.StateDigest, s.Path(w.step))
	}
	// It may be one that a process moved in and then died before it could sync the folder.
	return former, s.fsys.SyncDir(s.dir)
}

// moveIn is the moment at which a checkpoint begins to exist.
func (s *Store) moveIn(temp string, step int) error {
	if err := s.fsys.Rename(temp, s.Path(step)); err != nil {
		return err
	}
	delete(s.unusable, step)
	return s.fsys.SyncDir(s.dir)
}

// replaceDamaged moves the unusable folder aside first: a folder cannot be renamed onto a full one. A
// crash in between loses nothing that could have been used.
func (s *Store) replaceDamaged(temp string, step int) error {
	aside := s.temp("damaged-", step)
	if err := vfs.RemoveAll(s.fsys, aside); err != nil {
		return err
	}
	if err := s.fsys.Rename(s.Path(step), aside); err != nil {
		return err
	}
	if err := s.moveIn(temp, step); err != nil {
		return err
	}
	// The new one is in place; what is left of the old one the next OpenOwned deletes.
	_ = vfs.RemoveAll(s.fsys, aside)
	return nil
}

// Retain deletes the checkpoints that keepLast (at least 1) no longer covers, after the one of step has
// been read back and found intact: that one is never deleted, nor is a newer one. It returns the deleted steps,
// oldest first. An error leaves every checkpoint either whole or gone.
func (s *Store) Retain(step, keepLast int) (deleted []int, err error) {
	steps, err := s.List()
	if err != nil {
		return nil, err
	}
	present := make([]checkpoints.Present, len(steps))
	for i, p := range steps {
		present[i] = checkpoints.Present{Step: p, Damaged: s.unusable[p]}
	}
	expired := checkpoints.Expired(present, step, keepLast)
	if len(expired) == 0 {
		return nil, nil
	}
	if _, err := s.Verify(step); err != nil {
		return nil, fmt.Errorf("deleting old checkpoints: none was deleted, because the new one is damaged: %w", err)
	}
	for _, old := range expired {
		if err := s.delete(old); err != nil {
			return deleted, fmt.Errorf("deleting the checkpoint of step %d: %w", old, err)
		}
		deleted = append(deleted, old)
	}
	return deleted, nil
}

// delete takes the name away first, durably: after a crash in the middle no half of a checkpoint
// bears a checkpoint's name.
func (s *Store) delete(step int) error {
	aside := s.temp("delete-", step)
	if err := vfs.RemoveAll(s.fsys, aside); err != nil {
		return err
	}
	if err := s.fsys.Rename(s.Path(step), aside); err != nil {
		return err
	}
	if err := s.fsys.SyncDir(s.dir); err != nil {
		return err
	}
	delete(s.unusable, step)
	return vfs.RemoveAll(s.fsys, aside)
}
