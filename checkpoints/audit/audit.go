// Package audit looks at the checkpoints of a run beside its journal and its job, and says what each of
// them is and what is wrong with it. It reads only, also while the run's owner writes.
package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
)

// Names in a run's folder.
const (
	jobFile        = "job.yaml"
	journalFile    = "journal.jsonl"
	checkpointsDir = "checkpoints"
)

// Checkpoint is what was found out about a checkpoint.
type Checkpoint struct {
	Step        int             `json:"step"`
	Dir         string          `json:"dir"`
	Bytes       int64           `json:"bytes"`          // of the files that lie there
	StateDigest string          `json:"state_digest"`   // as the manifest says; empty: it cannot be read
	Weights     string          `json:"weights_sha256"` // of model.safetensors, as the manifest says; empty: it cannot be read
	Loss        *pipeline.Float `json:"loss"`           // of its step, nats per token; nil: the journal has none
	ValLoss     *pipeline.Float `json:"val_loss"`       // nil: none was due at its step
	Verified    bool            `json:"verified"`       // all bytes were read, and there is no fault
	Fault       string          `json:"fault,omitempty"`
}

// Folder is a folder of checkpoints, and the run around it if there is one.
type Folder struct {
	fsys    vfs.FS
	store   *dirstore.Store
	steps   []int
	inRun   bool
	journal *pipeline.Journal // nil: there is none, or it cannot be read
	job     *pipeline.JobSpec // nil: there is none, or it cannot be read
	faults  []error
}

// Run looks at the run in dir. Faults tells what is wrong with its job and journal; the error is about
// listing its checkpoints.
func Run(fsys vfs.FS, dir string) (*Folder, error) {
	f := at(fsys, filepath.Join(dir, checkpointsDir))
	f.inRun = true
	var err error
	// The steps come first: a record is durable before its checkpoint exists, so whatever is listed here
	// has its record in a journal that is read later.
	if f.steps, err = f.store.List(); err != nil {
		return nil, err
	}
	f.journal, err = runner.ReadJournal(fsys, filepath.Join(dir, journalFile))
	f.fault(err)
	path := filepath.Join(dir, jobFile)
	data, err := vfs.ReadFile(fsys, path, pipeline.MaxJobSpecBytes)
	if err == nil {
		var job pipeline.JobSpec
		if job, err = pipeline.ParseJobSpec(data); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		} else {
			f.job = &job
		}
	}
	f.fault(err)
	return f, nil
}

// One looks at the single checkpoint in dir, whose name is that of a step. When it lies in a run it is
// judged beside that run's journal.
func One(fsys vfs.FS, dir string) (*Folder, error) {
	step, ok := checkpoints.ParseStepFolder(filepath.Base(dir))
	if !ok {
		return nil, fmt.Errorf("looking at the checkpoint %s: its folder is not named after a step, such as %s: give it that name back", dir, checkpoints.StepFolder(100))
	}
	if _, err := fsys.Stat(dir); err != nil {
		return nil, fmt.Errorf("looking at the checkpoint %s: %w", dir, err)
	}
	parent := filepath.Dir(dir)
	f := at(fsys, parent)
	run := filepath.Dir(parent)
	if _, err := fsys.Stat(filepath.Join(run, jobFile)); err == nil && filepath.Base(parent) == checkpointsDir {
		if f, err = Run(fsys, run); err != nil {
			return nil, err
		}
	}
	f.steps = []int{step}
	return f, nil
}

func at(fsys vfs.FS, dir string) *Folder {
	return &Folder{fsys: fsys, store: dirstore.Open(fsys, dir)}
}

func (f *Folder) fault(err error) {
	if err != nil {
		f.faults = append(f.faults, err)
	}
}

// Steps are the steps that have a folder, ascending.
func (f *Folder) Steps() []int { return f.steps }

// InRun reports whether there is a run around the checkpoints, so that their records are looked up.
func (f *Folder) InRun() bool { return f.inRun }

// Faults are what is wrong with the run's job and journal. A checkpoint is not judged by a file that
// cannot be read.
func (f *Folder) Faults() []error { return f.faults }

// Glance reads a checkpoint's manifest and compares it with its step, the sizes of its files, the job and
// the journal. false: the checkpoint has been deleted since the steps were listed.
func (f *Folder) Glance(step int) (Checkpoint, bool) {
	c, m, err := f.look(step)
	return f.judge(c, m, err)
}

// Verify is Glance and reads all bytes of the checkpoint besides, to compare them with their digests.
func (f *Folder) Verify(step int) (Checkpoint, bool) {
	c, m, err := f.look(step)
	if err == nil {
		_, err = f.store.Verify(step)
	}
	c, found := f.judge(c, m, err)
	c.Verified = c.Fault == ""
	return c, found
}

// look reads what is quickly read.
func (f *Folder) look(step int) (c Checkpoint, m checkpoints.Manifest, err error) {
	c = Checkpoint{Step: step, Dir: f.store.Path(step)}
	for _, name := range append(checkpoints.FileNames(), checkpoints.ManifestFile) {
		if info, err := f.fsys.Stat(filepath.Join(c.Dir, name)); err == nil && info.Mode().IsRegular() {
			c.Bytes += info.Size()
		}
	}
	if f.journal != nil {
		if r := f.journal.Step(int64(step)); r != nil && r.Commit != nil {
			c.Loss, c.ValLoss = &r.Commit.Loss, r.Commit.ValLoss
		}
	}
	if m, err = f.store.Manifest(step); err != nil {
		return c, m, err
	}
	c.StateDigest = m.StateDigest.String()
	for _, file := range m.Files {
		if file.Name == checkpoints.ModelFile {
			c.Weights = file.SHA256
		}
	}
	return c, m, f.store.CheckSizes(m)
}

// judge completes what was found with what the run says.
func (f *Folder) judge(c Checkpoint, m checkpoints.Manifest, err error) (Checkpoint, bool) {
	if err != nil {
		if _, gone := f.fsys.Stat(c.Dir); f.inRun && errors.Is(gone, fs.ErrNotExist) {
			return c, false
		}
	} else {
		err = f.judgeRecord(m)
	}
	if err != nil {
		c.Fault = err.Error()
	}
	return c, true
}

// judgeRecord compares a manifest with the run's job and journal, as a run does that is resumed.
func (f *Folder) judgeRecord(m checkpoints.Manifest) error {
	if f.journal != nil && (int64(m.Step) > f.journal.Last() || m.RecordDigest != f.journal.CommitDigest(int64(m.Step))) {
		return fmt.Errorf("%s: its record is not in %s: the files belong to different runs", checkpoints.ManifestFile, journalFile)
	}
	job, err := pipeline.ParseJobSpec([]byte(m.Job))
	if err != nil {
		return fmt.Errorf("%s: its job spec cannot be read: %w", checkpoints.ManifestFile, err)
	}
	if f.job == nil {
		return nil
	}
	job.Data.Path = f.job.Data.Path // the dataset may have moved; its fingerprint has not
	if string(job.Marshal()) != string(f.job.Marshal()) {
		return fmt.Errorf("%s: it was trained by another job spec than %s: the files belong to different runs", checkpoints.ManifestFile, jobFile)
	}
	return nil
}
