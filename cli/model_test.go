package cli

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"andrea/cpuengine"
	"andrea/describe"
	"andrea/model"
)

func TestModelDescribe(t *testing.T) {
	p := newPlace(t)
	r := p.run("", "model", "describe", "120m")
	for _, want := range []string{"98,698,752", "2,359,296", "28,311,552", "28.7 %", "1,048,576", "[1,12,1024,64]", "9.195"} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("exit %d, no %q:\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	for _, c := range []struct {
		args                     []string
		variant                  string
		parameters               int64
		microbatch, lanes, slots int
		tokensPerStep            int
	}{
		{[]string{"12m"}, "12m", 12_780_288, 1, 8, 4, 8192},
		{[]string{"480m", "--set", "batch.lanes=16"}, "480m", 480_513_024, 1, 16, 5, 16384},
		{[]string{"12m", "--vocab", "257"}, "custom", 2*257*384 + 1024*384 + 12*6*384*384, 1, 8, 4, 8192},
		{[]string{"12m", "--set", "batch.microbatch=3"}, "12m", 12_780_288, 3, 8, 4, 24576},
		{[]string{"custom", "--vocab", "300", "--set", "model.d_model=40", "--set", "model.n_head=4", "--set", "model.n_layer=1", "--set", "model.context=7"},
			"custom", 2*300*40 + 7*40 + 12*1600, 1, 8, 4, 8192 / 56 * 56},
	} {
		d := decode[describe.Description](t, p.run("", append([]string{"model", "describe", "--json"}, c.args...)...))
		if d.Variant != c.variant || d.Parameters.Total != c.parameters || d.Batch.Microbatch != c.microbatch || d.Batch.Lanes != c.lanes ||
			d.Batch.Slots != c.slots || d.Batch.TokensPerStep != c.tokensPerStep {
			t.Errorf("%v: %d parameters, %s, %+v", c.args, d.Parameters.Total, d.Variant, d.Batch)
		}
	}
	if entries, err := os.ReadDir(p.dir); err != nil || len(entries) != 0 {
		t.Errorf("something was written: %v %v", entries, err)
	}
}

func TestModelDescribeACluster(t *testing.T) {
	p := newPlace(t)
	args := []string{"model", "describe", "120m", "--workers", "8", "--nic", "10G", "--tokens-per-step", "262144"}
	d := decode[describe.Description](t, p.run("", append(args, "--json", "--gflops", "250", "--cores", "4")...))
	c := d.Cluster
	if c == nil || c.Workers != 8 || c.NIC != 10e9 || c.Cores != 4 || len(c.Kinds) != 1 || d.Batch.TokensPerStep != 262144 || math.Abs(c.Kinds[0].TokensPerSecond-413.1) > 0.1 {
		t.Errorf("%+v", c)
	}
	if c := decode[describe.Description](t, p.run("", append(args, "--json", "--tokens-per-second", "77")...)).Cluster; c.Kinds[0].TokensPerSecond != 77 || c.Cores != 8 {
		t.Errorf("%+v", c)
	}
	r := p.run("", append(args, "--workers", "16")...)
	for _, want := range []string{"10 Gbit/s", "8 of them stand by", "2 CPU cores", "32 CPU cores", "one H200", "pipelined", "394,795,008"} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("exit %d, no %q:\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	if d := decode[describe.Description](t, p.run("", "model", "describe", "12m", "--json")); d.Cluster != nil {
		t.Errorf("a cluster that nobody asked for: %+v", d.Cluster)
	}
}

func TestModelDescribeListsFaults(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"needs "}},
		{[]string{"7b"}, []string{"7b", "12m"}},
		{[]string{"custom"}, []string{"d_model", "n_head", "n_layer", "context", "vocab"}},
		{[]string{"12m", "--set", "model.n_head=7", "--set", "batch.lanes=3"}, []string{"384", "7", "remainder 6", "power of two"}},
		{[]string{"12m", "--vocab", "-1"}, []string{"vocab is -1"}},
		{[]string{"12m", "--set", "model.vocab=100"}, []string{"vocab 100"}},
		{[]string{"12m", "--set", "model.width=1"}, []string{"unknown key", "width"}},
		{[]string{"12m", "--set", "batch.tokens_per_step=1000"}, []string{"1000"}},
		{[]string{"12m", "--set", "batch.microbatch=100000"}, []string{"microbatch"}},
		{[]string{"480m", "--set", "model.n_layer=1000"}, []string{"parameters"}},
		{[]string{"12m", "--workers", "-1"}, []string{"--workers is -1"}},
		{[]string{"12m", "--workers", "5000"}, []string{"--workers is 5000", "4096"}},
		{[]string{"12m", "--workers", "2", "--nic", "fast"}, []string{"--nic", "fast", "25G"}},
		{[]string{"12m", "--workers", "2", "--nic", "NaNG"}, []string{"--nic", "NaNG"}},
		{[]string{"12m", "--workers", "2", "--nic", "5"}, []string{"--nic", `"5"`}},
		{[]string{"12m", "--workers", "2", "--cores", "0"}, []string{"--cores is 0"}},
		{[]string{"12m", "--workers", "2", "--gflops", "-1"}, []string{"--gflops is -1"}},
		{[]string{"12m", "--workers", "2", "--gflops", "NaN"}, []string{"--gflops is NaN"}},
		{[]string{"12m", "--workers", "2", "--gflops", "1", "--tokens-per-second", "1"}, []string{"give one"}},
		{[]string{"12m", "--tokens-per-step", "1000"}, []string{"1000"}},
	} {
		r := p.run("", append([]string{"model", "describe", "--json"}, c.args...)...)
		if r.code != 2 || r.stdout != "" {
			t.Errorf("%v: exit %d, want 2\n%s", c.args, r.code, r.stdout)
		}
		for _, want := range c.want {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("%v: no %q:\n%s", c.args, want, r.stderr)
			}
		}
	}
}

