// Package vfs is the door through which everything durable is written and read: a small file
// system interface, its implementation on the operating system, and the few compound operations
// (atomic replacement, durable folders, capped reading) that must be done the same way everywhere.
//
// Files go through an interface so that tests can take the power away between any two operations:
// package vfs/crashfs holds the file system that forgets what was not synced.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// ErrLocked is wrapped by the error of FS.Lock when somebody else holds the lock.
var ErrLocked = errors.New("it is locked by another process")

// File is an open file. Handles are not safe for concurrent use, except ReadAt and WriteAt on
// ranges that do not overlap.
type File interface {
	io.Reader
	io.ReaderAt
	// Write writes at the handle's position, or at the end for a file of OpenAppend.
	io.Writer
	// WriterAt fails on a file of OpenAppend: its writes go to the end only.
	io.WriterAt
	// Sync returns when the file's bytes survive a power cut. It does not make the file's name
	// survive: FS.SyncDir does.
	Sync() error
	// Close returns an error that a writer must check: some file systems report a failed write here.
	Close() error
}

// FS is what the project needs of a file system. Errors satisfy errors.Is with fs.ErrNotExist and
// fs.ErrExist where these apply. Implementations are safe for concurrent use.
type FS interface {
	// Create opens path for reading and writing with length 0; a file of that name loses its bytes.
	Create(path string, perm fs.FileMode) (File, error)
	// CreateExclusive is Create, but fails with fs.ErrExist when the name is taken. Of several
	// callers at most one succeeds, so it serves as a claim.
	CreateExclusive(path string, perm fs.FileMode) (File, error)
	// OpenAppend opens path for writing at its end and makes it (mode 0644) when it is missing.
	OpenAppend(path string) (File, error)
	// Open opens a regular file for reading; folders, pipes and devices are errors.
	Open(path string) (File, error)
	// Rename gives a file or folder a new name in one indivisible move; a file of the new name is
	// replaced. The move survives a power cut after SyncDir of the folder.
	Rename(oldPath, newPath string) error
	// Remove deletes a file or an empty folder.
	Remove(path string) error
	// MkdirAll makes a folder and its missing parents. See MkdirAllDurable.
	MkdirAll(path string) error
	// ReadDir lists a folder in the byte order of the names.
	ReadDir(path string) ([]fs.DirEntry, error)
	// Stat describes the file or folder at path, following links.
	Stat(path string) (fs.FileInfo, error)
	// Lock makes path (mode 0644) when it is missing, keeps its bytes, and opens it for writing so that
	// nobody else can lock it, in this process or another, before the file is closed or the process has
	// died, however it died. When it is locked already the error wraps ErrLocked. Whoever deletes the
	// file breaks the lock.
	Lock(path string) (File, error)
	// SyncDir returns when the names in the folder (new, renamed and removed ones) survive a power cut.
	SyncDir(path string) error
}
