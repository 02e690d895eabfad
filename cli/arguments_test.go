package cli

import (
	"bytes"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/model"
	"andrea/vfs"
)

// A message names what is wrong, and what to type in its place.
func TestMessagesNameWhatIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	o := outside{fs: vfs.OS, engine: launch.Engine{Class: model.EngineClass("cpu", model.FP32)}}
	for _, c := range []struct {
		args []string
		want string
		not  string
	}{
		{[]string{"resume"}, "'andrea resume' needs RUN: for example: andrea resume runs/demo\n", "arg(s)"},
		{[]string{"replay"}, "'andrea replay' needs RUN: for example: andrea replay runs/demo --from 41\n", "arg(s)"},
		{[]string{"checkpoints", "verify"}, "needs RUN|CHECKPOINT: for example: andrea checkpoints verify runs/demo", "arg(s)"},
		{[]string{"model", "describe"}, "needs VARIANT: for example: andrea model describe 120m", "arg(s)"},
		{[]string{"k8s", "stop"}, "needs RUN: for example: andrea k8s stop run7", "arg(s)"},
		{[]string{"resume", "a", "b"}, `'andrea resume' takes one argument, not "b" too`, "arg(s)"},
		{[]string{"status", "a", "b"}, `'andrea status' takes one argument, not "b" too`, "arg(s)"},
		{[]string{"train", "books"}, `'andrea train' takes flags alone, not "books": for example: andrea train --variant 12m --text`, "unknown command"},
		{[]string{"status", ""}, "the argument of 'andrea status' is empty", "server"},
		{[]string{"logs", ""}, "the argument of 'andrea logs' is empty", "server"},
		{[]string{"resume", ""}, "the argument of 'andrea resume' is empty", "looking"},
		{[]string{"generate", "--run", "demo", "--checkpoint", "x"}, "both --run and --checkpoint are given: give one of them", "give --run"},
		{[]string{"generate"}, "which model is to write", "both"},
		{[]string{"train", "--steps", "99999999999999999999"}, `setting steps: "9999999..." is not a whole number`, "strconv"},
		{[]string{"train", "--workers", "99999999999999999999"}, `"--workers" flag: the number is too large`, "strconv"},
		{[]string{"train", "--workers", "two"}, `"--workers" flag: it is no number of its kind`, "strconv"},
		{[]string{"train", "--set", "optimizer.lr=abc"}, `setting optimizer.lr: "abc" is not a number`, "line"},
		{[]string{"logs", "--level", "foo", "demo"}, "choose one of debug, info, warn, error\n", "panic"},
		{[]string{"coordinator", "--run", "runs/nope"}, "there is no run at runs/nope to go on with: name one that exists, or begin one with --job and --data", "nothing to train"},
		{[]string{"coordinator", "--run", "runs/nope", "--set", "steps=3"}, "there is nothing to train on", "no run"},
		{[]string{"status", "--nats", "http://127.0.0.1:4933"}, `its scheme is "http": write nats://`, "user and password"},
		{[]string{"train", "--text", "x", "--device", "-1"}, "--device is -1: GPUs count from 0", ""},
		{[]string{"train", "--text", "x", "--device", "7"}, "--device is 7: it chooses a GPU, and this process computes on the processors", ""},
		{[]string{"worker", "--creds", "x", "--device", "7"}, "--device is 7", ""},
		{[]string{"worker", "--creds", "x", "--grace", "-5s"}, "--grace is -5s: must not be negative", ""},
		{[]string{"k8s", "wait", "run7", "--timeout", "-5s"}, "--timeout is -5s: must not be negative", ""},
	} {
		var stdout, stderr bytes.Buffer
		o.stdout, o.stderr = &stdout, &stderr
		code := execute(t.Context(), o, c.args)
		if code != exitBadInput || !strings.Contains(stderr.String(), c.want) || c.not != "" && strings.Contains(stderr.String(), c.not) {
			t.Errorf("%q: exit %d, want %q and not %q:\n%s", c.args, code, c.want, c.not, stderr.String())
		}
	}
}

func TestCountedWorkers(t *testing.T) {
	for n, want := range map[int]string{1: "1 worker is to join", 2: "2 workers are to join"} {
		if got := toJoin(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
