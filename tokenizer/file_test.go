package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// samples are tokenizers of every kind that a file can hold.
func samples(t testing.TB) map[string]*Tokenizer {
	t.Helper()
	from := &origin{
		learner: learner{Algorithm: algorithm, Scope: scope, MaxBytes: 24, MinVariety: 2, MinFreq: 2, Top: 10},
		sample:  sample{Documents: 1, Bytes: 2, SHA256: strings.Repeat("0", 64), Tokens: 3},
	}
	learnt, err := build([][]byte{[]byte(" the"), []byte("\xe4\xbd")}, from)
	if err != nil {
		t.Fatal(err)
	}
	of := *from
	of.learner.Unicode = "15.0.0"
	lettered, err := build([][]byte{[]byte(" the")}, &of)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Tokenizer{
		"bytes":   Bytes(),
		"learnt":  learnt, // a file without the version of Unicode stays as it is
		"unicode": lettered,
		"foreign": mustBuild(t, "<&>", "a\"\\", "\x00\n\t", "\u2028\uFFFD", "\xff\xfe", "你"),
	}
}

func TestFileRoundTrip(t *testing.T) {
	for name, tok := range samples(t) {
		data := tok.Marshal()
		back, err := Parse(data)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		if back.Identity() != tok.Identity() || !bytes.Equal(back.text, tok.text) || !slices.Equal(back.start, tok.start) {
			t.Errorf("%s: another tokenizer came back", name)
		}
		if !bytes.Equal(back.Marshal(), data) {
			t.Errorf("%s: written again, the file differs", name)
		}
	}
}

