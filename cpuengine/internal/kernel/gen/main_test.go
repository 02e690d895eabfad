package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedCodeIsCurrent fails when the kernel package's files are not what gen writes.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what gen writes: run go generate in the kernel package", name)
		}
	}
}
