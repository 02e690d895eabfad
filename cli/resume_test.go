package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The job keeps where the dataset lay, so the line that goes on with the run names where it
// lies now.
func TestResumeOfARunWhoseDatasetMoved(t *testing.T) {
	p := newPlace(t)
	data := p.prepared()
	if r := p.here(stopping(t, 101), p.trainHere(data, "moved")...); r.code != 143 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	run, now := filepath.Join(p.dir, "moved"), filepath.Join(p.dir, "elsewhere")
	if err := os.Rename(data, now); err != nil {
		t.Fatal(err)
	}
	if r := p.here(stopping(t, 30), "resume", run, "--data", now); r.code != 143 || !strings.Contains(r.stderr, "resume "+run+" --data "+now+"\n") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
}

func TestWhatARunWithoutACheckpointHas(t *testing.T) {
	for last, want := range map[int64]string{0: "nothing was trained yet", 3: "resume begins at step 0; steps 1 to 3 are recorded and computed again"} {
		if got := begun(last); got != want {
			t.Errorf("after step %d: %q", last, got)
		}
	}
}
