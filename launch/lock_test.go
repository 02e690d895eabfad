package launch_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/pipeline"
	"andrea/vfs"
)

// One at a time may open a run to change it, also within a process.
func TestAnOpenRunIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	env := launch.Environment{FS: vfs.OS, Engine: cpu(t), Version: "test", Notify: func(pipeline.Notice) {}}
	spec := tinyJob(t, tinyDataset(t))
	first, err := launch.Create(env, dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (*launch.Run, error){
		"open":   func() (*launch.Run, error) { return launch.Open(env, dir, "") },
		"create": func() (*launch.Run, error) { return launch.Create(env, dir, spec) },
	} {
		_, err := open()
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
			t.Errorf("%s of an open run: %v", name, err)
		}
		if !errors.Is(err, launch.ErrTaken) {
			t.Errorf("%s of an open run: %v is not ErrTaken", name, err)
		}
	}
	if got := launch.InUse(vfs.OS, dir); got != fmt.Sprint("process ", os.Getpid()) {
		t.Errorf("in use by %q", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got := launch.InUse(vfs.OS, dir); got != "" {
		t.Errorf("a closed run is in use by %q", got)
	}
	if got := launch.InUse(vfs.OS, t.TempDir()); got != "" {
		t.Errorf("no run is in use by %q", got)
	}
	if _, err := launch.Create(env, dir, spec); !errors.Is(err, launch.ErrTaken) {
		t.Errorf("create where a run is: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("what nobody wrote"), 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := launch.Open(env, dir, "")
	if err != nil {
		t.Fatalf("of a closed run: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
