package dirstore_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// damage changes one file of a checkpoint.
type damage func(t *testing.T, fsys vfs.FS, path string)

func rewrite(change func(data []byte) []byte) damage {
	return func(t *testing.T, fsys vfs.FS, path string) {
		data, err := vfs.ReadFile(fsys, path, 1<<20)
		must(t, err)
		must(t, vfs.WriteFileSync(fsys, path, change(data), 0o644))
	}
}

// damages includes one flipped bit in the first, a middle and the last byte.
func damages() map[string]damage {
	flip := func(at func(n int) int) damage {
		return rewrite(func(data []byte) []byte {
			data[at(len(data))] ^= 4
			return data
		})
	}
	return map[string]damage{
		"first byte":  flip(func(int) int { return 0 }),
		"middle byte": flip(func(n int) int { return n / 2 }),
		"last byte":   flip(func(n int) int { return n - 1 }),
		"truncated":   rewrite(func(data []byte) []byte { return data[:len(data)-1] }),
		"halved":      rewrite(func(data []byte) []byte { return data[:len(data)/2] }),
		"emptied":     rewrite(func([]byte) []byte { return nil }),
		"extended":    rewrite(func(data []byte) []byte { return append(data, 0) }),
		"zeroed":      rewrite(func(data []byte) []byte { return make([]byte, len(data)) }),
		"deleted":     func(t *testing.T, fsys vfs.FS, path string) { must(t, fsys.Remove(path)) },
		"a folder": func(t *testing.T, fsys vfs.FS, path string) {
			must(t, fsys.Remove(path))
			must(t, fsys.MkdirAll(path))
		},
		"from the older checkpoint": func(t *testing.T, fsys vfs.FS, path string) {
			data, err := vfs.ReadFile(fsys, filepath.Join(dir, "step-00000001", filepath.Base(path)), 1<<20)
			must(t, err)
			must(t, vfs.WriteFileSync(fsys, path, data, 0o644))
		},
	}
}

// sameInEveryCheckpoint tells the files that a swap leaves as they were.
func sameInEveryCheckpoint(name string) bool {
	return name == checkpoints.ConfigFile || name == checkpoints.TokenizerFile
}

func TestDamagedNewestIsPassedOver(t *testing.T) {
	for _, file := range append(checkpoints.FileNames(), checkpoints.ManifestFile) {
		for name, harm := range damages() {
			if name == "from the older checkpoint" && sameInEveryCheckpoint(file) {
				continue
			}
			t.Run(file+" "+name, func(t *testing.T) {
				fsys := withCheckpoints(t, 1, 2)
				harm(t, fsys, filepath.Join(dir, "step-00000002", file))
				r, passed, err := dirstore.Open(fsys, dir).Newest(nil)
				must(t, err)
				if r.Manifest().Step != 1 || len(passed) != 1 || passed[0].Step != 2 {
					t.Fatalf("step %d is taken, %v passed over", r.Manifest().Step, passed)
				}
				if reason := passed[0].Reason.Error(); !strings.Contains(reason, "step-00000002") || !strings.Contains(reason, file) {
					t.Fatalf("the reason does not name step-00000002 and %s: %s", file, reason)
				}
				got, err := loaded(r)
				must(t, err)
				if got.digest() != newState(tiny(), 1).digest() {
					t.Fatal("the older checkpoint came back with other bits")
				}
				must(t, r.Close())
			})
		}
	}
}

func TestNoneIntact(t *testing.T) {
	if _, passed, err := dirstore.Open(crashfs.New(), dir).Newest(nil); !errors.Is(err, dirstore.ErrNone) || passed != nil {
		t.Fatalf("no folder: error %v, passed over %v", err, passed)
	}
	fsys := withCheckpoints(t, 1, 2)
	for _, step := range []string{"step-00000001", "step-00000002"} {
		must(t, fsys.Remove(filepath.Join(dir, step, checkpoints.ManifestFile)))
	}
	_, passed, err := dirstore.Open(fsys, dir).Newest(nil)
	if !errors.Is(err, dirstore.ErrNone) || len(passed) != 2 || passed[0].Step != 2 {
		t.Fatalf("error %v, passed over %v", err, passed)
	}
	for _, step := range []string{"step-00000001", "step-00000002"} {
		if !strings.Contains(err.Error(), step) {
			t.Errorf("no word of %s in: %v", step, err)
		}
	}
}

