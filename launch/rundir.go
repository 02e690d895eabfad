package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"andrea/checkpoints/dirstore"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
)

// Names inside a run's folder.
const (
	jobFile        = "job.yaml"
	journalFile    = "journal.jsonl"
	checkpointsDir = "checkpoints"
	generationsDir = "generations"
	logsDir        = "logs"
	workerKeyFile  = "worker.json"
)

// createDir makes the folder of a new run. It fails when a run is there already.
func createDir(fsys vfs.FS, dir string, spec pipeline.JobSpec) error {
	fail := func(err error) error { return fmt.Errorf("creating the run folder %s: %w", dir, err) }
	switch exists, err := Exists(fsys, dir); {
	case err != nil:
		return fail(err)
	case exists:
		return taken{fail(errors.New("there is a run already: go on with it by 'andrea resume', or choose another folder with --run"))}
	}
	if err := checkUnused(fsys, dir); err != nil {
		return fail(err)
	}
	if err := makeFolders(fsys, dir); err != nil {
		return fail(err)
	}
	if err := runner.CreateJournal(fsys, filepath.Join(dir, journalFile)); err != nil {
		return fail(err)
	}
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, jobFile), spec.Marshal(), 0o644); err != nil {
		return fail(err)
	}
	return nil
}

// checkUnused fails when a folder without a job holds what only a run leaves behind: it
// has lost its job, and a new run would take its records and checkpoints for its own.
func checkUnused(fsys vfs.FS, dir string) error {
	lost := func(what string) error {
		return fmt.Errorf("it has %s, but no %s: restore that file (every checkpoint's manifest.json holds its text), or choose another folder with --run", what, jobFile)
	}
	info, err := fsys.Stat(filepath.Join(dir, journalFile))
	if err == nil && info.Size() > 0 {
		return lost("a " + journalFile)
	}
	steps, listErr := dirstore.Open(fsys, filepath.Join(dir, checkpointsDir)).List()
	if listErr == nil && len(steps) > 0 {
		return lost("checkpoints")
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, listErr)
}

// makeFolders makes the folders inside a run's folder that are missing.
func makeFolders(fsys vfs.FS, dir string) error {
	for _, sub := range []string{checkpointsDir, generationsDir, logsDir} {
		if err := vfs.MkdirAllDurable(fsys, filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	return nil
}

// Exists reports whether there is a run at dir.
func Exists(fsys vfs.FS, dir string) (bool, error) {
	_, err := fsys.Stat(filepath.Join(dir, jobFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// readJob reads the resolved spec of a run.
func readJob(fsys vfs.FS, dir string) (pipeline.JobSpec, error) {
	path := filepath.Join(dir, jobFile)
	data, err := vfs.ReadFile(fsys, path, pipeline.MaxJobSpecBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return pipeline.JobSpec{}, fmt.Errorf("opening the run %s: it has no %s: give the folder of a run", dir, jobFile)
	}
	if err != nil {
		return pipeline.JobSpec{}, fmt.Errorf("opening the run %s: %w", dir, err)
	}
	spec, err := pipeline.ParseJobSpec(data)
	if err != nil {
		return pipeline.JobSpec{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := spec.CheckResolved(); err != nil {
		return pipeline.JobSpec{}, fmt.Errorf("%s: %w", path, err)
	}
	return spec, nil
}

// claimedGenerations are the numbers that starts of the run's coordinator have claimed, in
// ascending order.
func claimedGenerations(fsys vfs.FS, dir string) (claimed []uint64, err error) {
	entries, err := fsys.ReadDir(filepath.Join(dir, generationsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the generations: %w", err)
	}
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 63); err == nil && n > 0 {
			claimed = append(claimed, n)
		}
	}
	slices.Sort(claimed)
	return claimed, nil
}

// newestGeneration is the highest number that a start of the run's coordinator has
// claimed, and its file; 0: there was none.
func newestGeneration(fsys vfs.FS, dir string) (newest uint64, path string, err error) {
	claimed, err := claimedGenerations(fsys, dir)
	if err != nil || len(claimed) == 0 {
		return 0, "", err
	}
	newest = claimed[len(claimed)-1]
	return newest, generationFile(dir, newest), nil
}

// generationFile is what the start that claims a generation creates.
func generationFile(dir string, generation uint64) string {
	return filepath.Join(dir, generationsDir, fmt.Sprintf("%08d", generation))
}

// claimGeneration takes the next generation of a run's coordinator: the number of a
// file that nobody had created before, durable when it returns. The file holds the
// SHA-256 of the job that is trained.
//
// The number is the time of the start, in seconds since 1970, or one more than the one
// before where the clock has not got that far. So it is also above those of another folder of
// the same name, whose workers may still wait at the same server for what comes next.
func claimGeneration(fsys vfs.FS, dir, jobSum string, now time.Time) (uint64, error) {
	folder := filepath.Join(dir, generationsDir)
	fail := func(err error) (uint64, error) {
		return 0, fmt.Errorf("claiming a generation in %s: %w", folder, err)
	}
	newest, _, err := newestGeneration(fsys, dir)
	if err != nil {
		return fail(err)
	}
	next := max(newest+1, uint64(max(0, now.Unix())))
	file, err := fsys.CreateExclusive(generationFile(dir, next), 0o644)
	if err != nil {
		return fail(err)
	}
	_, err = file.Write([]byte(jobSum + "\n"))
	if err := errors.Join(err, file.Sync(), file.Close(), fsys.SyncDir(folder)); err != nil {
		return fail(err)
	}
	return next, nil
}

// SupersededError is why a coordinator ends that another one has taken the run from: the run goes on there.
type SupersededError struct{ error }

// Unwrap returns the error itself.
func (e SupersededError) Unwrap() error { return e.error }

// checkNewest fails with a SupersededError when a later coordinator of the run has claimed a generation.
func checkNewest(fsys vfs.FS, dir string, generation uint64) error {
	newest, path, err := newestGeneration(fsys, dir)
	if err == nil && newest > generation {
		err = SupersededError{fmt.Errorf("a later coordinator has taken the run over, see %s: this one, of generation %d, ends and writes nothing more", path, generation)}
	}
	return err
}

// sumJob is the SHA-256 of a run's job file, in hex.
func sumJob(fsys vfs.FS, dir string) (string, error) {
	data, err := vfs.ReadFile(fsys, filepath.Join(dir, jobFile), pipeline.MaxJobSpecBytes)
	if err != nil {
		return "", fmt.Errorf("opening the run %s: %w", dir, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// checkJob fails when the job file is not the one that the run's last start trained.
// Checkpoints hold the job, so this is for runs without one. What no start has written
// whole, a crash's or an older version's, says nothing.
func checkJob(fsys vfs.FS, dir, jobSum string) error {
	newest, path, err := newestGeneration(fsys, dir)
	if err != nil || newest == 0 {
		return err
	}
	content, err := vfs.ReadFile(fsys, path, 2*sha256.Size+1)
	if err != nil && !errors.Is(err, vfs.ErrTooLarge) {
		return fmt.Errorf("opening the run %s: %w", dir, err)
	}
	then, whole := strings.CutSuffix(string(content), "\n")
	if whole && len(then) == len(jobSum) && then != jobSum {
		return fmt.Errorf("opening the run %s: its %s has SHA-256 %.16s: the one that was trained, by %s, had %.16s: restore it, or start a new run", dir, jobFile, jobSum, path, then)
	}
	return nil
}
