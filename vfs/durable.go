package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// tempSuffix marks the sibling that WriteFileAtomic writes before the rename. A leftover after a
// crash is overwritten by the next WriteFileAtomic of the same path.
const tempSuffix = ".tmp"

// WriteFileAtomic puts data at path so that a reader, and whoever looks after a crash, finds the
// former content or the new one, never a mixture. When it returns nil the new content survives a
// power cut. On an error before the rename the former file is untouched; an error of the last step,
// syncing the folder, leaves the new content in place but not yet proven durable. Two callers must
// not write the same path at once.
func WriteFileAtomic(fsys FS, path string, data []byte, perm fs.FileMode) error {
	temp := path + tempSuffix
	if err := WriteFileSync(fsys, temp, data, perm); err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, removeIfThere(fsys, temp)))
	}
	if err := fsys.Rename(temp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, removeIfThere(fsys, temp)))
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: sync its folder: %w", path, err)
	}
	return nil
}

// WriteFileSync creates (or empties) path, writes data, syncs and closes. The name itself survives a
// power cut only after SyncDir of the folder.
func WriteFileSync(fsys FS, path string, data []byte, perm fs.FileMode) error {
	f, err := fsys.Create(path, perm)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// removeIfThere deletes a file; a missing one is no error.
func removeIfThere(fsys FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MkdirAllDurable makes a folder and its missing parents, and syncs the parent of each one it made,
// so that a file synced below does not vanish together with its folder.
func MkdirAllDurable(fsys FS, path string) error {
	path = filepath.Clean(path)
	var parents []string // of the folders to be made, innermost first
	for dir := path; ; dir = filepath.Dir(dir) {
		_, err := fsys.Stat(dir)
		if err == nil || dir == filepath.Dir(dir) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parents = append(parents, filepath.Dir(dir))
	}
	if err := fsys.MkdirAll(path); err != nil {
		return err
	}
	for i := len(parents) - 1; i >= 0; i-- {
		if err := fsys.SyncDir(parents[i]); err != nil {
			return fmt.Errorf("make folder %s durable: sync %s: %w", path, parents[i], err)
		}
	}
	return nil
}

// RemoveAll deletes a file, or a folder with all it holds, in the byte order of the names; a missing
// path is no error, and a link is deleted without touching what it leads to. It is a sequence of
// removals: a crash leaves a part, so rename what must vanish at once before deleting it.
func RemoveAll(fsys FS, path string) error {
	err := removeIfThere(fsys, path)
	if err == nil {
		return nil
	}
	entries, readErr := fsys.ReadDir(path)
	if readErr != nil {
		return errors.Join(err, readErr) // of a file the first says what is wrong, of a folder the second
	}
	for _, entry := range entries {
		child := filepath.Join(path, entry.Name())
		if entry.IsDir() {
			err = RemoveAll(fsys, child)
		} else {
			err = removeIfThere(fsys, child)
		}
		if err != nil {
			return err
		}
	}
	return removeIfThere(fsys, path)
}

// ErrTooLarge is wrapped by ReadFile's error when a file exceeds the caller's limit.
var ErrTooLarge = errors.New("file is too large")

// ReadFile reads a whole regular file of at most maxBytes bytes; the caller owns the result. The limit
// holds for what is read, whatever size the file system claims.
func ReadFile(fsys FS, path string, maxBytes int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(data)) > maxBytes {
		return nil, fmt.Errorf("read %s: %w: more than %d bytes", path, ErrTooLarge, maxBytes)
	}
	return data, nil
}