func TestParseMaker(t *testing.T) {
	tok := samples(t)["learnt"]
	data := tok.Marshal()
	if back, err := ParseMaker(data, tok.Identity(), tok.Vocab()); err != nil || back.Identity() != tok.Identity() {
		t.Errorf("the maker itself: %v", err)
	}
	for name, err := range map[string]error{
		"another identity": second(ParseMaker(data, Bytes().Identity(), tok.Vocab())),
		"another vocab":    second(ParseMaker(data, tok.Identity(), tok.Vocab()+1)),
		"a broken file":    second(ParseMaker(data[1:], tok.Identity(), tok.Vocab())),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "tokenizer file: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func second(_ *Tokenizer, err error) error { return err }

const goldenBytesFile = `{
  "format": "harris-segments",
  "version": 1,
  "name": "bytes",
  "count": 0,
  "bos": 256,
  "vocab": 257,
  "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "segments": [],
  "file_sha256": "`

func TestFileOfBytes(t *testing.T) {
	data := string(Bytes().Marshal())
	if !strings.HasPrefix(data, goldenBytesFile) || !strings.HasSuffix(data, "\"\n}\n") {
		t.Errorf("the file is\n%s", data)
	}
}

func TestEveryMutationOfAFileIsRefused(t *testing.T) {
	data := samples(t)["learnt"].Marshal()
	for i := range data {
		for bit := range 8 {
			bad := slices.Clone(data)
			bad[i] ^= 1 << bit
			if _, err := Parse(bad); err == nil {
				t.Fatalf("byte %d, bit %d flipped: the file was read", i, bit)
			}
		}
		if _, err := Parse(data[:i]); err == nil {
			t.Fatalf("cut to %d bytes: the file was read", i)
		}
	}
	if _, err := Parse(append(slices.Clone(data), '\n')); err == nil {
		t.Fatal("a byte was appended: the file was read")
	}
}

// seal ends a file body as Marshal does, so that a test reaches the checks behind the digest.
func seal(body string) []byte {
	sum := sha256.Sum256([]byte(body))
	return []byte(body + sealOpen + hex.EncodeToString(sum[:]) + sealClose)
}

func TestSealedButWrongFilesAreRefused(t *testing.T) {
	good := string(samples(t)["learnt"].Marshal())
	good, _, _ = strings.Cut(good, sealOpen)
	if _, err := Parse(seal(good)); err != nil {
		t.Fatal(err)
	}
	long := `"` + strings.Repeat("x", MaxSegmentBytes+1) + `"`
	for _, c := range []struct{ old, replace, want string }{
		{`"version": 1`, `"version": 2`, "newer program"},
		{`"harris-segments"`, `"other"`, "newer program"},
		{`"count": 2`, `"count": 3`, "count is 3, but must be 2"},
		{`"bos": 256`, `"bos": 0`, "bos is 0, but must be 256"},
		{`"vocab": 259`, `"vocab": 260`, "vocab is 260, but must be 259"},
		{`"harris:2"`, `"harris:3"`, `name is "harris:3"`},
		{`"sha256": "`, `"sha256": "0`, "its segments give"},
		{`" the"`, `" thé"`, "its segments give"},
		{`" the"`, `"x"`, "segment 0 has 1 bytes"},
		{`" the"`, `""`, "segment 0 has 0 bytes"},
		{`" the"`, long, "segment 0 has 256 bytes"},
		{`" the"`, `{"hex": "e4bd"}`, "segment 1 (\"\\xe4\\xbd\") is also segment 0"},
		{`" the"`, `{"hex": "e4b"}`, "odd length"},
		{`" the"`, `{"hex": "20", "x": 1}`, "unknown field"},
		{`" the"`, `12`, "use a string or"},
		{`" the"`, `"\ud800 the"`, "surrogate"},
		{`"segments": [`, `"segments": {`, "its JSON"},
		{`"format"`, `"fresh": 1, "format"`, "unknown field"},
		{"  ]", "  ]} {", "something follows"},
	} {
		if !strings.Contains(good, c.old) {
			t.Fatalf("the file has no %s", c.old)
		}
		bad := strings.Replace(good, c.old, c.replace, 1)
		_, err := Parse(seal(bad))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: error %v, want one that says %q", c.replace, c.old, err, c.want)
		}
	}
	half := file{Format: fileFormat, Version: fileVersion, Name: "bytes", BOS: BOS, Vocab: 257, Sample: &sample{}}
	if err := half.check(); err == nil || !strings.Contains(err.Error(), "learner and sample") {
		t.Errorf("a sample without a learner: %v", err)
	}
}

func TestParseBareArray(t *testing.T) {
	tok, err := Parse([]byte(" [\" the\", \"\\ufffd\", \"\\\\ufffd\", {\"hex\": \"ff00\"}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := mustBuild(t, " the", "\uFFFD", `\ufffd`, "\xff\x00"); tok.Identity() != want.Identity() {
		t.Errorf("the segments are %q", tok.text)
	}
	for _, bad := range []string{"", "[", "[1]", "[[]]", `["ab",]`, `["ab"] x`, `["ab","ab"]`, `["a"]`, "[\"\xff\xff\"]",
		`["\udc00\udc00"]`, `["\\ufffd\udc00"]`, `[null]`, `{}`, `"ab"`, `null`} {
		if tok, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q was read as %s", bad, tok.Identity())
		}
	}
}

func TestFileSizesAreCapped(t *testing.T) {
	if _, err := Parse(make([]byte, maxFileBytes+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too long a file: %v", err)
	}
	var b strings.Builder
	b.WriteString(`["ab"`)
	for i := range MaxSegments {
		fmt.Fprintf(&b, `,"%05x"`, i)
	}
	if _, err := Parse([]byte(b.String() + "]")); err == nil || !strings.Contains(err.Error(), "more than 65279") {
		t.Errorf("too many segments: %v", err)
	}
	b.Reset()
	b.WriteString(`["ab"`)
	for i := range maxTotalBytes/200 + 1 {
		fmt.Fprintf(&b, `,"%0200x"`, i)
	}
	if _, err := Parse([]byte(b.String() + "]")); err == nil || !strings.Contains(err.Error(), "bytes in all") {
		t.Errorf("too much text in segments: %v", err)
	}
}

func TestBuildRefusesTooManySegments(t *testing.T) {
	if _, err := build(make([][]byte, MaxSegments+1), nil); err == nil || !strings.Contains(err.Error(), "16 bits") {
		t.Errorf("65280 segments: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, tok := range samples(f) {
		f.Add(tok.Marshal())
		body, _, _ := bytes.Cut(tok.Marshal(), []byte(sealOpen))
		f.Add(body)
	}
	f.Add([]byte(`["ab", {"hex": "ff00"}, "\u0000\ud83d\ude00"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range [][]byte{data, seal(string(data))} {
			tok, err := Parse(d)
			if err != nil {
				continue
			}
			back, err := Parse(tok.Marshal())
			if err != nil || back.Identity() != tok.Identity() {
				t.Fatalf("written and read again: %v", err)
			}
		}
	})
}
