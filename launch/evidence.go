package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/pipeline"
	"andrea/pipeline/ledger"
	"andrea/vfs"
)

// evidence is a run as its files tell it, opened for reading alone: nothing is locked, written or made, so that it
// can be looked at while it runs.
type evidence struct {
	dir       string
	plan      *pipeline.Plan
	data      *Data
	store     *dirstore.Store
	manifests []checkpoints.Manifest // that could be read, ascending
	damaged   []ledger.Fault         // of those that are none, and of files that are not there or not so long as theirs say
	unread    []error                // about those that could not be read
	journal   *pipeline.Journal
	broken    *ledger.Fault // behind the journal's last good line; nil: nothing
}

// openEvidence reads the run at dir and all bytes of its dataset, which lies at dataPath; empty: where the job says.
func openEvidence(env Environment, dir, dataPath string) (*evidence, error) {
	spec, err := readJob(env.FS, dir)
	if err != nil {
		return nil, err
	}
	if dataPath != "" {
		spec.Data.Path = dataPath
	}
	e := &evidence{dir: dir, store: dirstore.Open(env.FS, filepath.Join(dir, checkpointsDir))}
	if e.plan, e.data, err = storedPlan(env, spec, dataPath != ""); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, jobFile), err)
	}
	if err := e.read(env.FS); err != nil {
		return nil, errors.Join(err, e.data.Close())
	}
	return e, nil
}

// read reads manifests and journal. The manifests come first: a record is durable before its checkpoint exists, so
// whatever is listed here has its record in a journal that is read later.
func (e *evidence) read(fsys vfs.FS) error {
	steps, err := e.store.List()
	if err != nil {
		return err
	}
	for _, step := range steps {
		m, err := e.store.Manifest(step)
		if err == nil {
			e.manifests = append(e.manifests, m)
			err = e.store.CheckSizes(m)
		}
		if err != nil {
			e.faulty(fsys, step, err)
		}
	}
	if len(e.manifests) == 0 {
		sum, err := sumJob(fsys, e.dir)
		if err == nil {
			err = checkJob(fsys, e.dir, sum) // manifests hold the job; here nothing else does
		}
		if err != nil {
			return err
		}
	}
	path := filepath.Join(e.dir, journalFile)
	file, err := fsys.Open(path)
	if err == nil {
		e.journal, e.broken, err = ledger.ReadJournal(file)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("reading the journal %s: %w", path, err)
	}
	return nil
}

// faulty takes in what is wrong with the checkpoint of a step, unless a run has deleted it meanwhile.
func (e *evidence) faulty(fsys vfs.FS, step int, err error) {
	_, gone := fsys.Stat(e.store.Path(step))
	switch {
	case errors.Is(gone, fs.ErrNotExist):
		e.manifests = slices.DeleteFunc(e.manifests, func(m checkpoints.Manifest) bool { return m.Step == step })
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EIO):
		e.unread = append(e.unread, err)
	default:
		e.damaged = append(e.damaged, ledger.Fault{Step: int64(step), What: err.Error()})
	}
}

// VerifyRun reads the run at dir and its dataset, and says what of it was verified and what is not true. The error
// says what could not be read; what is in the report was verified all the same. progress is told how many of the
// steps were. Nothing is changed, and the run may be training meanwhile.
func VerifyRun(env Environment, dir, dataPath string, progress func(step, steps int64)) (ledger.Report, error) {
	e, err := openEvidence(env, dir, dataPath)
	if err != nil {
		return ledger.Report{}, err
	}
	report, err := ledger.Verify(ledger.Claims{
		Plan: e.plan, Journal: e.journal, Broken: e.broken, Manifests: e.manifests, Damaged: e.damaged, Tokens: e.data,
		Progress: func(step int64) { progress(step, e.journal.Last()) },
	})
	return report, errors.Join(append(e.unread, err, e.data.Close())...)
}
