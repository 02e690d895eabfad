package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
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

// MkdirAllDurable makes a folder and its missing parents so that they survive a power cut, and a file
// synced below does not vanish together with them. Each is durable before the next is made, so that of
// what a killed process left behind only the innermost folder can be unsynced, and the next call syncs it.
func MkdirAllDurable(fsys FS, path string) error {
	path = filepath.Clean(path)
	dir := path
	var missing []string // innermost first
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		_, err := fsys.Stat(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, dir)
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := fsys.SyncDir(parent); err != nil && !neverOurs(err) {
			return fmt.Errorf("make folder %s durable: sync %s: %w", path, parent, err)
		}
	}
	for _, dir := range slices.Backward(missing) {
		if err := fsys.MkdirAll(dir); err != nil {
			return err
		}
		if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
			return fmt.Errorf("make folder %s durable: sync %s: %w", path, filepath.Dir(dir), err)
		}
	}
	return nil
}

// neverOurs tells of the error of syncing a folder that it belongs to the system (it may not be read, or
// its file system is read-only or cannot sync), so that nobody like us has made a folder in it.
func neverOurs(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL)
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

// ReadFullAt fills b with the bytes from offset on, or says where the file ends. (An io.ReaderAt may report
// the end beside the last bytes, which is no error here.)
func ReadFullAt(f io.ReaderAt, b []byte, offset int64) error {
	n, err := f.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return fmt.Errorf("the file ends at byte %d: it is truncated: %w", offset+int64(n), io.ErrUnexpectedEOF)
	}
	return err
}
