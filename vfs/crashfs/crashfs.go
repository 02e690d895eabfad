// Package crashfs is a file system in memory for tests of everything that must survive a crash. It
// remembers, beside the current state, what has been synced: the bytes of a file after File.Sync,
// the names in a folder after SyncDir. Crash gives the file system that a machine finds after losing
// power, Kill the one after the death of the process alone. Every operation can be made to fail or to
// be the last one, and every change is logged in a line, so that a test can pin the order of changes.
//
// A test of crashes goes over k = 0, 1, 2, ...: it injects CrashAt(k), runs, takes Crash() and checks
// what is left, until the run needs fewer operations than k.
package crashfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"andrea/vfs"
)

// ErrCrashed is returned by the operation that a fault made the last one, and by all after it.
var ErrCrashed = errors.New("the machine has crashed (injected)")

// Op describes one operation to a Fault. Reads count too: create, create-exclusive, open-append, open,
// rename, remove, mkdir, readdir, stat, syncdir, lock on the file system; read, readat, write, writeat, sync,
// close on files.
type Op struct {
	Index int    // operations since Inject, from 0
	Kind  string // one of the words above
	Path  string // of a rename: the old name
	Bytes int    // of a write or read: the length asked for
}

// Fault decides before each operation: nil lets it happen, an error makes it fail. A failed write
// leaves its first half; any other failed operation changes nothing. An error that wraps ErrCrashed
// ends all operations. It is called under the file system's lock.
type Fault func(Op) error

// FailAt is the fault that makes operation k alone fail with err.
func FailAt(k int, err error) Fault {
	return func(op Op) error {
		if op.Index == k {
			return err
		}
		return nil
	}
}

// CrashAt is the fault that makes the machine stop in operation k.
func CrashAt(k int) Fault { return FailAt(k, ErrCrashed) }

// FS is the file system; New makes one. It is safe for concurrent use. Relative and absolute paths
// share one root: "a/b" and "/a/b" are the same file.
type FS struct {
	mu     sync.Mutex
	root   *node
	fault  Fault
	count  int // operations since Inject
	fired  bool
	dead   bool
	logged []string
}

var _ vfs.FS = (*FS)(nil)

// New makes an empty file system.
func New() *FS { return &FS{root: newDir()} }

// Inject sets the fault (nil for none), and starts the count of operations and the log anew.
func (f *FS) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.count, f.fired, f.logged = fault, 0, false, nil
}

// Fired tells whether the fault of the last Inject has made an operation fail.
func (f *FS) Fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Log returns the changes made since Inject (or New), one a line: the kind of operation, its path and,
// for a write, its length. Reads and failed operations are left out. The caller owns the result.
func (f *FS) Log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.logged)
}

// begin counts an operation and asks the fault. Callers hold the lock.
func (f *FS) begin(kind, path string, bytes int) error {
	if f.dead {
		return &fs.PathError{Op: kind, Path: path, Err: ErrCrashed}
	}
	op := Op{Index: f.count, Kind: kind, Path: path, Bytes: bytes}
	f.count++
	if f.fault == nil {
		return nil
	}
	err := f.fault(op)
	if err == nil {
		return nil
	}
	f.fired = true
	f.dead = errors.Is(err, ErrCrashed)
	return &fs.PathError{Op: kind, Path: path, Err: err}
}

func (f *FS) logf(format string, args ...any) {
	f.logged = append(f.logged, fmt.Sprintf(format, args...))
}

