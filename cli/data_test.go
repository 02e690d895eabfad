package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"andrea/vfs"
)

// decode reads the one JSON object that a command printed.
func decode[T any](t *testing.T, r result) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || d.More() {
		t.Fatalf("exit %d: standard output is not one JSON object as expected: %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	return v
}

// datasetResult is what 'data prepare' and 'data verify' print as JSON.
type datasetResult struct {
	datasetFacts
	Reused    bool   `json:"reused"`
	TextBytes int64  `json:"text_bytes"`
	Skipped   string `json:"skipped"`
	Intact    bool   `json:"intact"`
	Fault     string `json:"fault"`
}

func TestDataPrepare(t *testing.T) {
	p := newPlace(t)
	p.text()
	p.write("text/.hidden", "not taken")
	first := decode[datasetResult](t, p.run("", "data", "prepare", "--text", "text", "--tokenizer", "harris:20", "--json"))
	if first.Reused || first.Documents != 8 || first.Vocab != 277 || first.Shards != 1 || first.Tokens < 1000 ||
		first.TextBytes < int64(first.Tokens) || first.Skipped != "1 hidden" || !strings.HasPrefix(first.Dir, "tokens/text-") {
		t.Errorf("the result is %+v", first)
	}
	again := p.run("", "data", "prepare", "--tokenizer", "harris:20", "--text", "text")
	if again.code != 0 || !strings.Contains(again.stdout, "was there already") || !strings.Contains(again.stdout, first.Fingerprint) ||
		!strings.Contains(again.stdout, "train --data "+first.Dir) {
		t.Errorf("the second time: exit %d\n%s%s", again.code, again.stdout, again.stderr)
	}
	p.write("other/1.txt", p.read("text/0.txt")[:500])
	other := decode[datasetResult](t, p.run("", "data", "prepare", "--json", "--out", "out", "--text", "other", "--tokenizer", first.Dir+"/tokenizer.json"))
	if other.Tokenizer != first.Tokenizer || other.Fingerprint == first.Fingerprint || !strings.HasPrefix(other.Dir, "out/other-") {
		t.Errorf("with the tokenizer of the first dataset: %+v", other)
	}
	both := decode[datasetResult](t, p.run("", "data", "prepare", "--json", "--text", "text", "other", "--tokenizer", "bytes"))
	if both.Documents != 9 || both.Vocab != 257 {
		t.Errorf("two folders: %+v", both)
	}
}

func TestDataPrepareRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", []string{}, "give --text"},
		{"no such text", []string{"--text", "nowhere"}, "nowhere"},
		{"unknown tokenizer", []string{"--text", "text", "--tokenizer", "words"}, `"words"`},
		{"no tokenizer file", []string{"--text", "text", "--tokenizer", "text/0.txt"}, "text/0.txt"},
		{"a folder as tokenizer", []string{"--text", "text", "--tokenizer", "text"}, "text"},
		{"too little text", []string{"--text", "text", "--tokenizer", "harris:60000"}, "use more text"},
		{"unknown flag", []string{"--texts", "text"}, "--texts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.text()
			r := p.run("", append([]string{"data", "prepare"}, c.args...)...)
			if r.code != 2 || !strings.Contains(r.stderr, c.want) || r.stdout != "" {
				t.Errorf("exit %d, want 2 and %q\n%s%s", r.code, c.want, r.stdout, r.stderr)
			}
			if _, err := os.Stat(filepath.Join(p.dir, "tokens")); err == nil {
				t.Error("something was written")
			}
		})
	}
}

