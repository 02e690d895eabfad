package textdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// MaxDocumentBytes is the size of the largest file that is taken as a document.
const MaxDocumentBytes = 64 << 20

// Document is one file of text.
type Document struct {
	Name   string // path relative to the folder it was found in, or the file's own name; with slashes
	Path   string // where to read it
	Bytes  int64
	SHA256 [32]byte // of its content
}

// Reason says why something was left out.
type Reason int

// The reasons, in the order in which they are looked for.
const (
	Hidden     Reason = iota // a file or folder whose name begins with a dot; a folder counts once
	Symlink                  // not followed, so that nothing is read twice and no walk is endless
	NotRegular               // a pipe, socket or device
	Empty
	TooLarge // more than MaxDocumentBytes
	Binary   // a NUL byte in the first 8 KiB
	reasons
)

var reasonNames = [reasons]string{"hidden", "symbolic links", "not regular files", "empty", "larger than 64 MiB", "binary"}

// Skipped counts what was left out, by Reason.
type Skipped [reasons]int

// String names the counts that are not zero, "nothing" when all are.
func (s Skipped) String() string {
	var parts []string
	for reason, count := range s {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, reasonNames[reason]))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Walk finds and hashes the documents in files and folders (paths), which are taken although they
// may be hidden or links themselves. Documents are sorted by name, then content, then path, so their
// order does not depend on the order of the paths. It fails, naming the path, when a path is missing,
// a path lies inside another, something cannot be read, or changes meanwhile; when there is no
// document, saying what was skipped; and with the context's error.
func Walk(ctx context.Context, paths []string) ([]Document, Skipped, error) {
	roots, err := resolve(paths)
	if err != nil {
		return nil, Skipped{}, err
	}
	var found []Document
	var skipped Skipped
	for _, root := range roots {
		if found, err = collect(ctx, root, found, &skipped); err != nil {
			return nil, Skipped{}, fmt.Errorf("look for text in %s: %w", root, err)
		}
	}
	documents, err := hashAll(ctx, found, &skipped)
	if err != nil {
		return nil, Skipped{}, err
	}
	if len(documents) == 0 {
		return nil, Skipped{}, fmt.Errorf("look for text in %s: there is none; skipped: %s", strings.Join(paths, ", "), skipped)
	}
	sortDocuments(documents)
	return documents, skipped, nil
}

// resolve returns the true absolute paths and refuses those that would give a file twice.
func resolve(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, errors.New("look for text: no path is given")
	}
	roots := make([]string, len(paths))
	for i, path := range paths {
		absolute, err := filepath.Abs(path)
		if err == nil {
			absolute, err = filepath.EvalSymlinks(absolute)
		}
		if err != nil {
			return nil, fmt.Errorf("look for text in %s: %w", path, err)
		}
		roots[i] = absolute
	}
	for i, inner := range roots {
		for j, outer := range roots {
			if i != j && isInside(inner, outer) {
				return nil, fmt.Errorf("look for text: %s lies in %s: give only one of them", paths[i], paths[j])
			}
		}
	}
	return roots, nil
}

func isInside(inner, outer string) bool {
	relative, err := filepath.Rel(outer, inner)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// collect appends the files of one root that look like documents from outside.
func collect(ctx context.Context, root string, found []Document, skipped *Skipped) ([]Document, error) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		reason, skip := skipEntry(entry, path == root)
		if skip {
			skipped[reason]++
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if reason, skip := skipSize(info.Size()); skip {
			skipped[reason]++
			return nil
		}
		name := filepath.Base(path)
		if path != root {
			if name, err = filepath.Rel(root, path); err != nil {
				return err
			}
		}
		found = append(found, Document{Name: filepath.ToSlash(name), Path: path, Bytes: info.Size()})
		return nil
	})
	return found, err
}

func skipEntry(entry fs.DirEntry, isRoot bool) (Reason, bool) {
	switch {
	case !isRoot && strings.HasPrefix(entry.Name(), "."):
		return Hidden, true
	case entry.Type()&fs.ModeSymlink != 0:
		return Symlink, true
	case !entry.IsDir() && !entry.Type().IsRegular():
		return NotRegular, true
	}
	return 0, false
}

func skipSize(size int64) (Reason, bool) {
	switch {
	case size == 0:
		return Empty, true
	case size > MaxDocumentBytes:
		return TooLarge, true
	}
	return 0, false
}
