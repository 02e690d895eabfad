package prepare

import (
	"context"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"

	"andrea/dataset"
	"andrea/dataset/arrowfile"
	"andrea/dataset/textdir"
	"andrea/tokenizer"
	"andrea/vfs"
)

var words = strings.Fields("the state of a worker is what it holds when a step ends and the coordinator says so " +
	"return error function package import window lane lease bucket digest contribution")

// writeText makes n documents of invented text below dir.
func writeText(t *testing.T, dir string, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		var b strings.Builder
		for range 20 + rng.IntN(300) {
			b.WriteString(words[rng.IntN(len(words))] + " ")
		}
		path := filepath.Join(dir, fmt.Sprintf("folder%d", i%3), fmt.Sprintf("doc%02d.txt", i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(b.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func options(t *testing.T) Options {
	t.Helper()
	text := filepath.Join(t.TempDir(), "My Text")
	writeText(t, text, 40)
	spec, err := tokenizer.ParseSpec("harris:40")
	if err != nil {
		t.Fatal(err)
	}
	return Options{FS: vfs.OS, Paths: []string{text}, Tokenizer: spec, Out: filepath.Join(t.TempDir(), "tokens")}
}

func prepared(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Text(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// content returns every file below dir with its bytes, but for empty locks.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if name, _ := filepath.Rel(dir, path); len(data) > 0 || filepath.Ext(name) != ".lock" {
			files[name] = string(data)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

// Goal: the tokens are the text, the whole text and nothing else. Method: decode the dataset and compare
// with the files, in the order that textdir gives.
func TestTokensAreTheText(t *testing.T) {
	for _, name := range []string{"harris:40", "bytes"} {
		o := options(t)
		spec, err := tokenizer.ParseSpec(name)
		if err != nil {
			t.Fatal(err)
		}
		o.Tokenizer = spec
		r := prepared(t, o)
		if r.Reused || r.Tokenizer.Spec() != spec || r.Info.Vocab != spec.Vocab() || r.Info.Tokenizer != r.Tokenizer.Identity() || r.Info.Documents != 40 {
			t.Errorf("%s: result %+v", name, r)
		}
		set, err := arrowfile.Open(vfs.OS, r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		if err := set.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		stream := make([]uint32, r.Info.Tokens)
		if err := set.Read(stream, 0); err != nil {
			t.Fatal(err)
		}
		documents, _, err := textdir.Walk(t.Context(), o.Paths)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []byte
		for _, id := range stream {
			if id == tokenizer.BOS {
				got = append(got, "|BOS|"...)
			} else if got, err = r.Tokenizer.Decode(got, []uint32{id}); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range textdir.Shuffled(documents) {
			text, err := d.Read()
			if err != nil {
				t.Fatal(err)
			}
			want = append(append(want, "|BOS|"...), text...)
		}
		if string(got) != string(want) {
			t.Errorf("%s: the tokens are %d bytes of text, the files %d, and they differ", name, len(got), len(want))
		}
		if r.TextBytes != int64(len(want)-40*len("|BOS|")) {
			t.Errorf("%s: %d bytes of text, want %d", name, r.TextBytes, len(want)-40*len("|BOS|"))
		}
	}
}

func TestSameTextSameBytes(t *testing.T) {
	o := options(t)
	first := prepared(t, o)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	o.Out = t.TempDir()
	o.Paths = []string{filepath.Join(o.Paths[0], "folder0", "..")}
	second := prepared(t, o)
	if second.Reused || filepath.Base(first.Dir) != filepath.Base(second.Dir) || !strings.HasPrefix(filepath.Base(first.Dir), "my-text-") {
		t.Errorf("folders %s and %s", first.Dir, second.Dir)
	}
	a, b := content(t, first.Dir), content(t, second.Dir)
	if len(a) < 3 || len(a) != len(b) {
		t.Errorf("%d and %d files", len(a), len(b))
	}
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s differs", name)
		}
	}
}

func TestReuse(t *testing.T) {
	o := options(t)
	first := prepared(t, o)
	before := content(t, o.Out)
	var phases []string
	o.Progress = func(phase string, _, _ int64) { phases = append(phases, phase) }
	second := prepared(t, o)
	if !second.Reused || second.Dir != first.Dir || second.Info.Fingerprint != first.Info.Fingerprint ||
		second.Tokenizer.Identity() != first.Tokenizer.Identity() || second.TextBytes != first.TextBytes {
		t.Errorf("second: %+v, first: %+v", second, first)
	}
	if !slices.Equal(phases, []string{PhaseRead, PhaseVerify, PhaseVerify}) {
		t.Errorf("phases %v", phases)
	}
	if after := content(t, o.Out); len(after) != len(before) {
		t.Errorf("%d files, before %d", len(after), len(before))
	}
}

// Who finds, with its tokenizer learnt, that another process has made the same dataset meanwhile uses
// that one.
func TestTheFirstOfTwoMakesTheDataset(t *testing.T) {
	o := options(t)
	first := o
	var made Result
	o.Progress = func(phase string, _, _ int64) {
		if phase == PhaseLearn && made.Dir == "" {
			made = prepared(t, first)
		}
	}
	second := prepared(t, o)
	if made.Reused || !second.Reused || second.Dir != made.Dir || second.Info.Fingerprint != made.Info.Fingerprint {
		t.Errorf("second: %+v, first: %+v", second, made)
	}
}

// While another process writes the dataset, the others wait for it, or until they are interrupted.
func TestADatasetBeingWrittenIsAwaited(t *testing.T) {
	o := options(t)
	source := prepared(t, o).Dir
	if err := os.RemoveAll(source); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	for _, end := range []struct {
		name string
		do   func(lock vfs.File)
		want error
	}{
		{"interrupted", func(vfs.File) { interrupt() }, context.Canceled},
		{"the other has given up", func(lock vfs.File) { lock.Close() }, nil},
	} {
		lock, err := vfs.OS.Lock(source + ".lock")
		if err != nil {
			t.Fatal(err)
		}
		waited := 0
		o.Progress = func(phase string, _, _ int64) {
			if phase != PhaseAwait {
				return
			}
			if waited++; waited == 2 {
				end.do(lock)
			}
		}
		r, err := Text(ctx, o)
		ctx = t.Context()
		lock.Close()
		if !errors.Is(err, end.want) || waited < 2 || r.Reused {
			t.Errorf("%s: waited %d times, %+v, %v; want %v", end.name, waited, r, err, end.want)
		}
	}
}

// The order of the paths decides nothing, the name included.
func TestOrderOfPathsDoesNotMatter(t *testing.T) {
	o := options(t)
	o.Paths = []string{filepath.Join(o.Paths[0], "folder1"), filepath.Join(o.Paths[0], "folder0"), filepath.Join(o.Paths[0], "folder2")}
	first := prepared(t, o)
	slices.Sort(o.Paths)
	if second := prepared(t, o); !second.Reused || second.Dir != first.Dir || !strings.HasPrefix(filepath.Base(first.Dir), "folder0-") {
		t.Errorf("prepared in %s, then in %s", first.Dir, second.Dir)
	}
}

// An empty folder at the dataset's place is no damaged dataset.
func TestEmptyFolderIsFilled(t *testing.T) {
	o := options(t)
	first := prepared(t, o)
	if err := errors.Join(os.RemoveAll(first.Dir), os.Mkdir(first.Dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if second := prepared(t, o); second.Reused || second.Dir != first.Dir || second.Info.Fingerprint != first.Info.Fingerprint {
		t.Errorf("second: %+v, first: %+v", second, first)
	}
}

// The tokenizer and the dataset mean the same id.
func TestOneBOS(t *testing.T) {
	if tokenizer.BOS != dataset.BOS {
		t.Errorf("BOS is %d and %d", tokenizer.BOS, dataset.BOS)
	}
}

// What a tokenizer learns depends on the tables of Unicode, so a program with others prepares anew. What
// it does, once given, does not.
func TestRecipeNamesTheTablesOfUnicode(t *testing.T) {
	o := options(t)
	if recipe := o.recipe(nil); !strings.HasSuffix(recipe, "Unicode "+unicode.Version) {
		t.Error(recipe)
	}
	if recipe := o.recipe(tokenizer.Bytes()); strings.Contains(recipe, "Unicode") {
		t.Error(recipe)
	}
}

// Whatever decides the tokens makes another dataset.
func TestOtherInputsAreAnotherDataset(t *testing.T) {
	o := options(t)
	file := prepared(t, o).Tokenizer.Marshal()
	dirs := map[string]string{}
	for name, change := range map[string]func(*Options){
		"as it was":      func(*Options) {},
		"seed":           func(o *Options) { o.Seed = 9 },
		"sample":         func(o *Options) { o.SampleBytes = 30_000 },
		"segments":       func(o *Options) { o.Tokenizer.Segments = 41 },
		"bytes":          func(o *Options) { o.Tokenizer.Segments = 0 },
		"tokenizer file": func(o *Options) { o.TokenizerFile = file },
		"one path less":  func(o *Options) { o.Paths = []string{filepath.Join(o.Paths[0], "folder1")} },
	} {
		changed := o
		change(&changed)
		r := prepared(t, changed)
		if r.Reused != (name == "as it was") {
			t.Errorf("%s: reused %v", name, r.Reused)
		}
		if other, taken := dirs[r.Dir]; taken {
			t.Errorf("%s and %s are both %s", name, other, r.Dir)
		}
		dirs[r.Dir] = name
	}
	if err := os.WriteFile(filepath.Join(o.Paths[0], "more"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := prepared(t, o); r.Reused {
		t.Error("one more document, and the old tokens are used")
	}
}

func TestGivenTokenizerIsUsed(t *testing.T) {
	o := options(t)
	learnt := prepared(t, o)
	o.TokenizerFile, o.Tokenizer = learnt.Tokenizer.Marshal(), tokenizer.Spec{}
	o.Progress = func(phase string, _, _ int64) {
		if phase == PhaseLearn {
			t.Error("a tokenizer is learnt")
		}
	}
	if r := prepared(t, o); r.Tokenizer.Identity() != learnt.Tokenizer.Identity() || r.Info.Tokens != learnt.Info.Tokens {
		t.Errorf("%+v, want the tokens of %+v", r, learnt)
	}
	o.TokenizerFile = []byte("{")
	if _, err := Text(t.Context(), o); err == nil {
		t.Error("a broken tokenizer file is accepted")
	}
}

// Damage of any file is found before the tokens are used, and nothing is repaired behind anybody's back.
func TestDamagedDatasetIsRefused(t *testing.T) {
	o := options(t)
	r := prepared(t, o)
	for name := range content(t, r.Dir) {
		path := filepath.Join(r.Dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := slices.Clone(whole)
		damaged[len(damaged)/2] ^= 1
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = Text(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), r.Dir) || !strings.Contains(err.Error(), "remove this folder") {
			t.Errorf("%s damaged: error %v", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(damaged) {
			t.Errorf("%s was changed", name)
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := prepared(t, o); !r.Reused {
		t.Error("the restored dataset is not used again")
	}
}

// Goal: whenever preparing ends early, nothing is left. Method: cancel, or change a file, at the n-th
// sign of progress, for n = 1, 2, ... until it comes to its end undisturbed.
func TestEarlyEndLeavesNothing(t *testing.T) {
	for what, first := range map[string]int{"cancel": 1, "change": 2} { // what changes before it is read is no error
		for n := first; ; n += 3 {
			o := options(t)
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			o.Progress = func(phase string, _, _ int64) {
				if calls++; calls != n {
					return
				}
				if what == "cancel" {
					cancel()
				} else if err := os.WriteFile(filepath.Join(o.Paths[0], "folder2", "doc02.txt"), []byte("changed"), 0o644); err != nil {
					t.Error(err)
				}
			}
			_, err := Text(ctx, o)
			cancel()
			if err == nil {
				if n < first+9 {
					t.Errorf("%s at sign %d of %d: no error", what, n, calls)
				}
				break
			}
			if left := content(t, o.Out); len(left) > 0 {
				t.Fatalf("%s at %d: error %v, but these are left: %d files", what, n, err, len(left))
			}
			if what == "cancel" && !errors.Is(err, context.Canceled) || what == "change" && !strings.Contains(err.Error(), "doc02.txt") {
				t.Errorf("%s at %d: error %v", what, n, err)
			}
		}
	}
}

func TestWrongInputs(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"no path":         func(o *Options) { o.Paths = nil },
		"nowhere":         func(o *Options) { o.Paths = []string{"nowhere"} },
		"too small":       func(o *Options) { o.Tokenizer.Segments = 5000 },
		"-1 segments":     func(o *Options) { o.Tokenizer.Segments = -1 },
		"sample of -5":    func(o *Options) { o.SampleBytes = -5 },
		"not a directory": func(o *Options) { o.Out = filepath.Join(o.Paths[0], "folder0", "doc00.txt") },
	} {
		o := options(t)
		out := o.Out
		change(&o)
		_, err := Text(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
		if left := content(t, out); len(left) > 0 {
			t.Errorf("%s: %d files are left", want, len(left))
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"src": "src", "My Text.2": "my-text-2", "--a--": "a", "": "text", "/": "text", "日本": "text", "..": "text",
		strings.Repeat("x", 39) + " y": strings.Repeat("x", 39), strings.Repeat("z", 50): strings.Repeat("z", 40),
	} {
		if got := cleanName(name); got != want {
			t.Errorf("cleanName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestLearntPercentNeverFallsOrPasses(t *testing.T) {
	for _, n := range []int{1, 3, 40, 2048} {
		last := int64(0)
		at := func(stage tokenizer.Stage, segments int) {
			p := learnt(tokenizer.Progress{Stage: stage, Segments: segments}, n)
			if p < last || p > 100 {
				t.Errorf("%d segments: %s with %d is %d%% after %d%%", n, stage, segments, p, last)
			}
			last = p
		}
		at(tokenizer.StageCandidates, 0)
		for s := 0; s <= n+n/4+1; s++ {
			at(tokenizer.StageGrow, s)
		}
		for s := n + n/4 + 1; s >= n; s-- {
			at(tokenizer.StagePrune, s)
		}
		if last != 100 && n >= 4 {
			t.Errorf("%d segments: ends at %d%%", n, last)
		}
	}
}

// Documents come to write in their order, whatever their sizes, also one that is larger than all that
// may be in memory at once together.
func TestEncodeKeepsTheOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	dir := t.TempDir()
	var want []string
	for i, size := range []int{1, 1 << 20, 3 << 20, 5, 17 << 20, 7, 2 << 20, 1, 1, 1 << 21} {
		name := fmt.Sprintf("%02d", i)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("a", size)), 0o644); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprint(name, " ", size+1))
	}
	documents, _, err := textdir.Walk(t.Context(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	write := func(d textdir.Document, ids []uint32) error {
		got = append(got, fmt.Sprint(d.Name, " ", len(ids)))
		return nil
	}
	if err := encode(t.Context(), tokenizer.Bytes(), documents, write); err != nil || !slices.Equal(got, want) {
		t.Errorf("wrote %v, want %v: %v", got, want, err)
	}
	full := errors.New("the disk is full")
	if err := encode(t.Context(), tokenizer.Bytes(), documents, func(textdir.Document, []uint32) error { return full }); err != full {
		t.Errorf("error %v, want that of write", err)
	}
}

// A document counts with its ids, which take far more memory than its text, and they are put where they
// fit at once.
func TestMemoryOfADocument(t *testing.T) {
	const size = 1 << 20
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("a", size)), 0o644); err != nil {
		t.Fatal(err)
	}
	documents, _, err := textdir.Walk(t.Context(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	got := job{document: documents[0]}.encode(t.Context(), tokenizer.Bytes())
	if got.err != nil || len(got.ids) != 1+size || cap(got.ids) > size+size/16 {
		t.Errorf("%d ids in a slice of %d: %v", len(got.ids), cap(got.ids), got.err)
	}
	learnt, err := tokenizer.Parse([]byte(`["aa"]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		tokenizer *tokenizer.Tokenizer
		bytes     int64
		want      int
	}{
		{tokenizer.Bytes(), 1, 1}, {tokenizer.Bytes(), 1 << 20, 2}, {tokenizer.Bytes(), 64 << 20, 81},
		{learnt, 1, 1}, {learnt, 1 << 20, 1}, {learnt, 64 << 20, 49},
	} {
		if got := unitsOf(test.tokenizer, test.bytes); got != test.want {
			t.Errorf("%s: %d bytes count %d units, want %d", test.tokenizer.Spec(), test.bytes, got, test.want)
		}
	}
}

// BenchmarkGoSource prepares Go's own source tree, the text of the main job.
func BenchmarkGoSource(b *testing.B) {
	root := filepath.Join(build.Default.GOROOT, "src")
	spec, err := tokenizer.ParseSpec("harris:2048")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(root); err != nil {
		b.Skip("there is no Go source tree: ", err)
	}
	for b.Loop() {
		r, err := Text(b.Context(), Options{FS: vfs.OS, Paths: []string{root}, Tokenizer: spec, Out: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(r.TextBytes)
	}
}
