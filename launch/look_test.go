package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/pipeline"
	"andrea/vfs"
)

// Looking at a run that never started finds its job and nothing else, and changes nothing.
func TestLookAtARunThatNeverStarted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	env := launch.Environment{FS: vfs.OS, Engine: cpu(t), Version: "test", Notify: func(pipeline.Notice) {}}
	run, err := launch.Create(env, dir, tinyJob(t, tinyDataset(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"generations", "checkpoints"} {
		if err := os.Remove(filepath.Join(dir, folder)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := launch.Look(vfs.OS, dir)
	if err != nil || r.Spec.Name != "tiny" || r.Journal.Last() != 0 || r.Checkpoint != -1 || r.Generation != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "generations")); err == nil {
		t.Error("looking has made a folder")
	}
	for _, job := range []string{"", "# nothing\n", "name: tiny\n"} {
		if err := os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(job), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := launch.Look(vfs.OS, dir); err == nil || !strings.Contains(err.Error(), "job.yaml: it is no resolved job") {
			t.Errorf("with the job %q: %v", job, err)
		}
	}
}
