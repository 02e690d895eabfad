package vfs_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"andrea/vfs"
)

func TestRemoveAllLeavesTheTargetOfALink(t *testing.T) {
	root := t.TempDir()
	target := filepath.Join(root, "target")
	must(t, vfs.OS.MkdirAll(target))
	put(t, vfs.OS, filepath.Join(target, "f"), "x")
	must(t, vfs.OS.MkdirAll(filepath.Join(root, "d")))
	for _, link := range []string{filepath.Join(root, "d", "inner"), filepath.Join(root, "outer")} {
		if err := os.Symlink(target, link); err != nil {
			t.Skipf("links cannot be made here: %v", err)
		}
	}
	must(t, vfs.RemoveAll(vfs.OS, filepath.Join(root, "d")))
	must(t, vfs.RemoveAll(vfs.OS, filepath.Join(root, "outer")))
	if got := names(t, vfs.OS, root); got != "target" {
		t.Fatalf("left: %q", got)
	}
	want(t, vfs.OS, filepath.Join(target, "f"), "x")
}

func TestPrivateFilesAreNeverReadableByOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("windows has no permission bits")
	}
	path := filepath.Join(t.TempDir(), "server.json")
	must(t, vfs.WriteFileAtomic(vfs.OS, path, []byte("secret"), 0o600))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, want 0600", info.Mode().Perm())
	}
}
