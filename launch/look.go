package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
	"andrea/watch"
)

// Record is what the files of a run tell of it, whether it runs or not.
type Record struct {
	Spec       pipeline.JobSpec
	Journal    *pipeline.Journal
	Checkpoint int64  // newest step whose checkpoint has a manifest, unverified; -1: there is none
	Generation uint64 // of the last coordinator; 0: none was started
	Ended      string // how the last coordinator ended, for people, as its log tells; empty: that is not known
}

// Look reads the record of the run at dir and changes nothing.
func Look(fsys vfs.FS, dir string) (r Record, err error) {
	if r.Spec, err = readJob(fsys, dir); err != nil {
		return r, err
	}
	if r.Journal, err = runner.ReadJournal(fsys, filepath.Join(dir, journalFile)); err != nil {
		return r, err
	}
	if r.Checkpoint, err = newestListed(fsys, dir); err != nil {
		return r, err
	}
	if r.Generation, _, err = newestGeneration(fsys, dir); err == nil {
		r.Ended = howEnded(fsys, filepath.Join(dir, logsDir, watch.Coordinator+".jsonl"))
	}
	return r, err
}

// lookedBack is how many bytes at the end of a log are searched for its last words.
const lookedBack = 128 << 10

// howEnded is how the coordinator with this log ended, for people. A log that cannot be read says nothing.
func howEnded(fsys vfs.FS, path string) string {
	info, err := fsys.Stat(path)
	if err != nil {
		return ""
	}
	file, err := fsys.Open(path)
	if err != nil {
		return ""
	}
	tail := make([]byte, min(info.Size(), lookedBack))
	err = errors.Join(vfs.ReadFullAt(file, tail, info.Size()-int64(len(tail))), file.Close())
	if err != nil {
		return ""
	}
	for _, raw := range slices.Backward(bytes.Split(tail, []byte("\n"))) {
		switch line := watch.Parse(watch.Coordinator, raw); {
		case line.Damage != "":
		case line.Msg == watch.RunStarted:
			return "its log does not say why: it was killed, or the machine stopped"
		case line.Msg == watch.RunEnded:
			return ending(line)
		}
	}
	return ""
}

// ending is what the line about a run's end says.
func ending(line watch.Line) string {
	var said struct{ Error, Stopped string }
	if err := json.Unmarshal(line.Raw, &said); err != nil {
		return ""
	}
	switch {
	case said.Error != "":
		return "it failed: " + said.Error
	case said.Stopped != "":
		return "it was stopped: " + said.Stopped
	}
	return ""
}

// newestListed is the newest step whose checkpoint has a manifest, or -1.
func newestListed(fsys vfs.FS, dir string) (int64, error) {
	store := dirstore.Open(fsys, filepath.Join(dir, checkpointsDir))
	steps, err := store.List()
	if err != nil {
		return -1, err
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if _, err := fsys.Stat(filepath.Join(store.Path(steps[i]), checkpoints.ManifestFile)); err == nil {
			return int64(steps[i]), nil
		}
	}
	return -1, nil
}

// TrainedClass is the engine class that the newest checkpoint of the run at dir was trained with, unverified; empty:
// there is none, or it cannot be read.
func TrainedClass(fsys vfs.FS, dir string) string {
	step, err := newestListed(fsys, dir)
	if err != nil || step < 0 {
		return ""
	}
	m, err := dirstore.Open(fsys, filepath.Join(dir, checkpointsDir)).Manifest(int(step))
	if err != nil {
		return ""
	}
	return m.EngineClass
}

// CheckpointPath is the folder of a step's checkpoint in the run at dir.
func CheckpointPath(dir string, step int64) string {
	return filepath.Join(dir, checkpointsDir, checkpoints.StepFolder(int(step)))
}

// LogsPath is the folder of the logs of the run at dir.
func LogsPath(dir string) string { return filepath.Join(dir, logsDir) }
