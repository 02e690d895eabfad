package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"andrea/pipeline"
	"andrea/telemetry"
	"andrea/vfs"
	"andrea/watch"
)

// Why a run ended is an error in its log when it failed, and found there by who looks at the run.
func TestWhyARunEndedIsFoundInItsLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coordinator.jsonl")
	if got := howEnded(vfs.OS, path); got != "" {
		t.Errorf("without a log: %q", got)
	}
	for _, c := range []struct {
		name    string
		outcome pipeline.Outcome
		err     error
		level   string
		want    string
	}{
		{"failed", pipeline.Outcome{Step: 3}, errors.New("step 4 is not finite:\nall is lost"), "error", "it failed: step 4 is not finite:\nall is lost"},
		{"stopped", pipeline.Outcome{Step: 5, Stopped: "SIGTERM"}, nil, "info", "it was stopped: SIGTERM"},
		{"complete", pipeline.Outcome{Step: 9, Complete: true}, nil, "info", ""},
	} {
		file, err := telemetry.OpenFile(vfs.OS, path)
		if err != nil {
			t.Fatal(err)
		}
		log, err := telemetry.New(telemetry.Options{Run: "demo", Process: watch.Coordinator, File: file})
		if err != nil {
			t.Fatal(err)
		}
		log.Info(watch.RunStarted)
		log.Info("much else", zap.String("text", strings.Repeat("x", 1000)))
		if got := howEnded(vfs.OS, path); !strings.Contains(got, "it was killed") {
			t.Errorf("%s, before the end: %q", c.name, got)
		}
		logEnd(log.Logger, c.outcome, c.err)
		log.Info("closing")
		if err := errors.Join(log.Close(), file.Close()); err != nil {
			t.Fatal(err)
		}
		if got := howEnded(vfs.OS, path); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(data), "\n")
		if end := lines[len(lines)-3]; !strings.Contains(end, `"level":"`+c.level+`"`) || !strings.Contains(end, watch.RunEnded) {
			t.Errorf("%s: %s", c.name, end)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", lookedBack+5)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := howEnded(vfs.OS, path); got != "" {
		t.Errorf("of a damaged log: %q", got)
	}
}