// split gives the names on the way to path; none for the root.
func split(path string) []string {
	clean := strings.Trim(filepath.ToSlash(filepath.Clean("/"+path)), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// find walks to path. Callers hold the lock.
func (f *FS) find(kind, path string) (*node, error) {
	at := f.root
	for _, name := range split(path) {
		if !at.dir {
			return nil, &fs.PathError{Op: kind, Path: path, Err: errNotDir}
		}
		next, ok := at.entries[name]
		if !ok {
			return nil, &fs.PathError{Op: kind, Path: path, Err: fs.ErrNotExist}
		}
		at = next
	}
	return at, nil
}

// parentOf walks to the folder of path and returns the last name too.
func (f *FS) parentOf(kind, path string) (*node, string, error) {
	names := split(path)
	if len(names) == 0 {
		return nil, "", &fs.PathError{Op: kind, Path: path, Err: fs.ErrInvalid}
	}
	last := len(names) - 1
	dir, err := f.find(kind, strings.Join(names[:last], "/"))
	if err == nil && !dir.dir {
		err = &fs.PathError{Op: kind, Path: path, Err: errNotDir}
	}
	return dir, names[last], err
}

var (
	errIsDir    = errors.New("is a folder")
	errNotDir   = errors.New("is not a folder")
	errNotEmpty = errors.New("folder is not empty")
)

// Create implements vfs.FS.
func (f *FS) Create(path string, _ fs.FileMode) (vfs.File, error) {
	return f.create("create", path, func(n *node) error {
		n.truncate()
		return nil
	})
}

// CreateExclusive implements vfs.FS.
func (f *FS) CreateExclusive(path string, _ fs.FileMode) (vfs.File, error) {
	return f.create("create-exclusive", path, func(*node) error { return fs.ErrExist })
}

// OpenAppend implements vfs.FS.
func (f *FS) OpenAppend(path string) (vfs.File, error) {
	file, err := f.create("open-append", path, func(*node) error { return nil })
	if err != nil {
		return nil, err
	}
	file.(*handle).appends = true
	return file, nil
}

// Lock implements vfs.FS. No lock outlives a Crash or Kill.
func (f *FS) Lock(path string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, err := f.open("lock", path, func(n *node) error {
		if n.locked {
			return vfs.ErrLocked
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	h.node.locked, h.locks = true, true
	return h, nil
}

// create opens path for writing; existing says what happens to a file that is there already.
func (f *FS) create(kind, path string, existing func(*node) error) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, err := f.open(kind, path, existing)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// open is create for callers that hold the lock.
func (f *FS) open(kind, path string, existing func(*node) error) (*handle, error) {
	if err := f.begin(kind, path, 0); err != nil {
		return nil, err
	}
	dir, name, err := f.parentOf(kind, path)
	if err != nil {
		return nil, err
	}
	n, ok := dir.entries[name]
	switch {
	case !ok:
		n = &node{}
		dir.change(change{add: name, node: n})
	case n.dir:
		err = errIsDir
	default:
		err = existing(n)
	}
	if err != nil {
		return nil, &fs.PathError{Op: kind, Path: path, Err: err}
	}
	f.logf("%s %s", kind, path)
	return &handle{fs: f, node: n, path: path, writable: true}, nil
}

// Open implements vfs.FS.
func (f *FS) Open(path string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("open", path, 0); err != nil {
		return nil, err
	}
	n, err := f.find("open", path)
	if err != nil {
		return nil, err
	}
	if n.dir {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errIsDir}
	}
	return &handle{fs: f, node: n, path: path}, nil
}

// Rename implements vfs.FS. Within one folder it is one change; between two folders each of them
// has its own change, and a crash may keep either.
func (f *FS) Rename(oldPath, newPath string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("rename", oldPath, 0); err != nil {
		return err
	}
	from, oldName, err := f.parentOf("rename", oldPath)
	if err != nil {
		return err
	}
	to, newName, err := f.parentOf("rename", newPath)
	if err != nil {
		return err
	}
	moved, ok := from.entries[oldName]
	if !ok {
		return &os.LinkError{Op: "rename", Old: oldPath, New: newPath, Err: fs.ErrNotExist}
	}
	if err := replaceable(moved, to.entries[newName]); err != nil {
		return &os.LinkError{Op: "rename", Old: oldPath, New: newPath, Err: err}
	}
	if from == to {
		from.change(change{remove: oldName, add: newName, node: moved})
	} else {
		to.change(change{add: newName, node: moved})
		from.change(change{remove: oldName})
	}
	f.logf("rename %s %s", oldPath, newPath)
	return nil
}

// replaceable follows rename(2): a file replaces a file, a folder an empty folder.
func replaceable(moved, target *node) error {
	switch {
	case target == nil || target == moved:
		return nil
	case moved.dir && !target.dir:
		return errNotDir
	case !moved.dir && target.dir:
		return errIsDir
	case target.dir && len(target.entries) > 0:
		return errNotEmpty
	}
	return nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("remove", path, 0); err != nil {
		return err
	}
	dir, name, err := f.parentOf("remove", path)
	if err != nil {
		return err
	}
	n, ok := dir.entries[name]
	if !ok {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	if n.dir && len(n.entries) > 0 {
		return &fs.PathError{Op: "remove", Path: path, Err: errNotEmpty}
	}
	dir.change(change{remove: name})
	f.logf("remove %s", path)
	return nil
}

// MkdirAll implements vfs.FS; it counts as one operation.
func (f *FS) MkdirAll(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("mkdir", path, 0); err != nil {
		return err
	}
	at, made := f.root, false
	for _, name := range split(path) {
		next, ok := at.entries[name]
		if !ok {
			next, made = newDir(), true
			at.change(change{add: name, node: next})
		}
		if !next.dir {
			return &fs.PathError{Op: "mkdir", Path: path, Err: errNotDir}
		}
		at = next
	}
	if made {
		f.logf("mkdir %s", path)
	}
	return nil
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(path string) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("readdir", path, 0); err != nil {
		return nil, err
	}
	dir, err := f.find("readdir", path)
	if err != nil {
		return nil, err
	}
	if !dir.dir {
		return nil, &fs.PathError{Op: "readdir", Path: path, Err: errNotDir}
	}
	entries := make([]fs.DirEntry, 0, len(dir.entries))
	for _, name := range sortedNames(dir.entries) {
		entries = append(entries, fs.FileInfoToDirEntry(dir.entries[name].info(name)))
	}
	return entries, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(path string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("stat", path, 0); err != nil {
		return nil, err
	}
	n, err := f.find("stat", path)
	if err != nil {
		return nil, err
	}
	return n.info(filepath.Base(path)), nil
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("syncdir", path, 0); err != nil {
		return err
	}
	dir, err := f.find("syncdir", path)
	if err != nil {
		return err
	}
	if !dir.dir {
		return &fs.PathError{Op: "syncdir", Path: path, Err: errNotDir}
	}
	dir.sync()
	f.logf("syncdir %s", path)
	return nil
}
