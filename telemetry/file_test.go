package telemetry

import (
	"strings"
	"testing"

	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// A line that a crash tore stays alone in its line, whatever was torn off it.
func TestOpenFileEndsATornLine(t *testing.T) {
	const whole = "{\"seq\":1}\n"
	for _, test := range []struct{ before, want string }{
		{"", ""}, {whole, whole}, {"\n", "\n"}, {"{", "{\n"}, {whole + `{"seq"`, whole + "{\"seq\"\n"}, {whole + `{"seq":2}`, whole + "{\"seq\":2}\n"},
	} {
		fsys := crashfs.New()
		if err := vfs.WriteFileSync(fsys, "x.jsonl", []byte(test.before), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := reopened(t, fsys); got != test.want {
			t.Errorf("after %q: %q, want %q", test.before, got, test.want)
		}
		if got := reopened(t, fsys); got != test.want {
			t.Errorf("opened twice after %q: %q, want %q", test.before, got, test.want)
		}
	}
}

// reopened opens and closes the log and returns what it then holds.
func reopened(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	file, err := OpenFile(fsys, "x.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := vfs.ReadFile(fsys, "x.jsonl", 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOpenFileMakesAndRefuses(t *testing.T) {
	fsys := crashfs.New()
	if got := reopened(t, fsys); got != "" {
		t.Errorf("a new log holds %q", got)
	}
	if err := fsys.MkdirAll("folder"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(fsys, "folder"); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder as a log: %v", err)
	}
}
