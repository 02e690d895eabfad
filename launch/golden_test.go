package launch_test

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"andrea/launch"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
)

var update = flag.Bool("update", false, "write the golden files anew; a change of bits also raises model.Numerics")

// golden is what the tiny job gives, for ever: a change of these bits is a commit of
// its own that raises model.Numerics and says why.
type golden struct {
	Numerics int    `json:"numerics"`
	Loss     string `json:"loss"` // of step 20, nats per token, as a hexadecimal float64
	ValLoss  string `json:"val_loss"`
	Model    string `json:"model_sha256"`
	State    string `json:"optimizer_sha256"`
}

func trainTiny(t *testing.T, dataset, path string, threads int) golden {
	t.Helper()
	engine, err := launch.CPU(path, threads)
	if err != nil {
		t.Skipf("the %s path cannot run here: %v", path, err)
	}
	dir := filepath.Join(t.TempDir(), "tiny")
	env := launch.Environment{FS: vfs.OS, Engine: engine, Version: "test", Notify: func(pipeline.Notice) {}}
	run, err := launch.Create(env, dir, tinyJob(t, dataset))
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := run.Train()
	if err != nil || outcome.Err != nil || !outcome.Complete {
		t.Fatalf("training ended with %+v, %v", outcome, err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	return read(t, dir)
}

// read collects the results of a finished tiny run.
func read(t *testing.T, dir string) golden {
	t.Helper()
	journal, err := runner.ReadJournal(vfs.OS, filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	last := journal.Step(20).Commit
	sum := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, "checkpoints", "step-00000020", name))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sha256.Sum256(data))
	}
	hex := func(f pipeline.Float) string { return fmt.Sprintf("%016x", math.Float64bits(float64(f))) }
	return golden{model.Numerics, hex(last.Loss), hex(*last.ValLoss), sum("model.safetensors"), sum("optimizer.safetensors")}
}

// The same bits on every instruction set and any number of threads, and the same as
// yesterday.
func TestTheTinyJobGivesTheStoredBits(t *testing.T) {
	dataset := tinyDataset(t)
	file := filepath.Join("testdata", "tiny.json")
	if *update {
		data, err := json.MarshalIndent(trainTiny(t, dataset, "", 0), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want golden
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	type way struct {
		path    string
		threads int
	}
	ways := []way{{"avx512", 1}, {"avx512", 2}, {"avx512", 7}, {"avx2", 2}, {"neon", 2}, {"portable", 2}}
	if testing.Short() {
		ways = []way{{"", 3}} // the others have the same goroutines
	}
	for _, c := range ways {
		t.Run(fmt.Sprintf("%s-%d", c.path, c.threads), func(t *testing.T) {
			if got := trainTiny(t, dataset, c.path, c.threads); got != want {
				t.Errorf("the bits differ:\n got %+v\nwant %+v", got, want)
			}
		})
	}
}
