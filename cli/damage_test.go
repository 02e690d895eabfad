package cli

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"andrea/launch"
	"andrea/model"
	"andrea/vfs"
)

// here runs a command line in this process, on another file system or engine than the
// real ones where outside says so. Its paths are not relative to a place.
func (p place) here(o outside, args ...string) result {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	o.stderr = &stderr
	if o.stdout == nil {
		o.stdout = &stdout
	}
	if o.fs == nil {
		o.fs = vfs.OS
	}
	if o.engine.Open == nil && o.engineErr == nil {
		o.engine, o.engineErr = launch.CPU("", 1)
	}
	if o.signals == nil {
		o.signals = make(chan os.Signal, 2)
	}
	code := execute(context.Background(), o, args)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// trainHere is the arguments that train the tiny model on a prepared dataset.
func (p place) trainHere(data, run string, more ...string) []string {
	args := []string{"train", "--data", data, "--run", filepath.Join(p.dir, run), "--json"}
	return append(append(args, tiny[slices.Index(tiny, "--steps"):]...), more...)
}

// prepared makes the dataset of the place's text and returns its folder.
func (p place) prepared() string {
	p.t.Helper()
	p.text()
	return p.prepare("text", "tokens")
}

func (p place) prepare(text, out string) string {
	p.t.Helper()
	r := p.here(outside{}, "data", "prepare", "--text", filepath.Join(p.dir, text), "--tokenizer", "bytes", "--out", filepath.Join(p.dir, out))
	if r.code != 0 {
		p.t.Fatalf("preparing: exit %d\n%s", r.code, r.stderr)
	}
	files, err := filepath.Glob(filepath.Join(p.dir, out, "*", "dataset.json"))
	if err != nil || len(files) != 1 {
		p.t.Fatalf("datasets: %v, %v", files, err)
	}
	return filepath.Dir(files[0])
}

// stopping is an outside whose engine asks for a stop in its n-th microbatch.
func stopping(t *testing.T, n int) outside {
	t.Helper()
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	o := outside{engine: engine, signals: make(chan os.Signal)} // the engine goes on when it is taken
	o.engine.Open = watching(engine.Open, func(seen int) {
		if seen == n {
			o.signals <- syscall.SIGTERM
		}
	})
	return o
}

// watching calls before with the number of every microbatch, from 1.
func watching(open func(model.Config, int, int) (model.Engine, error), before func(int)) func(model.Config, int, int) (model.Engine, error) {
	return func(c model.Config, microbatch, slots int) (model.Engine, error) {
		engine, err := open(c, microbatch, slots)
		return &watched{Engine: engine, before: before}, err
	}
}

type watched struct {
	model.Engine
	before func(int)
	seen   int
}

func (w *watched) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	w.seen++
	w.before(w.seen)
	return w.Engine.Accumulate(slot, b)
}

// damages are what happens to a file. other is the file of the same name of another
// run or dataset.
var damages = []struct {
	name string
	do   func(path, other string) error
}{
	{"truncated", func(path, _ string) error { return edit(path, func(b []byte) []byte { return b[:len(b)*2/3] }) }},
	{"without its end", func(path, _ string) error { return edit(path, func(b []byte) []byte { return b[:max(0, len(b)-1)] }) }},
	{"emptied", func(path, _ string) error { return edit(path, func(b []byte) []byte { return nil }) }},
	{"flipped at the start", func(path, _ string) error { return flipBit(path, func(n int) int { return 0 }) }},
	{"flipped at a third", func(path, _ string) error { return flipBit(path, func(n int) int { return n / 3 }) }},
	{"flipped in the middle", func(path, _ string) error { return flipBit(path, func(n int) int { return n / 2 }) }},
	{"flipped at the end", func(path, _ string) error { return flipBit(path, func(n int) int { return n - 2 }) }},
	{"deleted", func(path, _ string) error { return os.Remove(path) }},
	{"swapped", func(path, other string) error {
		data, err := os.ReadFile(other)
		if err != nil {
			return err
		}
		return os.WriteFile(path, data, 0o644)
	}},
	{"a folder", func(path, _ string) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.MkdirAll(filepath.Join(path, "full"), 0o755)
	}},
	{"not readable", func(path, _ string) error { return os.Chmod(path, 0) }},
	{"read-only", func(path, _ string) error { return os.Chmod(path, 0o400) }},
}