func TestDataVerify(t *testing.T) {
	p := newPlace(t)
	p.text()
	made := decode[datasetResult](t, p.run("", "data", "prepare", "--text", "text", "--tokenizer", "bytes", "--json"))
	r := decode[datasetResult](t, p.run("", "data", "verify", made.Dir, "--json"))
	if !r.Intact || r.datasetFacts != made.datasetFacts {
		t.Errorf("verified: %+v, made: %+v", r, made)
	}
	if r := p.run("", "data", "verify", made.Dir); r.code != 0 || !strings.Contains(r.stdout, made.Fingerprint) {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, name := range []string{"dataset.json", "tokenizer.json", "shard-00000.arrow"} {
		whole := p.read(filepath.Join(made.Dir, name))
		path := filepath.Join(p.dir, made.Dir, name)
		for damage, do := range map[string]func() error{
			"truncated": func() error { return os.WriteFile(path, []byte(whole[:len(whole)/2]), 0o644) },
			"emptied":   func() error { return os.WriteFile(path, nil, 0o644) },
			"flipped":   func() error { return os.WriteFile(path, []byte(flip(whole, len(whole)/4)), 0o644) },
			"deleted":   func() error { return os.Remove(path) },
			"a folder":  func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
			r := p.run("", "data", "verify", made.Dir, "--json")
			if r.code != 2 || !strings.Contains(r.stderr, name) {
				t.Errorf("%s %s: exit %d, want 2 and the file's name\n%s", name, damage, r.code, r.stderr)
			}
			if v := decode[datasetResult](t, r); v.Intact || !strings.Contains(v.Fault, name) {
				t.Errorf("%s %s: %+v", name, damage, v)
			}
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(whole), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := p.run("", "data", "verify", made.Dir); r.code != 0 {
		t.Errorf("mended: exit %d\n%s", r.code, r.stderr)
	}
}

// flip changes a bit of the byte at a place.
func flip(s string, at int) string {
	b := []byte(s)
	b[at] ^= 4
	return string(b)
}

func TestGroups(t *testing.T) {
	p := newPlace(t)
	for _, group := range []string{"data", "checkpoints", "model"} {
		if r := p.run("", group); r.code != 0 || !strings.Contains(r.stdout, "Available Commands") {
			t.Errorf("%s: exit %d\n%s%s", group, r.code, r.stdout, r.stderr)
		}
		if r := p.run("", group, "vefiry"); r.code != 2 || !strings.Contains(r.stderr, "vefiry") {
			t.Errorf("%s vefiry: exit %d\n%s", group, r.code, r.stderr)
		}
	}
}

func TestReadingEndsWithItsContext(t *testing.T) {
	p := newPlace(t)
	p.write("file", "0123456789")
	ctx, cancel := context.WithCancel(context.Background())
	var done int64
	r := &reading{FS: vfs.OS, ctx: ctx, progress: func(d int64) { done = d }}
	path := filepath.Join(p.dir, "file")
	f, err := r.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 4)
	if n, err := f.ReadAt(buf, 3); n != 4 || err != nil || string(buf) != "3456" {
		t.Errorf("read %d bytes %q, %v", n, buf, err)
	}
	if n, err := f.Read(buf); n != 4 || err != nil || done != 8 {
		t.Errorf("read %d bytes, %v; %d in all", n, err, done)
	}
	cancel()
	_, atErr := f.ReadAt(buf, 0)
	_, readErr := f.Read(buf)
	_, openErr := r.Open(path)
	for _, err := range []error{atErr, readErr, openErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func TestInterruptedWorkHasTheSignalsCode(t *testing.T) {
	fault := errors.New("a fault")
	for _, c := range []struct {
		signal os.Signal
		want   int
	}{{os.Interrupt, 130}, {syscall.SIGTERM, 143}} {
		g := &guard{cancel: func() {}, first: c.signal}
		var coded exitError
		if err := interrupted(g, fault, "nothing was done"); !errors.As(err, &coded) || coded.code != c.want || errors.Is(err, fault) {
			t.Errorf("%v: %v", c.signal, err)
		}
		if err := interrupted(g, nil, ""); err != nil {
			t.Errorf("finished all the same: %v", err)
		}
	}
	if err := interrupted(&guard{}, fault, ""); err != fault {
		t.Errorf("without a signal: %v", err)
	}
	if code := inputOrDisk(&os.PathError{Err: syscall.ENOSPC}).(exitError).code; code != exitFailed {
		t.Errorf("a full disk has exit code %d", code)
	}
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		json bool
		want string
	}{{false, "<a\uFFFD[2J>\tb\n"}, {true, "{\"a\":\"<\\u001b>\"}\n"}} {
		var out strings.Builder
		err := outside{stdout: &out}.report(c.json, map[string]string{"a": "<\x1b>"}, "<a\x1b[2J>\tb\n")
		if err != nil || out.String() != c.want {
			t.Errorf("reported %q, want %q (%v)", out.String(), c.want, err)
		}
		var coded exitError
		if err := (outside{stdout: failing{}}).report(c.json, 1, "a"); !errors.As(err, &coded) || coded.code != exitFailed {
			t.Errorf("to an output that fails: %v", err)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 28311552: "28,311,552", -1234: "-1,234", -123: "-123"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %s, want %s", n, got, want)
		}
	}
}
