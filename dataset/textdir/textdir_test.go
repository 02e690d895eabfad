package textdir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree writes files (path to content) below a new folder and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func walk(t *testing.T, paths ...string) ([]Document, Skipped) {
	t.Helper()
	documents, skipped, err := Walk(t.Context(), paths)
	if err != nil {
		t.Fatal(err)
	}
	return documents, skipped
}

func names(documents []Document) string {
	var all []string
	for _, document := range documents {
		all = append(all, document.Name)
	}
	return strings.Join(all, " ")
}

func mustName(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted; want an error with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not contain %q", err, word)
		}
	}
}

func TestWalk(t *testing.T) {
	root := tree(t, map[string]string{
		"b.txt": "bee", "a/z.txt": "zed", "a/deep/er/x": "ex", "B": "big bee",
		".hidden": "no", ".git/config": "no", ".git/a/b": "no", "a/.keep": "no",
		"empty": "", "a/binary": "text\x00text",
		"late-nul": strings.Repeat("x", sniffBytes) + "\x00",
	})
	for link, target := range map[string]string{"link": "b.txt", "loop": ".", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Skipf("symbolic links cannot be made here: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "huge"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, "huge"), MaxDocumentBytes+1); err != nil {
		t.Fatal(err)
	}
	documents, skipped := walk(t, root)
	if got := names(documents); got != "B a/deep/er/x a/z.txt b.txt late-nul" {
		t.Errorf("found %s", got)
	}
	if want := (Skipped{Hidden: 3, Symlink: 3, Empty: 1, TooLarge: 1, Binary: 1}); skipped != want {
		t.Errorf("skipped %s, want %s", skipped, want)
	}
	if got := skipped.String(); got != "3 hidden, 3 symbolic links, 1 empty, 1 larger than 64 MiB, 1 binary" {
		t.Errorf("skipped: %s", got)
	}
	for _, document := range documents {
		content, err := document.Read()
		if err != nil {
			t.Fatal(err)
		}
		if document.Bytes != int64(len(content)) || document.SHA256 != sha256.Sum256(content) {
			t.Errorf("%s: %d bytes, %x", document.Name, document.Bytes, document.SHA256)
		}
	}
}

func TestWalkTakesWhatIsNamed(t *testing.T) {
	root := tree(t, map[string]string{".notes/one": "1", ".two": "2", "three": "3"})
	one, two, three := filepath.Join(root, ".notes"), filepath.Join(root, ".two"), filepath.Join(root, "three")
	documents, skipped := walk(t, three, one, two)
	if got := names(documents); got != ".two one three" || skipped != (Skipped{}) {
		t.Errorf("found %s, skipped %s", got, skipped)
	}
	again, _ := walk(t, two, three, one)
	if !slices.Equal(documents, again) {
		t.Error("the order of the paths matters")
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(one, link); err != nil {
		t.Skipf("symbolic links cannot be made here: %v", err)
	}
	if documents, _ := walk(t, link); names(documents) != "one" {
		t.Errorf("through a link: %s", names(documents))
	}
}

func TestWalkRefuses(t *testing.T) {
	root := tree(t, map[string]string{"sub/a": "1", "void/.x": "2", "void/e": ""})
	sub, void := filepath.Join(root, "sub"), filepath.Join(root, "void")
	missing := filepath.Join(root, "missing")
	for _, test := range []struct {
		paths []string
		want  []string
	}{
		{nil, []string{"no path"}},
		{[]string{sub, missing}, []string{missing}},
		{[]string{sub, root}, []string{sub + " lies in " + root}},
		{[]string{sub, sub}, []string{sub + " lies in " + sub}},
		{[]string{sub, filepath.Join(sub, "a")}, []string{"lies in " + sub}},
		{[]string{void}, []string{void, "there is none", "1 hidden, 1 empty"}},
	} {
		documents, _, err := Walk(t.Context(), test.paths)
		mustName(t, err, test.want...)
		if documents != nil {
			t.Errorf("%v: documents besides an error", test.paths)
		}
	}
	// A name that only begins alike is not inside.
	sibling := tree(t, map[string]string{"sub/a": "1", "sub2/b": "2"})
	if documents, _ := walk(t, filepath.Join(sibling, "sub"), filepath.Join(sibling, "sub2")); names(documents) != "a b" {
		t.Errorf("found %s", names(documents))
	}
}

func TestWalkNamesWhatCannotBeRead(t *testing.T) {
	root := tree(t, map[string]string{"a": "1", "locked": "2", "dir/b": "3"})
	locked := filepath.Join(root, "locked")
	if err := os.Chmod(locked, 0); err != nil {
		t.Fatal(err)
	}
	if file, err := os.Open(locked); err == nil {
		file.Close()
		t.Log("this user reads files without permission; a vanished file stands in")
		_, err := hashAll(t.Context(), []Document{{Path: filepath.Join(root, "a"), Bytes: 1}, {Path: filepath.Join(root, "gone"), Bytes: 1}}, new(Skipped))
		mustName(t, err, filepath.Join(root, "gone"))
		return
	}
	_, _, err := Walk(t.Context(), []string{root})
	mustName(t, err, locked)
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v", err)
	}
}

func TestWalkStopsOnCancel(t *testing.T) {
	root := tree(t, map[string]string{"a": "1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Walk(ctx, []string{root}); !errors.Is(err, context.Canceled) {
		t.Errorf("walk: %v", err)
	}
	if _, err := hashAll(ctx, []Document{{Path: filepath.Join(root, "a"), Bytes: 1}}, new(Skipped)); !errors.Is(err, context.Canceled) {
		t.Errorf("hash: %v", err)
	}
}

func TestReadFindsChanges(t *testing.T) {
	for name, change := range map[string]string{"longer": "content!", "shorter": "conten", "other": "c0ntent"} {
		root := tree(t, map[string]string{"a": "content"})
		documents, _ := walk(t, root)
		if err := os.WriteFile(documents[0].Path, []byte(change), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := documents[0].Read()
		mustName(t, err, documents[0].Path, "changed")
		if name == "other" {
			continue // of the same length: the hash is then of the new content
		}
		buf := make([]byte, 4)
		_, err = hash(&documents[0], buf)
		mustName(t, err, "changed")
	}
}

func TestFingerprint(t *testing.T) {
	base := map[string]string{"a": "1", "b/c": "2"}
	of := func(files map[string]string, extra string) string {
		documents, _ := walk(t, tree(t, files))
		return Fingerprint(documents, extra)
	}
	want := of(base, "spec")
	if got := of(base, "spec"); got != want {
		t.Error("another folder or time gives another fingerprint")
	}
	seen := map[string]string{want: "base"}
	for what, got := range map[string]string{
		"extra":     of(base, "other"),
		"content":   of(map[string]string{"a": "1", "b/c": "3"}, "spec"),
		"name":      of(map[string]string{"a": "1", "b/d": "2"}, "spec"),
		"one more":  of(map[string]string{"a": "1", "b/c": "2", "d": "2"}, "spec"),
		"one fewer": of(map[string]string{"a": "1"}, "spec"),
		"exchanged": of(map[string]string{"a": "2", "b/c": "1"}, "spec"),
	} {
		if before, ok := seen[got]; ok {
			t.Errorf("%s: the same fingerprint as %s", what, before)
		}
		seen[got] = what
	}
	// Stored: prepared tokens of everybody depend on it.
	if want != goldenFingerprint {
		t.Errorf("fingerprint %s, want %s", want, goldenFingerprint)
	}
}

const goldenFingerprint = "099a49d84ef88ab2daebd51ce1cde068e450ad7115ef1a9285daada3e40334b1" // computed by an independent program

func TestShuffled(t *testing.T) {
	var documents []Document
	for i := range 1000 {
		documents = append(documents, Document{Bytes: int64(i)})
	}
	before := slices.Clone(documents)
	shuffled := Shuffled(documents)
	if !slices.Equal(documents, before) {
		t.Error("the argument changed")
	}
	if !slices.Equal(shuffled, Shuffled(documents)) {
		t.Error("another order the second time")
	}
	// The last twentieth comes from everywhere: its mean lies within 4 standard errors of the middle.
	sum := int64(0)
	for _, document := range shuffled[950:] {
		sum += document.Bytes
	}
	if mean := float64(sum) / 50; mean < 499.5-4*289/7.07 || mean > 499.5+4*289/7.07 {
		t.Errorf("the last documents have the mean place %.0f of 1000", mean)
	}
	slices.SortFunc(shuffled, func(a, b Document) int { return int(a.Bytes - b.Bytes) })
	if !slices.Equal(shuffled, documents) {
		t.Error("documents are lost or repeated")
	}
	if len(Shuffled(nil)) != 0 {
		t.Error("nothing became something")
	}
}

func TestHashCrossesPieces(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100)
	root := tree(t, map[string]string{"a": string(content)})
	for _, size := range []int{7, 999, 1000, 1001, sniffBytes} {
		document := Document{Path: filepath.Join(root, "a"), Bytes: 1000}
		if binary, err := hash(&document, make([]byte, size)); err != nil || binary || document.SHA256 != sha256.Sum256(content) {
			t.Errorf("pieces of %d: %v, %v", size, binary, err)
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Skipf("no go command here, whose source tree is the text: %v", err)
	}
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	var documents []Document
	for b.Loop() {
		if documents, _, err = Walk(b.Context(), []string{root}); err != nil {
			b.Fatal(err)
		}
	}
	total := int64(0)
	for _, document := range documents {
		total += document.Bytes
	}
	b.SetBytes(total)
	b.ReportMetric(float64(len(documents)), "documents")
}
