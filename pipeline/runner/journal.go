package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"andrea/pipeline"
	"andrea/vfs"
)

// maxJournalBytes is the largest journal that is read.
const maxJournalBytes = 4 << 30

// Journal is a run's journal on disk, open for appending.
type Journal struct {
	*pipeline.Journal
	path string
	fs   vfs.FS
	file vfs.File
}

// ReadJournal reads the journal at path without touching it.
func ReadJournal(fsys vfs.FS, path string) (*pipeline.Journal, error) {
	file, err := openCapped(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("reading the journal %s: %w", path, err)
	}
	j, err := pipeline.ReadJournal(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, explain(path, err)
	}
	return j, nil
}

// openCapped opens a journal, unless it is too large for one.
func openCapped(fsys vfs.FS, path string) (vfs.File, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxJournalBytes {
		return nil, fmt.Errorf("it has %d bytes: at most %d are read", info.Size(), int64(maxJournalBytes))
	}
	return fsys.Open(path)
}

// explain names the file, and of a damaged one what its good lines are worth.
func explain(path string, err error) error {
	err = fmt.Errorf("%s: %w", path, err)
	var damage *pipeline.JournalDamage
	if !errors.As(err, &damage) || damage.Proved() < 1 {
		return err
	}
	kept := path + ".kept"
	return fmt.Errorf("%w. Its lines 1 to %d are intact and prove steps 1 to %d: without a copy, a run that has a checkpoint of one of them goes on from there and computes the others again after 'head -n %d %s > %s', 'mv %s %s.damaged' and 'mv %s %s'",
		err, damage.Kept, damage.Proved(), damage.Kept, path, kept, path, path, kept, path)
}

// CreateJournal makes an empty journal, durably.
func CreateJournal(fsys vfs.FS, path string) error {
	return vfs.WriteFileAtomic(fsys, path, nil, 0o644)
}

// OpenJournal opens the journal of a run for its new coordinator. The file is written
// anew and put in the old one's place, without a torn last line: a paused
// predecessor appends to a file that nobody reads.
func OpenJournal(fsys vfs.FS, path string) (*Journal, error) {
	j, err := ReadJournal(fsys, path)
	if err != nil {
		return nil, err
	}
	data, err := readWhole(fsys, path, j.Bytes)
	if err == nil {
		err = vfs.WriteFileAtomic(fsys, path, data, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	file, err := fsys.OpenAppend(path)
	if err != nil {
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	return &Journal{Journal: j, path: path, fs: fsys, file: file}, nil
}

// readWhole reads the whole lines of a journal, which have so many bytes.
func readWhole(fsys vfs.FS, path string, size int64) ([]byte, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	_, err = io.ReadFull(file, data)
	return data, errors.Join(err, file.Close())
}

// WriteIntent appends an intent and makes it durable, with all that was appended
// before.
func (j *Journal) WriteIntent(i pipeline.Intent) error {
	line, err := j.AppendIntent(i)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(line); err != nil {
		return fmt.Errorf("appending to %s: %w", j.path, err)
	}
	return j.Sync()
}

// WriteCommit appends a commit record.
func (j *Journal) WriteCommit(c pipeline.CommitRecord) error {
	line, err := j.AppendCommit(c)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(line); err != nil {
		return fmt.Errorf("appending to %s: %w", j.path, err)
	}
	return j.checkThere()
}

// Sync makes what was appended durable. It fails when the journal has no name any more: an open file
// takes what is written, and nobody will read it.
func (j *Journal) Sync() error {
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("appending to %s: %w", j.path, err)
	}
	return j.checkThere()
}

// checkThere fails when the journal was deleted or moved since it was opened. One that another
// coordinator put in its place is that one's to tell of: see CoordinatorOptions.Superseded.
func (j *Journal) checkThere() error {
	switch _, err := j.fs.Stat(j.path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("appending to %s: it was deleted or moved while the run trained: nothing more can be recorded: start a new run, "+
			"or resume this one from where it lies now", j.path)
	case err != nil:
		return fmt.Errorf("appending to %s: %w", j.path, err)
	}
	return nil
}

// Close makes what was appended durable and closes the file.
func (j *Journal) Close() error {
	if err := errors.Join(j.file.Sync(), j.file.Close()); err != nil {
		return fmt.Errorf("closing the journal: %w", err)
	}
	return nil
}
