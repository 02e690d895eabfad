package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"andrea/vfs"
)

// lockFile is the file in a run's folder that the one process holds that may change
// the run. The lock is the operating system's, not the file: it ends with the process.
const lockFile = "lock"

// maxLockBytes is the room that the file's text has: the number of the process, for
// people.
const maxLockBytes = 32

// ErrTaken is wrapped by the error of Create when another process has begun a run in the folder, or
// is about to.
var ErrTaken = errors.New("the folder is taken")

// taken is an error that wraps ErrTaken and does not say so.
type taken struct{ error }

// Is implements what errors.Is asks.
func (taken) Is(target error) bool { return target == ErrTaken }

// lock keeps every other process from changing the run in dir until the result is
// closed.
func lock(fsys vfs.FS, dir string) (vfs.File, error) {
	path := filepath.Join(dir, lockFile)
	file, err := fsys.Lock(path)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, taken{fmt.Errorf("opening the run %s: it is in use by %s: wait until that has ended, or end it", dir, holder(fsys, path))}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the run %s: %w", dir, err)
	}
	// Only messages need the number, so a full disk may keep it from being written.
	_, _ = file.WriteAt(fmt.Appendf(nil, "%-*d\n", maxLockBytes-1, os.Getpid()), 0)
	return file, nil
}

// InUse is the process that holds the run at dir, such as "process 12"; empty: none does, as far as can be seen. To
// see it, the lock is held for a moment, so it is for when nothing else tells.
func InUse(fsys vfs.FS, dir string) string {
	path := filepath.Join(dir, lockFile)
	if _, err := fsys.Stat(path); err != nil {
		return "" // looking makes no file
	}
	file, err := fsys.Lock(path)
	if errors.Is(err, vfs.ErrLocked) {
		return holder(fsys, path)
	}
	if err == nil {
		_ = file.Close() // nothing was written
	}
	return ""
}

// holder is the process that holds a lock, as far as the file tells.
func holder(fsys vfs.FS, path string) string {
	text, err := vfs.ReadFile(fsys, path, maxLockBytes)
	if err == nil {
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && pid > 0 {
			return fmt.Sprintf("process %d", pid)
		}
	}
	return "another process"
}
