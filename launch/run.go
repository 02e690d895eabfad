package launch

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
)

// Run is a run that is ready to train.
type Run struct {
	Dir      string
	Plan     *pipeline.Plan
	Start    pipeline.Start
	Damaged  []dirstore.Damage // checkpoints that were passed over
	env      Environment
	lock     vfs.File // held as long as the run is open
	jobSum   string   // SHA-256 of the job file
	data     *Data
	journal  *runner.Journal
	store    *dirstore.Store
	restored *dirstore.Reader // nil: training begins at step 0
	probesAt net.Listener     // taken, and not answered at yet; nil: there are no probes, or the node has it
	change   string           // what is said of a change of the engine class; empty: there is none
}

// Create checks the job, whose data.path is a dataset, and makes the folder of a new
// run. Nothing is written when anything is wrong with the job. The error is ErrTaken when the folder
// has a run already, or another process makes one there.
func Create(env Environment, dir string, spec pipeline.JobSpec) (*Run, error) {
	if err := env.checkJob(spec); err != nil {
		return nil, err
	}
	if err := checkReach(env); err != nil {
		return nil, err
	}
	p, data, err := plan(env, spec)
	if err != nil {
		return nil, err
	}
	return open(env, dir, p, data, func() error { return createDir(env.FS, dir, p.Spec) })
}

// Open opens a run to go on with it, from its newest intact checkpoint. dataPath
// says where its dataset lies now; empty: where it lay.
func Open(env Environment, dir, dataPath string) (*Run, error) {
	if err := checkReach(env); err != nil {
		return nil, err
	}
	spec, err := readJob(env.FS, dir)
	if err != nil {
		return nil, err
	}
	if dataPath != "" {
		spec.Data.Path = dataPath
	}
	if err := env.checkJob(spec); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, jobFile), err)
	}
	p, data, err := storedPlan(env, spec, dataPath != "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, jobFile), err)
	}
	return open(env, dir, p, data, func() error { return nil })
}

// open locks a run's folder, makes what create makes and opens what is there. It owns
// data.
func open(env Environment, dir string, p *pipeline.Plan, data *Data, create func() error) (*Run, error) {
	r := &Run{Dir: dir, Plan: p, env: env, data: data}
	exists, err := Exists(env.FS, dir)
	if err == nil && !exists {
		err = r.reach() // before anything is made
	}
	if err == nil {
		err = r.enter()
	}
	if err == nil && exists {
		err = r.reach() // who trains the run has its addresses, and the lock names that one
	}
	if err == nil {
		err = create()
	}
	if err == nil {
		err = r.read()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// enter locks the run's folder, which it makes when it is missing.
func (r *Run) enter() (err error) {
	if err := vfs.MkdirAllDurable(r.env.FS, r.Dir); err != nil {
		return fmt.Errorf("opening the run %s: %w", r.Dir, err)
	}
	r.lock, err = lock(r.env.FS, r.Dir)
	return err
}

// read opens journal and checkpoints and decides where training begins.
func (r *Run) read() (err error) {
	if err := makeFolders(r.env.FS, r.Dir); err != nil {
		return fmt.Errorf("opening the run %s: %w", r.Dir, err)
	}
	if r.jobSum, err = sumJob(r.env.FS, r.Dir); err != nil {
		return err
	}
	if r.journal, err = runner.OpenJournal(r.env.FS, filepath.Join(r.Dir, journalFile)); err != nil {
		return err
	}
	if r.store, err = dirstore.OpenOwned(r.env.FS, filepath.Join(r.Dir, checkpointsDir)); err != nil {
		return err
	}
	r.Start = pipeline.Start{Journal: r.journal.Journal, Workers: max(1, r.env.Crew.Workers)}
	r.restored, r.Damaged, err = r.store.Newest(r.accept)
	switch {
	case errors.Is(err, errForeign):
		return fmt.Errorf("opening the run %s: it has checkpoints, but none that belongs to its other files: %w", r.Dir, err)
	case errors.Is(err, dirstore.ErrNone):
		return checkJob(r.env.FS, r.Dir, r.jobSum)
	case err != nil:
		return err
	}
	m := r.restored.Manifest()
	r.Start.Step, r.Start.Digest, r.Start.Checkpoint, r.Start.Class = int64(m.Step), m.StateDigest, true, m.EngineClass
	return r.checkClass()
}

// checkClass refuses to go on with another engine class than before, unless that is wanted. Steps that have to be
// computed again must give what was recorded all the same.
func (r *Run) checkClass() error {
	if r.env.Crew.Elsewhere || r.Complete() {
		return nil // the coordinator refuses workers of another class
	}
	engine, err := r.env.Engine.In(r.Plan.Spec.Precision)
	if err != nil || engine.Class == r.Start.Class {
		return err
	}
	change := fmt.Sprintf("it was trained with engine class %s until step %d: this program has %s, which computes other bits", r.Start.Class, r.Start.Step, engine.Class)
	if !r.env.OtherEngine {
		return fmt.Errorf("opening the run %s: %s: choose the engine with --engine, or go on with other bits with --other-engine", r.Dir, change)
	}
	r.change, r.Start.Class = change, ""
	return nil
}

// errForeign marks an intact checkpoint that does not belong to the run. No crash
// leaves such a one: somebody has changed or mixed up files, and a run that began again
// at step 0 would replace the checkpoints.
var errForeign = errors.New("checkpoint of another run")

// foreign is an error that wraps errForeign and does not say so.
type foreign struct{ error }

func (foreign) Is(target error) bool { return target == errForeign }

// accept refuses a checkpoint that is not of this run.
func (r *Run) accept(m checkpoints.Manifest) error {
	job, err := pipeline.ParseJobSpec([]byte(m.Job))
	if err != nil {
		return foreign{fmt.Errorf("its job spec cannot be read: %w", err)}
	}
	job.Data.Path = r.Plan.Spec.Data.Path // the dataset may have moved; its fingerprint is pinned
	switch {
	case string(job.Marshal()) != string(r.Plan.Spec.Marshal()):
		return foreign{fmt.Errorf("it was trained by another job spec than %s: restore that file, or start a new run", jobFile)}
	case int64(m.Step) > r.journal.Last() || m.RecordDigest != r.journal.CommitDigest(int64(m.Step)):
		return foreign{fmt.Errorf("its record is not in %s: the files belong to different runs, or the journal was cut: restore it from a copy", journalFile)}
	}
	return nil
}

// Complete reports that there is nothing left to train.
func (r *Run) Complete() bool { return r.Start.Step >= r.Plan.Spec.Steps }

// Close lets go of the run's files, and of its folder for other processes.
func (r *Run) Close() error {
	var errs []error
	if r.restored != nil {
		errs = append(errs, r.restored.Close())
	}
	if r.journal != nil {
		errs = append(errs, r.journal.Close())
	}
	errs = append(errs, r.data.Close())
	if r.probesAt != nil {
		errs = append(errs, r.probesAt.Close())
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close()) // last: nothing of the run is touched any more
	}
	return errors.Join(errs...)
}
