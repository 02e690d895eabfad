package launch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// A start has a higher generation than every start before it, in this folder whatever the clock says, and in
// another one of the same name whose last start was earlier.
func TestGenerationsRise(t *testing.T) {
	fsys := crashfs.New()
	claim := func(dir string, seconds int64) uint64 {
		t.Helper()
		if err := makeFolders(fsys, dir); err != nil {
			t.Fatal(err)
		}
		generation, err := claimGeneration(fsys, dir, strings.Repeat("0", 64), time.Unix(seconds, 0))
		if err != nil {
			t.Fatal(err)
		}
		return generation
	}
	for i, c := range []struct {
		dir     string
		seconds int64
		want    uint64
	}{
		{"runs/a", 1_800_000_000, 1_800_000_000},
		{"runs/a", 1_800_000_000, 1_800_000_001}, // at once
		{"runs/a", 1_700_000_000, 1_800_000_002}, // the clock was set back
		{"runs/b", 1_800_000_100, 1_800_000_100}, // a new folder
		{"runs/a", 1_800_000_200, 1_800_000_200}, // and the former one again
		{"runs/c", -5, 1},                        // no clock at all
		{"runs/c", 0, 2},
	} {
		if got := claim(c.dir, c.seconds); got != c.want {
			t.Errorf("start %d, in %s at %d, has generation %d, want %d", i, c.dir, c.seconds, got, c.want)
		}
	}
	// A run that an earlier version of the program began counted from 1.
	if err := vfs.WriteFileAtomic(fsys, "runs/c/generations/00000041", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := claim("runs/c", 7); got != 42 {
		t.Errorf("after generation 41 comes %d", got)
	}
	if err := checkNewest(fsys, "runs/a", 1_800_000_002); !errors.As(err, new(SupersededError)) || !strings.Contains(err.Error(), "1800000200") {
		t.Errorf("a coordinator that was replaced: %v", err)
	}
	if err := checkNewest(fsys, "runs/a", 1_800_000_200); err != nil {
		t.Errorf("the newest one: %v", err)
	}
}
