//go:build cuda && cgo && linux

package cudaengine

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cluster is a folder in which the whole program, built with CUDA, trains on GPUs.
type cluster struct {
	t      *testing.T
	dir    string
	binary string
}

func newCluster(t *testing.T) cluster {
	if testing.Short() {
		t.Skip("short runs do not link the whole program")
	}
	softwareOnly(t)
	p := cluster{t: t, dir: t.TempDir()}
	p.binary = filepath.Join(p.dir, "andrea")
	if out, err := exec.Command("go", "build", "-tags", "cuda", "-o", p.binary, "andrea/cmd/andrea").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "Line %d says %d and %d.\n", i, i*7%11, i*i%13)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "text"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// command is one command of the program on a machine with two GPUs.
func (p cluster) command(args ...string) *exec.Cmd {
	c := exec.Command(p.binary, args...)
	c.Dir = p.dir
	c.Env = append(os.Environ(), "SOFTCUDA_DEVICES=2", "GOMAXPROCS=2")
	return c
}

// run runs a command to its end, which must be good.
func (p cluster) run(args ...string) (stdout string) {
	p.t.Helper()
	c := p.command(args...)
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	if err := c.Run(); err != nil {
		p.t.Fatalf("andrea %v: %v\n%s%s", args, err, out.String(), log.String())
	}
	return out.String()
}

const pipelineSteps = 12

// trainCommand is the command of a small run that has a folder of its own.
func trainCommand(run, precision string, more ...string) []string {
	args := []string{"train", "--text", "text", "--tokenizer", "bytes", "--run", run, "--steps", fmt.Sprint(pipelineSteps), "--json"}
	for _, set := range []string{
		"precision=" + precision, "model.d_model=64", "model.n_head=2", "model.n_layer=1", "model.context=16",
		"batch.tokens_per_step=128", "batch.lanes=4", "batch.microbatch=2", "checkpoint.every=4", "eval.every=6", "eval.windows=3", "data.validation=0.05",
	} {
		args = append(args, "--set", set)
	}
	return append(args, more...)
}

