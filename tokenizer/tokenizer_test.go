package tokenizer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mustBuild makes a tokenizer of segments given as text.
func mustBuild(t testing.TB, segments ...string) *Tokenizer {
	t.Helper()
	raw := make([][]byte, len(segments))
	for i, s := range segments {
		raw[i] = []byte(s)
	}
	tok, err := build(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// randomText draws n bytes of the first letters of the alphabet, or of all 256 bytes.
func randomText(rng *rand.Rand, n, letters int) []byte {
	text := make([]byte, n)
	for i := range text {
		if letters == 256 {
			text[i] = byte(rng.IntN(256))
		} else {
			text[i] = 'a' + byte(rng.IntN(letters))
		}
	}
	return text
}

// randomSegments draws n distinct segments, some of them prefixes of others.
func randomSegments(rng *rand.Rand, n, letters int) [][]byte {
	var all [][]byte
	seen := map[string]bool{}
	for len(all) < n {
		s := randomText(rng, 2+rng.IntN(6), letters)
		if len(all) > 0 && rng.IntN(3) == 0 {
			s = append(slices.Clone(all[rng.IntN(len(all))]), s...)
		}
		if len(s) <= MaxSegmentBytes && !seen[string(s)] {
			seen[string(s)] = true
			all = append(all, s)
		}
	}
	return all
}

// naiveEncode is the definition of encoding: at each place the longest segment that is a prefix of the rest.
func naiveEncode(segments [][]byte, text []byte) []uint32 {
	var ids []uint32
	for len(text) > 0 {
		id, size := uint32(text[0]), 1
		for i, s := range segments {
			if len(s) > size && bytes.HasPrefix(text, s) {
				id, size = uint32(firstSegment+i), len(s)
			}
		}
		ids = append(ids, id)
		text = text[size:]
	}
	return ids
}

func TestEncodeIsTheNaiveLongestPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ segments, letters int }{{0, 2}, {1, 2}, {40, 2}, {300, 4}, {300, 26}, {500, 256}} {
		segments := randomSegments(rng, c.segments, c.letters)
		tok, err := build(segments, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			text := randomText(rng, rng.IntN(200), c.letters)
			if len(segments) > 0 {
				text = slices.Concat(text, segments[rng.IntN(len(segments))], text)
			}
			got, want := tok.Encode(nil, text), naiveEncode(segments, text)
			if !slices.Equal(got, want) {
				t.Fatalf("%d segments of %d letters: Encode(%q) = %v, the naive encoding is %v",
					c.segments, c.letters, text, got, want)
			}
			back, err := tok.Decode(nil, got)
			if err != nil || !bytes.Equal(back, text) {
				t.Fatalf("Decode(Encode(%q)) = %q, %v", text, back, err)
			}
		}
	}
}

func TestEncodeAndDecodeAppend(t *testing.T) {
	tok := mustBuild(t, "ab", "abc", "\xe4\xbd")
	ids := tok.Encode([]uint32{7}, []byte("abcabx\xe4\xbd"))
	if want := []uint32{7, 258, 257, 'x', 259}; !slices.Equal(ids, want) {
		t.Fatalf("ids %v, want %v", ids, want)
	}
	text, err := tok.Decode([]byte("> "), ids[1:])
	if err != nil || string(text) != "> abcabx\xe4\xbd" {
		t.Fatalf("text %q, %v", text, err)
	}
}

func TestDecodeRefusesIDsWithoutText(t *testing.T) {
	for _, c := range []struct {
		tok  *Tokenizer
		id   uint32
		want string
	}{
		{Bytes(), BOS, "BOS"},
		{Bytes(), 257, "vocabulary of 257"},
		{mustBuild(t, "ab"), 258, "vocabulary of 258"},
		{mustBuild(t, "ab"), 1<<32 - 1, "vocabulary of 258"},
	} {
		dst := []byte("kept")
		got, err := c.tok.Decode(dst, []uint32{'a', c.id})
		var bad *IDError
		if !errors.As(err, &bad) || bad.ID != c.id || bad.Index != 1 || bad.Vocab != c.tok.Vocab() {
			t.Errorf("id %d: error %#v", c.id, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("id %d: error %q does not say %q", c.id, err, c.want)
		}
		if string(got) != "kept" {
			t.Errorf("id %d: dst became %q", c.id, got)
		}
	}
}

func TestIdentity(t *testing.T) {
	bytesID := "bytes sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := Bytes().Identity(); got != bytesID {
		t.Errorf("identity of bytes: %s", got)
	}
	a, b := mustBuild(t, "ab", "cd"), mustBuild(t, "cd", "ab")
	if a.SHA256() == b.SHA256() {
		t.Error("the order of segments, which is their ids, does not change the digest")
	}
	if a.SHA256() == mustBuild(t, "abc", "d!").SHA256() {
		t.Error("where a segment ends does not change the digest")
	}
	if want := "harris:2 sha256:"; !strings.HasPrefix(a.Identity(), want) {
		t.Errorf("identity %s, want %s...", a.Identity(), want)
	}
}

func TestParseSpec(t *testing.T) {
	for text, n := range map[string]int{"bytes": 0, "harris:1": 1, "harris:2048": 2048, "harris:65279": 65279} {
		spec, err := ParseSpec(text)
		if err != nil || spec.Segments != n || spec.String() != text || spec.Vocab() != n+257 {
			t.Errorf("ParseSpec(%q) = %+v (%s, V %d), %v", text, spec, spec, spec.Vocab(), err)
		}
	}
	for _, text := range []string{"", "byte", "Bytes", "harris", "harris:", "harris:0", "harris:-1", "harris:+1",
		"harris:01", "harris: 1", "harris:65280", "harris:1e3", "harris:99999999999999999999", "gpt2"} {
		if spec, err := ParseSpec(text); err == nil || !strings.Contains(err.Error(), "use ") {
			t.Errorf("ParseSpec(%q) = %+v, %v", text, spec, err)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("the theme\xe4\xbd\xa0\xe5"), []byte("the theme then \xe4\xbd\xe4\xbd\xa0\xe5\xff\x00"))
	f.Add([]byte{}, []byte{0, 255, 254, 0xed, 0xa0, 0x80})
	f.Fuzz(func(t *testing.T, seed, text []byte) {
		var segments [][]byte
		for size := 2; size < 6; size++ {
			for at := 0; at+size <= len(seed) && at < 64; at += size {
				s := seed[at : at+size]
				if !slices.ContainsFunc(segments, func(o []byte) bool { return bytes.Equal(o, s) }) {
					segments = append(segments, s)
				}
			}
		}
		tok, err := build(segments, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids := tok.Encode(nil, text)
		if want := naiveEncode(segments, text); !slices.Equal(ids, want) {
			t.Fatalf("ids %v, want %v", ids, want)
		}
		if back, err := tok.Decode(nil, ids); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("decoded %q, %v", back, err)
		}
		if slices.Contains(ids, BOS) {
			t.Fatal("text encoded to BOS")
		}
	})
}