// settings are the --set flags among the arguments of a command.
func settings(args []string) (set []string) {
	for i, arg := range args {
		if arg == "--set" {
			set = append(set, arg, args[i+1])
		}
	}
	return set
}

// What is said of a model is what a run of it then has: the sizes of the files byte
// for byte, and about the first loss, whose tokens are not quite random.
func TestDescriptionAndRunAgree(t *testing.T) {
	p := trained(t, 1)
	d := decode[describe.Description](t, p.run("", append([]string{"model", "describe", "custom", "--vocab", "257", "--json"}, settings(tiny)...)...))
	for _, file := range d.Checkpoint {
		if info, err := os.Stat(filepath.Join(p.dir, newest, file.Name)); err != nil || info.Size() != file.Bytes {
			t.Errorf("%s is described with %d bytes, the run's has %v (%v)", file.Name, file.Bytes, info.Size(), err)
		}
	}
	var first struct{ Loss float64 }
	lines := strings.Split(p.read("runs/demo/journal.jsonl"), "\n")
	if err := json.Unmarshal([]byte(lines[1]), &first); err != nil || math.Abs(first.Loss-d.LossAtStart) > 0.1 {
		t.Errorf("the first loss is %v, %v was described (%v)", first.Loss, d.LossAtStart, err)
	}
	if d.Shape.HeadDim != 16 || d.Batch.TokensPerStep != 256 {
		t.Errorf("described: %+v %+v", d.Shape, d.Batch)
	}
}

// The memory that is described is within 15 % of the peak of a real run with
// checkpoints and a sample of text.
func TestDescribedMemoryIsARuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the peak is measured in KiB as Linux gives it")
	}
	if os.Getenv(everythingVariable) == "" {
		t.Skip("trains a model of 7 million parameters: set " + everythingVariable)
	}
	p := newPlace(t)
	p.text()
	made := decode[datasetResult](t, p.run("", "data", "prepare", "--text", "text", "--tokenizer", "bytes", "--json"))
	set := []string{"--set", "model.d_model=384", "--set", "model.n_head=4", "--set", "model.n_layer=4", "--set", "model.context=128",
		"--set", "batch.tokens_per_step=512", "--set", "batch.lanes=4", "--set", "checkpoint.every=1", "--set", "eval.every=0"}
	d := decode[describe.Description](t, p.run("", append([]string{"model", "describe", "custom", "--vocab", "257", "--json"}, set...)...))
	c := exec.Command(binary, append([]string{"train", "--data", made.Dir, "--steps", "2"}, set...)...)
	c.Dir = p.dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	peak := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	ratio := float64(peak) / float64(d.Memory.Total)
	t.Logf("the run took %d MiB at its peak, %d were described: %.2f", peak>>20, d.Memory.Total>>20, ratio)
	if ratio < 1/1.15 || ratio > 1.15 {
		t.Errorf("the run took %d bytes at its peak, %d were described", peak, d.Memory.Total)
	}
}

// The largest variant fits into 20 GiB with 8 lanes of one window, its copy for
// checkpoints included, and what is described is what is allocated.
func TestTheLargestVariantFits(t *testing.T) {
	p := newPlace(t)
	d := decode[describe.Description](t, p.run("", "model", "describe", "480m", "--json"))
	c, err := model.Variant("480m")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := cpuengine.Bytes(c, cpuengine.Options{Microbatch: 1, Slots: model.Slots(8), Threads: d.Batch.Threads})
	if err != nil {
		t.Fatal(err)
	}
	m, state := d.Memory, 12*c.Parameters()
	if m.State+m.Gradients+m.Activations != engine || m.Snapshot != state || m.Total != engine+state+m.Garbage+m.Program || d.Batch.Lanes != 8 || d.Batch.Microbatch != 1 {
		t.Errorf("an engine of %d and a state of %d: %+v", engine, state, m)
	}
	if m.Total > 20<<30 || m.Garbage > 2*garbageBytes {
		t.Errorf("%.2f GiB are described, of them %d MiB of garbage", float64(m.Total)/(1<<30), m.Garbage>>20)
	}
	for _, c := range []struct {
		bytes int64
		want  int
	}{{0, 10}, {1 << 20, 10}, {600 << 20, 10}, {5 << 30, 5}, {20 << 30, 1}, {1 << 50, 1}} {
		if got := gcPercentOf(c.bytes); got != c.want {
			t.Errorf("%d bytes: %d percent", c.bytes, got)
		}
	}
}

// What a process that only coordinates may leave is enough for the messages of a small model and no
// more than anybody else's for a large one.
func TestGarbageOfACoordinator(t *testing.T) {
	for _, variant := range model.Variants() {
		c, err := model.Variant(variant)
		if err != nil {
			t.Fatal(err)
		}
		held := coordinatorBytes + 4*c.Parameters()
		garbage := held * int64(gcPercentOfCoordinator(c)) / 100
		if least, most := int64(sumGarbage-held/100), int64(garbageBytes); garbage < least || garbage > most {
			t.Errorf("%s: %d MiB of garbage beside %d MiB", variant, garbage>>20, held>>20)
		}
	}
}