// sum is the digest of what a finished run has learnt, weights and moments.
func (p cluster) sum(run string) string {
	p.t.Helper()
	hash := sha256.New()
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		data, err := os.ReadFile(filepath.Join(p.dir, run, "checkpoints", fmt.Sprintf("step-%08d", pipelineSteps), name))
		if err != nil {
			p.t.Fatal(err)
		}
		hash.Write(data)
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// logged is the log of one process of a run.
func (p cluster) logged(run, process string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, run, "logs", process+".jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// The whole program trains on GPUs.
func TestPipeline(t *testing.T) {
	p := newCluster(t)
	for _, precision := range precisions {
		t.Run(precision, func(t *testing.T) { p.on(t).oneHash(precision) })
	}
	t.Run("library", func(t *testing.T) { p.on(t).byLibrary() })
	t.Run("failing GPU", func(t *testing.T) { p.on(t).failing("bf16-alone") })
	t.Run("failing GPU of a run", func(t *testing.T) { p.on(t).failingHere("bf16-alone") })
	t.Run("replay", func(t *testing.T) { p.on(t).run("replay", "bf16-pair", "--from", "1") })
	t.Run("too few GPUs", func(t *testing.T) { p.on(t).tooFew() })
}

// on is the cluster for a subtest.
func (p cluster) on(t *testing.T) cluster {
	p.t = t
	return p
}

// oneHash shows that whoever computes, and however often a run is killed, it ends in one state.
func (p cluster) oneHash(precision string) {
	alone := precision + "-alone"
	p.run(trainCommand(alone, precision)...) // by auto, since there is a GPU
	want := p.sum(alone)
	first, _, _ := strings.Cut(p.logged(alone, "local"), "\n")
	for _, say := range []string{"computing on", "cuda-software_cuda_device-" + precision, "compute capability", "MiB", "driver for CUDA"} {
		if !strings.Contains(first, say) {
			p.t.Errorf("the worker's first line lacks %q: %s", say, first)
		}
	}

	pair := precision + "-pair"
	p.run(trainCommand(pair, precision, "--engine", "cuda", "--workers", "2")...)
	if got := p.sum(pair); got != want {
		p.t.Errorf("two workers end in %s, one in %s", got, want)
	}
	for device, process := range []string{"worker-1", "worker-2"} {
		if log := p.logged(pair, process); !strings.Contains(log, fmt.Sprintf("(device %d,", device)) {
			p.t.Errorf("%s does not compute on device %d:\n%s", process, device, log)
		}
	}

	killed := precision + "-killed"
	p.kill(6, trainCommand(killed, precision, "--engine", "cuda"))
	p.run("resume", killed)
	if got := p.sum(killed); got != want {
		p.t.Errorf("killed and resumed it ends in %s, uninterrupted in %s", got, want)
	}
}

// byLibrary shows that workers multiply by NVIDIA's library where that is asked for, that a resumed run keeps to it, and
// that no other library or version takes part.
func (p cluster) byLibrary() {
	withLibrary(p.t)
	p.run(trainCommand("library-pair", BF16, "--gemm", "cublaslt", "--workers", "2")...)
	want := p.sum("library-pair")
	if log := p.logged("library-pair", "worker-2"); !strings.Contains(log, "cuda-software_cuda_device-cublaslt_13_0_0-bf16") || !strings.Contains(log, "products by cuBLASLt 13.0.0: ") {
		p.t.Errorf("a worker's log does not name the library and its algorithms:\n%s", log)
	}
	p.kill(6, trainCommand("library-killed", BF16, "--gemm", "cublaslt"))
	if out, err := p.command("resume", "library-killed", "--gemm", "own").CombinedOutput(); err == nil || !strings.Contains(string(out), "--other-engine") {
		p.t.Errorf("resumed with another way to multiply: %v\n%s", err, out)
	}
	p.run("resume", "library-killed")
	if got := p.sum("library-killed"); got != want {
		p.t.Errorf("killed and resumed it ends in %s, two workers in %s", got, want)
	}
	missing := p.command(trainCommand("library-missing", BF16, "--gemm", "cublaslt")...)
	missing.Env = append(missing.Env, "ANDREA_CUBLASLT_LIBRARY=/nowhere/libcublasLt.so")
	if out, err := missing.CombinedOutput(); err == nil || !strings.Contains(string(out), "/nowhere/libcublasLt.so") || exists(filepath.Join(p.dir, "library-missing")) {
		p.t.Errorf("without the library: %v\n%s", err, out)
	}
}

// failingHere shows that a run whose GPU fails for good goes on: with an engine that is opened anew, and, where a process
// gets no other answer from its driver, in a new process.
func (p cluster) failingHere(like string) {
	want := p.sum(like)
	train := func(run string, fault []string, more ...string) {
		c := p.command(trainCommand(run, BF16, more...)...)
		c.Env = append(c.Env, fault...)
		if out, err := c.CombinedOutput(); err != nil {
			p.t.Fatalf("%s: %v\n%s", run, err, out)
		}
		if got := p.sum(run); got != want {
			p.t.Errorf("%s ends in %s, %s in %s", run, got, like, want)
		}
	}
	train("failing-alone", []string{"SOFTCUDA_FAIL=cuLaunchKernel:300:719"})
	if log := p.logged("failing-alone", "local"); !strings.Contains(log, "its engine is opened anew") || !strings.Contains(log, "CUDA error 719") {
		p.t.Errorf("the worker does not say that its GPU failed:\n%s", log)
	}
	once := filepath.Join(p.dir, "failed")
	train("failing-crew", []string{"SOFTCUDA_FAIL=cuLaunchKernel:300:719:" + once, "SOFTCUDA_STUCK=1"}, "--engine", "cuda", "--workers", "2")
	if log := p.logged("failing-crew", "coordinator"); !exists(once) || !strings.Contains(log, "starting a worker again") {
		p.t.Errorf("no worker's process was started again:\n%s", log)
	}
}

// failing shows that a worker whose GPU fails, in a process that gets no other answer from its driver, ends and says so, and that the run, which another life of it may join, ends
// in the state of the run that nothing happened to.
func (p cluster) failing(like string) {
	tokens, err := filepath.Glob(filepath.Join(p.dir, "tokens", "*", "dataset.json"))
	if err != nil || len(tokens) != 1 {
		p.t.Fatalf("datasets %v, %v", tokens, err)
	}
	var log bytes.Buffer
	coordinator := p.command("coordinator", "--job", filepath.Join(like, "job.yaml"), "--run", "failing", "--data", filepath.Dir(tokens[0]), "--set", "name=failing", "--workers", "2", "--json")
	coordinator.Stderr = &log
	shown, err := coordinator.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := coordinator.Start(); err != nil {
		p.t.Fatal(err)
	}
	defer coordinator.Process.Kill()
	credentials := filepath.Join(p.dir, "failing", "worker.json")
	worker := func(fail string) *exec.Cmd {
		c := p.command("worker", "--creds", credentials, "--engine", "cuda")
		c.Env = append(c.Env, "SOFTCUDA_FAIL="+fail, "SOFTCUDA_STUCK=1")
		return c
	}
	for !exists(credentials) { // the coordinator writes it before it waits for workers
		if coordinator.Process.Signal(syscall.Signal(0)) != nil {
			p.t.Fatalf("the coordinator has ended:\n%s", log.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	healthy := worker("")
	if err := healthy.Start(); err != nil {
		p.t.Fatal(err)
	}
	defer healthy.Process.Kill()
	if out, err := worker("cuLaunchKernel:60:719").CombinedOutput(); err == nil || !strings.Contains(string(out), "CUDA error 719") {
		p.t.Errorf("a worker whose GPU fails: %v\n%s", err, out)
	}
	again := worker("")
	if err := again.Start(); err != nil {
		p.t.Fatal(err)
	}
	defer again.Process.Kill() // the run may end before it has joined
	lines := bufio.NewScanner(shown)
	for lines.Scan() {
	}
	if err := coordinator.Wait(); err != nil {
		p.t.Fatalf("the coordinator: %v\n%s", err, log.String())
	}
	if err := healthy.Wait(); err != nil {
		p.t.Errorf("the worker whose GPU did not fail: %v", err)
	}
	if got, want := p.sum("failing"), p.sum(like); got != want {
		p.t.Errorf("with a failing GPU it ends in %s, without in %s", got, want)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// kill runs a command and kills it when it has told of a step.
func (p cluster) kill(step int, args []string) {
	p.t.Helper()
	c := p.command(args...)
	out, err := c.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), fmt.Sprintf(`"step":%d,`, step)) {
	}
	if err := c.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := c.Wait(); err == nil {
		p.t.Fatal("the run ended before it was killed")
	}
}

// tooFew shows that more workers than GPUs are refused before anything is made.
func (p cluster) tooFew() {
	out, err := p.command(trainCommand("three", FP32, "--engine", "cuda", "--workers", "3")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--workers is 3") || !strings.Contains(string(out), "this machine has 2") {
		p.t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "three")); err == nil {
		p.t.Error("a run was created")
	}
}
