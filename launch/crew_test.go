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

// openingFS calls opened after every file that is opened to be appended to.
type openingFS struct {
	vfs.FS
	opened func(path string)
}

func (o openingFS) OpenAppend(path string) (vfs.File, error) {
	file, err := o.FS.OpenAppend(path)
	o.opened(path)
	return file, err
}

// waiting is a crew of so many processes that never say hello: a shell that waits for the end of its
// input and then leaves a mark. shell is how it is started, a link to remove.
func waiting(t *testing.T, workers int) (crew launch.Crew, shell, mark string) {
	t.Helper()
	const sh = "/bin/sh"
	if _, err := os.Stat(sh); err != nil {
		t.Skip("needs a shell as worker:", err)
	}
	dir := t.TempDir()
	shell, mark = filepath.Join(dir, "shell"), filepath.Join(dir, "left")
	if err := os.Symlink(sh, shell); err != nil {
		t.Fatal(err)
	}
	return launch.Crew{Workers: workers, Command: []string{shell, "-c", "cat; echo left > '" + mark + "'"}}, shell, mark
}

func (o openingFS) create(t *testing.T, crew launch.Crew, stop <-chan string) *launch.Run {
	t.Helper()
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	env := launch.Environment{FS: o, Engine: engine, Version: "test", Stop: stop, Crew: crew, Notify: func(pipeline.Notice) {}}
	run, err := launch.Create(env, filepath.Join(t.TempDir(), "tiny"), tinyJob(t, tinyDataset(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	return run
}

// A run that ends before its workers have said hello lets them end by themselves.
func TestWorkersThatNeverSaidHelloLeave(t *testing.T) {
	crew, _, mark := waiting(t, 2)
	stop := make(chan string, 1)
	stop <- "the test"
	run := openingFS{vfs.OS, func(string) {}}.create(t, crew, stop)
	outcome, err := run.Train()
	if err != nil || outcome.Stopped != "the test" {
		t.Fatalf("%+v, %v", outcome, err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the workers were killed: %v", err)
	}
}

// When a worker cannot be started, those that were are waited for.
func TestAWorkerThatCannotBeStarted(t *testing.T) {
	crew, shell, mark := waiting(t, 2)
	run := openingFS{vfs.OS, func(path string) {
		if filepath.Base(path) == "worker-2.jsonl" {
			if err := os.Remove(shell); err != nil {
				t.Error(err)
			}
		}
	}}.create(t, crew, nil)
	if _, err := run.Train(); err == nil || !strings.Contains(err.Error(), "worker-2") {
		t.Fatalf("a worker whose program is gone: %v", err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the first worker has not ended: %v", err)
	}
}
