package dirstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"andrea/checkpoints"
	"andrea/vfs"
)

// Manifest reads the manifest of the checkpoint of a step. Whether the files are as it says tell CheckSizes,
// quickly, and Verify.
func (s *Store) Manifest(step int) (checkpoints.Manifest, error) {
	dir := s.Path(step)
	m, err := s.readManifest(dir, step)
	if err != nil {
		return m, fmt.Errorf("reading the checkpoint %s: %w", dir, err)
	}
	return m, nil
}

func (s *Store) readManifest(dir string, step int) (checkpoints.Manifest, error) {
	data, err := vfs.ReadFile(s.fsys, filepath.Join(dir, checkpoints.ManifestFile), checkpoints.MaxManifestBytes)
	var m checkpoints.Manifest
	if err == nil {
		m, err = checkpoints.Parse(data)
	}
	if err == nil && m.Step != step {
		err = fmt.Errorf("is that of step %d: the folder was renamed or the file comes from elsewhere", m.Step)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", checkpoints.ManifestFile, err)
	}
	return m, nil
}

// CheckSizes compares the sizes of the files of a checkpoint with its manifest m, and reads none.
func (s *Store) CheckSizes(m checkpoints.Manifest) error {
	dir := s.Path(m.Step)
	for _, want := range m.Files {
		if err := s.checkSize(dir, want); err != nil {
			return fmt.Errorf("reading the checkpoint %s: %s: %w", dir, want.Name, err)
		}
	}
	return nil
}

// checkSize comes first: it is cheap, and a truncated file is named as such.
func (s *Store) checkSize(dir string, want checkpoints.File) error {
	info, err := s.fsys.Stat(filepath.Join(dir, want.Name))
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("is no regular file")
	case info.Size() != want.Bytes:
		return fmt.Errorf("has %d bytes: the manifest says %d: the file is truncated or not the one that was written", info.Size(), want.Bytes)
	}
	return nil
}
