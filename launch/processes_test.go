package launch_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/model"
	"andrea/pipeline"
	"andrea/vfs"
)

// workerMode as the first argument makes this test binary a worker's process. The second one is
// where its lives leave marks, and those after it, up to "--creds", say what it dies of: a worker
// "worker-1:Update" dies in its first Update, and "worker-1:open" cannot open its engine in any
// life.
const workerMode = "a-worker-of-a-test"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == workerMode {
		os.Exit(workerProcess(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// workerProcess is a worker's whole life.
func workerProcess(marks string, arguments []string) int {
	flags := flag.NewFlagSet(workerMode, flag.ExitOnError)
	creds, id := flags.String("creds", "", ""), flags.String("id", "", "")
	flags.Bool("end-with-input", true, "")
	n := 0
	for arguments[n] != "--creds" {
		n++
	}
	if err := flags.Parse(arguments[n:]); err != nil {
		panic(err)
	}
	engine, err := launch.CPU("", 1)
	if err != nil {
		panic(err)
	}
	fatal := mortal{marks: marks, id: *id, deaths: arguments[:n]}
	plain := engine.Open
	engine.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
		if fatal.has("open") {
			return nil, errors.New("the device is gone")
		}
		e, err := plain(c, microbatch, slots)
		fatal.Engine = e
		return &fatal, err
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the process that has started this one
		leave()
	}()
	err = launch.Work(ctx, launch.WorkerOptions{FS: vfs.OS, Engine: engine, NATS: launch.Remote{Creds: *creds}, Name: pipeline.WorkerID(*id), Log: os.Stderr})
	if stopped := (pipeline.ErrStopped{}); errors.As(err, &stopped) {
		return launch.ExitStopped
	}
	if err != nil {
		return 1
	}
	return 0
}

// mortal is an engine that kills its process, as a power switch would, when it is asked for what
// the worker is to die of, once for each.
type mortal struct {
	model.Engine
	marks, id string
	deaths    []string
}

func (m *mortal) has(what string) bool {
	for _, d := range m.deaths {
		if d == m.id+":"+what {
			return true
		}
	}
	return false
}

// dieOf ends the process unless an earlier life has died of the same.
func (m *mortal) dieOf(what string) {
	if !m.has(what) {
		return
	}
	mark, err := os.OpenFile(filepath.Join(m.marks, m.id+":"+what), os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return
	}
	_ = mark.Close()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func (m *mortal) Load(bucket int, w, first, second []float32) error {
	m.dieOf("Load")
	return m.Engine.Load(bucket, w, first, second)
}

func (m *mortal) Save(bucket int, w, first, second []float32) error {
	m.dieOf("Save")
	return m.Engine.Save(bucket, w, first, second)
}

func (m *mortal) StateDigest(bucket int) (model.Digest, error) {
	m.dieOf("StateDigest")
	return m.Engine.StateDigest(bucket)
}

func (m *mortal) Zero(slot int) error {
	m.dieOf("Zero")
	return m.Engine.Zero(slot)
}

func (m *mortal) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	m.dieOf("Accumulate")
	return m.Engine.Accumulate(slot, b)
}

func (m *mortal) Fold(dst, src int) error {
	m.dieOf("Fold")
	return m.Engine.Fold(dst, src)
}

func (m *mortal) GradDigest(slot, bucket int) (model.Digest, error) {
	m.dieOf("GradDigest")
	return m.Engine.GradDigest(slot, bucket)
}

func (m *mortal) SumSquares(slot int, sums []float64) error {
	m.dieOf("SumSquares")
	return m.Engine.SumSquares(slot, sums)
}

func (m *mortal) ReadGrad(slot, bucket int, dst []float32) error {
	m.dieOf("ReadGrad")
	return m.Engine.ReadGrad(slot, bucket, dst)
}

func (m *mortal) WriteGrad(slot, bucket int, src []float32) error {
	m.dieOf("WriteGrad")
	return m.Engine.WriteGrad(slot, bucket, src)
}

func (m *mortal) Update(slot int, scale float32, h model.Hyper) (model.Digest, error) {
	m.dieOf("Update")
	digest, err := m.Engine.Update(slot, scale, h)
	m.dieOf("after Update")
	return digest, err
}

func (m *mortal) Eval(b model.Batch) (model.Loss, error) {
	m.dieOf("Eval")
	return m.Engine.Eval(b)
}

// trainWith trains the tiny job with so many processes that die as said, and returns how the run
// ended, its folder, which workers it has lost and which deaths there were.
func trainWith(t *testing.T, workers int, deaths ...string) (outcome pipeline.Outcome, dir string, gone []pipeline.WorkerLeft, died int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	marks := t.TempDir()
	dir = filepath.Join(t.TempDir(), "tiny")
	env := launch.Environment{
		FS: vfs.OS, Engine: engine, Version: "test",
		Crew: launch.Crew{Workers: workers, Command: append([]string{self, workerMode, marks}, deaths...)},
		Notify: func(n pipeline.Notice) {
			if left, ok := n.(pipeline.WorkerLeft); ok {
				gone = append(gone, left)
			}
		},
	}
	run, err := launch.Create(env, dir, tinyJob(t, tinyDataset(t)))
	if err != nil {
		t.Fatal(err)
	}
	outcome, err = run.Train()
	if err := errors.Join(err, run.Close()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(marks)
	if err != nil {
		t.Fatal(err)
	}
	return outcome, dir, gone, len(left)
}

// stored is what the tiny job gives.
func stored(t *testing.T) (want golden) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "tiny.json"))
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// Workers' processes are killed at every point of their work, the first in several lives, and
// started again: the same bits.
func TestWorkersThatAreKilledAreStartedAgain(t *testing.T) {
	for _, c := range []struct {
		workers int
		deaths  []string
	}{
		{1, []string{"worker-1:Load", "worker-1:Zero", "worker-1:Accumulate", "worker-1:Fold"}},
		{1, []string{"worker-1:StateDigest", "worker-1:GradDigest", "worker-1:SumSquares", "worker-1:Update"}},
		{1, []string{"worker-1:after Update", "worker-1:Eval", "worker-1:Save"}},
		{2, []string{"worker-1:ReadGrad"}},
		{3, []string{"worker-1:WriteGrad", "worker-2:Update"}},
		{3, []string{"worker-1:Accumulate", "worker-2:Accumulate", "worker-3:Accumulate"}},
	} {
		t.Run(fmt.Sprintf("%d workers, %s", c.workers, strings.Join(c.deaths, ", ")), func(t *testing.T) {
			t.Parallel()
			outcome, dir, gone, died := trainWith(t, c.workers, c.deaths...)
			if outcome.Err != nil || !outcome.Complete {
				t.Fatalf("training ended with %+v", outcome)
			}
			if got, want := read(t, dir), stored(t); got != want {
				t.Errorf("the bits differ:\n got %+v\nwant %+v", got, want)
			}
			if died != len(c.deaths) {
				t.Errorf("%d of %d deaths have come", died, len(c.deaths))
			}
			for _, g := range gone {
				if g.Expelled {
					t.Errorf("expelled: %+v", g)
				}
			}
		})
	}
}

// A worker that dies soon after every start is given up. The others go on without it; when there
// are none the run ends with the reason.
func TestAWorkerThatCannotLiveIsGivenUp(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		outcome, dir, _, _ := trainWith(t, 1, "worker-1:open")
		want := []string{"worker worker-1 was given up: 5 times in a row it ended soon after its start", "exit status 1", filepath.Join(dir, "logs", "worker-1.jsonl")}
		for _, w := range want {
			if outcome.Err == nil || !strings.Contains(outcome.Err.Error(), w) {
				t.Errorf("the run ended with %+v, want %q", outcome, w)
			}
		}
	})
	t.Run("among others", func(t *testing.T) {
		t.Parallel()
		outcome, dir, _, _ := trainWith(t, 2, "worker-1:open")
		if outcome.Err != nil || !outcome.Complete {
			t.Fatalf("training ended with %+v", outcome)
		}
		if got, want := read(t, dir), stored(t); got != want {
			t.Errorf("the bits differ:\n got %+v\nwant %+v", got, want)
		}
	})
}

// The worker in the coordinator's own process ends the run with its error.
func TestAnErrorOfTheWorkerHereEndsTheRun(t *testing.T) {
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	engine.Open = func(model.Config, int, int) (model.Engine, error) { return nil, errors.New("the device is gone") }
	env := launch.Environment{FS: vfs.OS, Engine: engine, Version: "test", Notify: func(pipeline.Notice) {}}
	run, err := launch.Create(env, filepath.Join(t.TempDir(), "tiny"), tinyJob(t, tinyDataset(t)))
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := run.Train()
	if err := errors.Join(err, run.Close()); err != nil {
		t.Fatal(err)
	}
	if outcome.Err == nil || outcome.Err.Error() != "worker local failed: the device is gone" || outcome.Checkpoint != -1 {
		t.Errorf("the run ended with %+v", outcome)
	}
}
