package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"andrea/checkpoints"
)

// trainedOnce is the folder with the finished tiny run of the seed 1 or 2. It lies
// beside the program, which is deleted after the tests.
var trainedOnce = [...]func(*testing.T) string{trainOnce(1), trainOnce(2)}

func trainOnce(seed int) func(*testing.T) string {
	var once sync.Once
	dir := ""
	return func(t *testing.T) string {
		once.Do(func() {
			p := place{t, filepath.Join(filepath.Dir(binary), fmt.Sprintf("trained-%d", seed))}
			p.text()
			if r := p.run("", append(append([]string{}, tiny...), "--seed", fmt.Sprint(seed))...); r.code != 0 {
				t.Fatalf("exit %d\n%s", r.code, r.stderr)
			}
			dir = p.dir
		})
		if dir == "" {
			t.Fatal("the tiny run failed in another test")
		}
		return dir
	}
}

// trained is a place with a finished tiny run of that seed, 1 or 2, in runs/demo.
func trained(t *testing.T, seed int) place {
	t.Helper()
	return copied(t, place{t, trainedOnce[seed-1](t)})
}

// copied is a place with a copy of all that lies in another.
func copied(t *testing.T, from place) place {
	t.Helper()
	p := newPlace(t)
	if err := os.CopyFS(p.dir, os.DirFS(from.dir)); err != nil {
		t.Fatal(err)
	}
	return p
}

const newest = "runs/demo/checkpoints/step-00000020"

