//go:build linux

package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

// A home whose owner was killed is cleared away by the next one, with its control groups; one whose owner lives is not.
func TestAbandonedHomesAreClearedAway(t *testing.T) {
	if os.Getuid() != 0 || len(hierarchies()) == 0 {
		t.Skip("control groups are made by root alone, on Linux: run as root")
	}
	t.Setenv("TMPDIR", t.TempDir())
	first := mustHome(t)
	for _, group := range []string{"/node-a", "/node-b/pods/one"} {
		if err := makeCgroup(first.cgroup() + group); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(first.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := mustHome(t)
	if _, err := os.Stat(filepath.Join(first.dir, "file")); err != nil {
		t.Fatalf("the home of somebody who lives was cleared away: %v", err)
	}
	if err := first.lock.Close(); err != nil { // as by a kill
		t.Fatal(err)
	}
	third := mustHome(t)
	if _, err := os.Stat(first.dir); !os.IsNotExist(err) {
		t.Errorf("the abandoned home is still there: %v", err)
	}
	for _, hierarchy := range hierarchies() {
		if _, err := os.Stat(filepath.Join(hierarchy, first.cgroup())); !os.IsNotExist(err) {
			t.Errorf("its control group is still in %s: %v", hierarchy, err)
		}
	}
	for _, h := range []home{second, third} {
		if err := h.remove(); err != nil {
			t.Error(err)
		}
	}
}

func mustHome(t *testing.T) home {
	t.Helper()
	h, err := newHome()
	if err != nil {
		t.Fatal(err)
	}
	return h
}