func TestRenamedFolderIsRefused(t *testing.T) {
	fsys := withCheckpoints(t, 1)
	must(t, fsys.Rename(filepath.Join(dir, "step-00000001"), filepath.Join(dir, "step-00000009")))
	if _, err := dirstore.Open(fsys, dir).Verify(9); err == nil || !strings.Contains(err.Error(), "step 1") {
		t.Fatalf("error %v", err)
	}
}

// forge writes the manifest of a checkpoint anew, with another SHA-256 for model.safetensors.
func forge(t *testing.T, fsys vfs.FS, folder, sha256 string) {
	t.Helper()
	rewrite(func(data []byte) []byte {
		m, err := checkpoints.Parse(data)
		must(t, err)
		for i := range m.Files {
			if m.Files[i].Name == checkpoints.ModelFile {
				m.Files[i].SHA256 = sha256
			}
		}
		forged, err := checkpoints.Marshal(m)
		must(t, err)
		return forged
	})(t, fsys, filepath.Join(folder, checkpoints.ManifestFile))
}

// The sum of a file and the digest of the state guard each other: neither alone is believed.
func TestForgedManifests(t *testing.T) {
	fsys := withCheckpoints(t, 1, 2)
	forge(t, fsys, filepath.Join(dir, "step-00000001"), checkpoints.SHA256Hex(nil))
	if _, err := dirstore.Open(fsys, dir).Verify(1); err == nil || !strings.Contains(err.Error(), "model.safetensors: has SHA-256") {
		t.Fatalf("right tensors, wrong sum: error %v", err)
	}
	folder := filepath.Join(dir, "step-00000002")
	var changed []byte
	rewrite(func(data []byte) []byte {
		data[len(data)-1] ^= 1
		changed = data
		return data
	})(t, fsys, filepath.Join(folder, checkpoints.ModelFile))
	forge(t, fsys, folder, checkpoints.SHA256Hex(changed))
	if _, err := dirstore.Open(fsys, dir).Verify(2); err == nil || !strings.Contains(err.Error(), "their state has digest") {
		t.Fatalf("wrong tensors, right sum: error %v", err)
	}
}

func TestChangeAfterVerificationIsSeen(t *testing.T) {
	fsys := withCheckpoints(t, 1)
	r, err := dirstore.Open(fsys, dir).OpenStep(1)
	must(t, err)
	path := filepath.Join(dir, "step-00000001", checkpoints.OptimizerFile)
	data, err := vfs.ReadFile(fsys, path, 1<<20)
	must(t, err)
	data[len(data)-1] ^= 1
	must(t, vfs.WriteFileSync(fsys, path, data, 0o644))
	if _, err := loaded(r); err == nil || !strings.Contains(err.Error(), "changed since") {
		t.Fatalf("error %v", err)
	}
	must(t, r.Close())
}

// Whom the caller does not accept is passed over, and replaced when training gets there again.
func TestNotAccepted(t *testing.T) {
	fsys := withCheckpoints(t, 1, 2)
	stranger := newState(tiny(), 77)
	store := owned(t, fsys, dir)
	must(t, stranger.save(store, 3))
	foreign := errors.New("its record is not in the journal")
	r, passed, err := store.Newest(func(m checkpoints.Manifest) error {
		if m.Step == 3 {
			return foreign
		}
		return nil
	})
	must(t, err)
	if r.Manifest().Step != 2 || len(passed) != 1 || !errors.Is(passed[0].Reason, foreign) {
		t.Fatalf("step %d is taken, %v passed over", r.Manifest().Step, passed)
	}
	must(t, r.Close())
	must(t, newState(tiny(), 3).save(store, 3))
	if steps := newestAfter(t, fsys); len(steps) != 3 {
		t.Fatalf("checkpoints %v", steps)
	}
}

func TestRetainRefusesWhenTheNewOneIsDamaged(t *testing.T) {
	fsys := withCheckpoints(t, 1, 2, 3)
	rewrite(bytes.ToUpper)(t, fsys, filepath.Join(dir, "step-00000003", checkpoints.TokenizerFile))
	store := owned(t, fsys, dir)
	if deleted, err := store.Retain(3, 1); err == nil || deleted != nil {
		t.Fatalf("deleted %v, error %v", deleted, err)
	}
	if steps, err := store.List(); err != nil || len(steps) != 3 {
		t.Fatalf("checkpoints %v, %v", steps, err)
	}
}
