package launch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"andrea/launch"
	"andrea/pipeline"
	"andrea/vfs"
)

// Reading the dataset can be interrupted, and leaves nothing behind.
func TestPreparingARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := filepath.Join(t.TempDir(), "tiny")
	env := launch.Environment{FS: vfs.OS, Engine: cpu(t), Version: "test", Preparing: ctx, Notify: func(pipeline.Notice) {}}
	if _, err := launch.Create(env, dir, tinyJob(t, tinyDataset(t))); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder is left: %v", err)
	}
}

// cpu is an engine of one thread.
func cpu(t *testing.T) launch.Engine {
	t.Helper()
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}
