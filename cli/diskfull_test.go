package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"andrea/vfs"
)

// fullDisk is the real file system where from the n-th write on, of those that concern
// a path that in accepts, nothing more fits.
func fullDisk(n int64, in func(path string) bool) *countingFS {
	var writes atomic.Int64
	return &countingFS{FS: vfs.OS, before: func(kind, path string) error {
		takesRoom := kind == "write" || kind == "create" || kind == "mkdir"
		if !takesRoom || !in(path) || writes.Add(1) < n {
			return nil
		}
		return &os.PathError{Op: kind, Path: path, Err: syscall.ENOSPC}
	}}
}

func anywhere(string) bool { return true }

// within accepts the paths that contain a text.
func within(text string) func(string) bool {
	return func(path string) bool { return strings.Contains(path, text) }
}

// ranOut checks how a command that ran out of disk ended.
func (p place) ranOut(r result) {
	p.t.Helper()
	if r.code != 1 || !strings.Contains(r.stderr, "no space left on device") {
		p.t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
}

// The disk fills up while tokens are written: nothing is left that could be taken for a
// dataset, and the same command succeeds later.
func TestADiskFullOfTokens(t *testing.T) {
	p := newPlace(t)
	p.text()
	prepare := []string{"data", "prepare", "--text", filepath.Join(p.dir, "text"), "--tokenizer", "bytes", "--out", filepath.Join(p.dir, "tokens")}
	full := 0
	for n := int64(1); ; n++ {
		r := p.here(outside{fs: fullDisk(n, anywhere)}, prepare...)
		if r.code == 0 {
			break
		}
		full++
		p.ranOut(r)
		if found, err := filepath.Glob(filepath.Join(p.dir, "tokens", "*", "dataset.json")); err != nil || len(found) > 0 {
			t.Fatalf("write %d: half a dataset is left: %v %v", n, found, err)
		}
	}
	if full < 5 {
		t.Errorf("the disk was full in %d cases only", full)
	}
	found, err := filepath.Glob(filepath.Join(p.dir, "tokens", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	if r := p.here(outside{}, "data", "verify", found[0]); r.code != 0 {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
}

// The disk fills up while a run is created, started or trained: the command says so and
// fails, the checkpoints that were good stay good, and with room again the run ends in
// the same bits.
func TestADiskFullOfARun(t *testing.T) {
	p := newPlace(t)
	data := p.prepared()
	var writes atomic.Int64
	count := &countingFS{FS: vfs.OS, before: func(kind, _ string) error {
		if kind == "write" || kind == "create" || kind == "mkdir" {
			writes.Add(1)
		}
		return nil
	}}
	if r := p.here(outside{fs: count}, p.trainHere(data, "whole")...); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	want := p.sums("whole")
	type disk struct {
		name string
		full *countingFS
	}
	disks := []disk{
		{"no journal", fullDisk(30, within("journal.jsonl"))},
		{"no checkpoint", fullDisk(10, within("checkpoints"))},
		{"no keys", fullDisk(1, within("server.json"))},
		{"no generation", fullDisk(1, within("generations"))},
	}
	rng := drawing(t)
	for range few(1) {
		n := 1 + rng.Int64N(writes.Load()-20) // the last ones may be the log's alone
		disks = append(disks, disk{fmt.Sprintf("write %d", n), fullDisk(n, anywhere)})
	}
	for _, d := range disks {
		t.Run(d.name, func(t *testing.T) {
			q := newPlace(t)
			q.ranOut(q.here(outside{fs: d.full}, q.trainHere(data, "run")...))
			again := q.trainHere(data, "run")
			if _, err := os.Stat(filepath.Join(q.dir, "run", "job.yaml")); err == nil {
				if r := q.here(outside{}, "checkpoints", "verify", filepath.Join(q.dir, "run")); r.code != 0 {
					t.Errorf("checkpoints: exit %d\n%s", r.code, r.stderr)
				}
				again = []string{"resume", filepath.Join(q.dir, "run")}
			}
			if r := q.here(outside{}, again...); r.code != 0 {
				t.Fatalf("with room again: exit %d\n%s", r.code, r.stderr)
			}
			if got := q.sums("run"); got != want {
				t.Errorf("other bits:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A log is not worth a run: where it cannot be written the run goes on, and says so.
func TestALogThatCannotBeWritten(t *testing.T) {
	p := newPlace(t)
	data := p.prepared()
	want := trained(t, 1).sums("runs/demo")
	for name, n := range map[string]int64{"from the start": 1, "from the second line": 4, "later": 20} {
		t.Run(name, func(t *testing.T) {
			q := newPlace(t)
			full := fullDisk(n, func(path string) bool { return strings.HasSuffix(path, ".jsonl") && strings.Contains(path, "logs") })
			r := q.here(outside{fs: full}, q.trainHere(data, "run")...)
			if r.code != 0 || !strings.Contains(r.stderr, "warning: ") || !strings.Contains(r.stderr, "no space left on device") {
				t.Errorf("exit %d\n%s", r.code, r.stderr)
			}
			if got := q.sums("run"); got != want {
				t.Errorf("other bits:\n%s\nwant\n%s", got, want)
			}
		})
	}
}