// writable reports whether a file can be opened for writing.
func writable(path string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	return err == nil && f.Close() == nil
}

func edit(path string, change func([]byte) []byte) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, change(data), 0o644)
}

func flipBit(path string, at func(n int) int) error {
	return edit(path, func(b []byte) []byte {
		if i := at(len(b)); i >= 0 && i < len(b) {
			b[i] ^= 2
		}
		return b
	})
}

// below lists the files of a folder, relative to it.
func below(t *testing.T, root string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// Whatever happens to one file of a run or of its dataset, every command refuses,
// naming the file, or goes on in a way that gives the same bits; and none panics.
func TestDamagedFiles(t *testing.T) {
	p := newPlace(t)
	data := p.prepared()
	if r := p.here(outside{}, p.trainHere(data, "whole")...); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	want := p.sums("whole")
	if r := p.here(stopping(t, 101), p.trainHere(data, "broken")...); r.code != 143 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	other := newPlace(t)
	otherData := other.otherRun()
	d := &damaging{place: p, data: data, want: want, newest: p.newestCheckpoint("broken")}
	for _, in := range []struct{ what, root, other string }{
		{"run", filepath.Join(p.dir, "broken"), filepath.Join(other.dir, "broken")},
		{"dataset", data, otherData},
	} {
		for _, file := range below(t, in.root) {
			t.Run(in.what+"/"+file, func(t *testing.T) { d.damageFile(t, in.what, file, counterpart(t, filepath.Join(in.other, file))) })
		}
	}
}

// counterpart is the file of another run: of the same name, or the first beside it where names are times.
func counterpart(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	siblings, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(siblings) == 0 {
		t.Fatalf("%s: the other run has nothing like it: %v", path, err)
	}
	return filepath.Join(filepath.Dir(path), siblings[0].Name())
}

// otherRun trains another run on other text up to the same step as the broken one, and
// returns its dataset.
func (p place) otherRun() string {
	p.t.Helper()
	p.text()
	p.write("text/0.txt", strings.ToUpper(p.read("text/0.txt")))
	data := p.prepare("text", "tokens")
	if r := p.here(stopping(p.t, 101), p.trainHere(data, "broken", "--seed", "9")...); r.code != 143 {
		p.t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	return data
}

// everythingVariable is set where time is no matter: all cases are run, not the few that stand
// for them.
const everythingVariable = "ANDREA_TEST_EVERYTHING"

// sampled reports whether case n of many is run.
func sampled(n, of int) bool { return os.Getenv(everythingVariable) != "" || n%of == 0 }

// damaging is what all damages start from: a place with a stopped run and its dataset.
type damaging struct {
	place
	data   string
	want   string // sums of the undisturbed run
	newest int    // step of the run's newest checkpoint
	cases  int    // so far
}

func (d *damaging) damageFile(t *testing.T, what, file, other string) {
	for _, damage := range damages {
		d.cases++
		if !sampled(d.cases, 47) { // of 12 damages: another one in every fourth file
			continue
		}
		t.Run(damage.name, func(t *testing.T) {
			q := newPlace(t)
			copyTree(t, filepath.Join(d.dir, "broken"), filepath.Join(q.dir, "broken"))
			copyTree(t, d.data, filepath.Join(q.dir, "data"))
			root := map[string]string{"run": "broken", "dataset": "data"}[what]
			path := filepath.Join(q.dir, root, file)
			before := q.read(filepath.Join(root, file))
			if err := damage.do(path, other); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(path)
			intact := err == nil && string(after) == before
			if intact && writable(path) {
				t.Skip("the file is as it was: both runs have the same, or this user may read and write every file")
			}
			d.look(q, file)
			r := d.resume(q, file)
			if r.code == 0 && !intact {
				d.said(q, file, r)
			}
			if what == "dataset" && r.code == 0 && !intact {
				t.Errorf("resume takes a damaged dataset:\n%s", r.stderr)
			}
		})
	}
}

// look runs the commands that change nothing.
func (d *damaging) look(q place, file string) {
	q.t.Helper()
	run, data := filepath.Join(q.dir, "broken"), filepath.Join(q.dir, "data")
	before := contents(q.t, q.dir)
	for _, args := range [][]string{
		{"status", run}, {"logs", run}, {"checkpoints", "list", run}, {"checkpoints", "verify", run},
		{"data", "verify", data}, {"generate", "--run", run, "--tokens", "3"},
	} {
		r := q.here(outside{}, args...)
		if r.code != 0 && (r.code > 2 || !strings.Contains(r.stderr, filepath.Base(file))) {
			q.t.Errorf("%s: exit %d, %s is not named:\n%s", strings.Join(args[:2], " "), r.code, filepath.Base(file), r.stderr)
		}
	}
	if contents(q.t, q.dir) != before {
		q.t.Errorf("a command that only looks has changed something")
	}
}

// contents is all that lies in a folder.
func contents(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	for _, file := range below(t, root) {
		data, err := os.ReadFile(filepath.Join(root, file))
		fmt.Fprintf(&b, "%s %q %v\n", file, data, err)
	}
	return b.String()
}

// resume goes on with the damaged run.
func (d *damaging) resume(q place, file string) result {
	q.t.Helper()
	r := q.here(outside{}, "resume", filepath.Join(q.dir, "broken"), "--data", filepath.Join(q.dir, "data"))
	switch {
	case r.code == 2:
		if !strings.Contains(r.stderr, filepath.Base(file)) {
			q.t.Errorf("resume refuses without naming %s:\n%s", file, r.stderr)
		}
	case r.code != 0:
		q.t.Errorf("resume: exit %d\n%s", r.code, r.stderr)
	default:
		if got := q.sums("broken"); got != d.want {
			q.t.Errorf("resume ended in other bits:\n%s\n%s\nwant\n%s", r.stderr, got, d.want)
		}
	}
	return r
}

// said checks that a checkpoint that could not be used was named.
func (d *damaging) said(q place, file string, r result) {
	q.t.Helper()
	inNewest := strings.Contains(file, fmt.Sprintf("step-%08d", d.newest))
	if passed := strings.Contains(r.stderr, fmt.Sprintf("step %d is passed over", d.newest)); inNewest && !passed {
		q.t.Errorf("%s is damaged, and the checkpoint was not passed over:\n%s", file, r.stderr)
	}
}

// A dataset as a whole is no other's, and a run that has lost its job is no place for a
// new one.
func TestMixedUpFolders(t *testing.T) {
	p := newPlace(t)
	data := p.prepared()
	if r := p.here(stopping(t, 101), p.trainHere(data, "broken")...); r.code != 143 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	other := newPlace(t)
	otherData := other.otherRun()
	before := contents(t, p.dir)
	refused := func(what string, r result, words ...string) {
		t.Helper()
		if r.code != 2 {
			t.Errorf("%s: exit %d\n%s", what, r.code, r.stderr)
		}
		for _, word := range words {
			if !strings.Contains(r.stderr, word) {
				t.Errorf("%s: %q is not named:\n%s", what, word, r.stderr)
			}
		}
		if contents(t, p.dir) != before {
			t.Errorf("%s: something has changed", what)
		}
	}
	run := filepath.Join(p.dir, "broken")
	refused("another dataset", p.here(outside{}, "resume", run, "--data", otherData), otherData, "fingerprint")
	if err := os.Remove(filepath.Join(run, "job.yaml")); err != nil {
		t.Fatal(err)
	}
	before = contents(t, p.dir)
	refused("no job", p.here(outside{}, "resume", run), run, "job.yaml")
	refused("a new run over one without a job", p.here(outside{}, p.trainHere(data, "broken")...), run, "job.yaml", "journal.jsonl")
	p.remove("broken/journal.jsonl")
	before = contents(t, p.dir)
	refused("a new run over checkpoints", p.here(outside{}, p.trainHere(data, "broken")...), run, "job.yaml", "checkpoints")
}

// Before the first checkpoint the job alone says what is trained: one that was changed
// is refused.
func TestAChangedJobBeforeTheFirstCheckpoint(t *testing.T) {
	p := newPlace(t)
	p.text()
	if r := p.run("kill-engine:50", tiny...); !r.killed {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	p.remove("runs/demo/checkpoints")
	job := p.read("runs/demo/job.yaml")
	p.write("runs/demo/job.yaml", strings.Replace(job, "steps: 20", "steps: 22", 1))
	if r := p.run("", "resume", "demo"); r.code != 2 || !strings.Contains(r.stderr, "job.yaml") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
	p.write("runs/demo/job.yaml", job)
	p.write("runs/demo/generations/9000000000", "") // a crash between two writes
	if r := p.run("", "resume", "demo"); r.code != 0 {
		t.Errorf("the former job: exit %d\n%s", r.code, r.stderr)
	}
}