func TestCheckpointsOfAnIntactRun(t *testing.T) {
	p := trained(t, 1)
	list := decode[audited](t, p.run("", "checkpoints", "list", "demo", "--json"))
	if len(list.Faults) != 0 || len(list.Checkpoints) != 3 {
		t.Fatalf("listed: %+v", list)
	}
	for i, c := range list.Checkpoints {
		if c.Step != 10+5*i || c.Loss == nil || (c.ValLoss != nil) != (c.Step%10 == 0) || c.Verified || c.Fault != "" ||
			c.Bytes < 100_000 || len(c.StateDigest) != 32 || filepath.Base(c.Dir) != checkpoints.StepFolder(c.Step) {
			t.Errorf("listed: %+v", c)
		}
		weights := p.read(filepath.Join("runs/demo/checkpoints", checkpoints.StepFolder(c.Step), checkpoints.ModelFile))
		if want := checkpoints.SHA256Hex([]byte(weights)); c.Weights != want {
			t.Errorf("step %d: weights %s, the file has %s", c.Step, c.Weights, want)
		}
	}
	if r := p.run("", "checkpoints", "list", "runs/demo"); r.code != 0 || !strings.Contains(r.stdout, "checkpoints verify runs/demo") ||
		!strings.Contains(r.stdout, list.Checkpoints[2].StateDigest[:12]) {
		t.Errorf("list: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for i, c := range decode[audited](t, p.run("", "checkpoints", "verify", "runs/demo", "--json")).Checkpoints {
		if want := list.Checkpoints[i]; !c.Verified || c.Fault != "" || c.StateDigest != want.StateDigest || *c.Loss != *want.Loss {
			t.Errorf("verified: %+v, listed %+v", c, want)
		}
	}
	one := p.run("", "checkpoints", "verify", newest+"/")
	if one.code != 0 || strings.Count(one.stdout, "intact") != 1 || strings.Contains(one.stdout, "no run") {
		t.Errorf("one: exit %d\n%s%s", one.code, one.stdout, one.stderr)
	}
	if err := os.Rename(filepath.Join(p.dir, newest), filepath.Join(p.dir, "step-00000020")); err != nil {
		t.Fatal(err)
	}
	moved := p.run("", "checkpoints", "verify", "step-00000020")
	if moved.code != 0 || !strings.Contains(moved.stdout, "intact") || !strings.Contains(moved.stdout, "no run") {
		t.Errorf("outside a run: exit %d\n%s%s", moved.code, moved.stdout, moved.stderr)
	}
}

// Whatever is damaged is named, and the exit code is 1. quick is what 'list' sees.
func TestCheckpointsVerifyFindsDamage(t *testing.T) {
	whole := trained(t, 1)
	other := trained(t, 2)
	edit := func(name string, f func(string) string) func(place) error {
		return func(p place) error { p.write(name, f(p.read(name))); return nil }
	}
	flipped := func(s string) string { return flip(s, len(s)/2) }
	short := func(s string) string { return s[:len(s)/2] }
	for _, c := range []struct {
		name   string
		damage func(p place) error
		want   []string
		quick  bool
	}{
		{"weights flipped", edit(newest+"/model.safetensors", flipped), []string{"step 20", "model.safetensors"}, false},
		{"moments short", edit(newest+"/optimizer.safetensors", short), []string{"step 20", "optimizer.safetensors"}, true},
		{"config flipped", edit(newest+"/config.json", flipped), []string{"step 20", "config.json"}, false},
		{"tokenizer empty", edit(newest+"/tokenizer.json", func(string) string { return "" }), []string{"step 20", "tokenizer.json"}, true},
		{"manifest flipped", edit(newest+"/manifest.json", flipped), []string{"step 20", "manifest.json"}, true},
		{"manifest deleted", func(p place) error { return os.Remove(filepath.Join(p.dir, newest, "manifest.json")) }, []string{"step 20", "manifest.json"}, true},
		{"a folder as weights", func(p place) error {
			path := filepath.Join(p.dir, newest, "model.safetensors")
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o755))
		}, []string{"step 20", "model.safetensors"}, true},
		{"renamed", func(p place) error {
			return os.Rename(filepath.Join(p.dir, newest), filepath.Join(p.dir, "runs/demo/checkpoints/step-00000019"))
		}, []string{"step 19", "step 20", "renamed"}, true},
		{"of another run", func(p place) error {
			path := filepath.Join(p.dir, newest)
			return errors.Join(os.RemoveAll(path), os.CopyFS(path, os.DirFS(filepath.Join(other.dir, newest))))
		}, []string{"step 20", "different runs", "journal.jsonl"}, true},
		{"another job", edit("runs/demo/job.yaml", func(s string) string { return strings.Replace(s, "weight_decay: 0.1", "weight_decay: 0.2", 1) }),
			[]string{"step 10", "step 20", "job.yaml"}, true},
		{"job broken", edit("runs/demo/job.yaml", func(string) string { return "steps: [" }), []string{"job.yaml"}, true},
		{"journal flipped", edit("runs/demo/journal.jsonl", flipped), []string{"journal.jsonl"}, true},
		{"journal short", edit("runs/demo/journal.jsonl", short), []string{"step 20", "journal.jsonl"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := copied(t, whole)
			if err := c.damage(p); err != nil {
				t.Fatal(err)
			}
			r := p.run("", "checkpoints", "verify", "demo", "--json")
			if r.code != 1 {
				t.Errorf("exit %d, want 1", r.code)
			}
			for _, want := range c.want {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("the message lacks %q:\n%s", want, r.stderr)
				}
			}
			if len(decode[audited](t, r).faults()) == 0 {
				t.Errorf("no fault in the JSON: %s", r.stdout)
			}
			list := p.run("", "checkpoints", "list", "demo", "--json")
			if faults := decode[audited](t, list).faults(); list.code != 0 || len(faults) > 0 != c.quick {
				t.Errorf("list: exit %d, faults %v, expected some: %v", list.code, faults, c.quick)
			}
		})
	}
}

func TestCheckpointsRefuses(t *testing.T) {
	p := newPlace(t)
	p.write("strange/manifest.json", "{}")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"list", "nowhere"}, "nowhere"},
		{[]string{"verify", "nowhere"}, "nowhere"},
		{[]string{"verify", "runs/demo/checkpoints/step-00000007"}, "step-00000007"},
		{[]string{"verify", "strange"}, "not named after a step"},
		{[]string{"verify"}, "needs "},
	} {
		if r := p.run("", append([]string{"checkpoints"}, c.args...)...); r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%v: exit %d, want 2 and %q\n%s", c.args, r.code, c.want, r.stderr)
		}
	}
}
