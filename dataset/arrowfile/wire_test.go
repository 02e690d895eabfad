package arrowfile

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"pgregory.net/rapid"
)

// windows returns count windows of size tokens, ids counting on modulo vocab.
func windows(count, size, vocab int) [][]uint32 {
	all := make([][]uint32, count)
	for i := range all {
		for j := range size {
			all[i] = append(all[i], uint32((i*size+j)%vocab))
		}
	}
	return all
}

func TestWindowsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		vocab := rapid.SampledFrom([]int{1, 257, 2305, 65_536, 65_537, MaxVocab}).Draw(rt, "vocab")
		count, size := rapid.IntRange(1, 9).Draw(rt, "windows"), rapid.IntRange(1, 70).Draw(rt, "tokens")
		id := rapid.Uint32Range(0, uint32(vocab-1))
		sent := rapid.SliceOfN(rapid.SliceOfN(id, size, size), count, count).Draw(rt, "ids")
		data, err := encodeWindows(sent, Wide(vocab), checked(t))
		if err != nil {
			rt.Fatal(err)
		}
		got, err := DecodeWindows(data, count, size, vocab)
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.EqualFunc(got, sent, slices.Equal) {
			rt.Fatalf("sent %v, got %v", sent, got)
		}
	})
}

// The Arrow library, an independent reader, finds in the message what was sent.
func TestWireIsArrow(t *testing.T) {
	sent := windows(3, 5, 300)
	data := must[[]byte](t)(EncodeWindows(sent, false))
	reader := must[*ipc.Reader](t)(ipc.NewReader(bytes.NewReader(data), ipc.WithAllocator(checked(t))))
	defer reader.Release()
	record := must[arrow.Record](t)(reader.Read())
	list := record.Column(0).(*array.FixedSizeList)
	if list.Len() != 3 || list.NullN() != 0 {
		t.Fatalf("%d rows, %d nulls", list.Len(), list.NullN())
	}
	values := list.ListValues().(*array.Uint16).Uint16Values()
	for i, id := range slices.Concat(sent...) {
		if uint32(values[i]) != id {
			t.Fatalf("token %d is %d", i, values[i])
		}
	}
	if reader.Next() {
		t.Error("a second record batch")
	}
}

func TestEncodeWindowsRefuses(t *testing.T) {
	for _, test := range []struct {
		windows [][]uint32
		wide    bool
		want    string
	}{
		{nil, false, "none"},
		{[][]uint32{{}}, true, "empty"},
		{[][]uint32{{1, 2}, {1}}, true, "window 1 has 1 tokens, window 0 has 2"},
		{[][]uint32{{1}, {65_536}}, false, "window 1: id 65536"},
	} {
		_, err := EncodeWindows(test.windows, test.wide)
		mustName(t, err, "encode windows", test.want)
	}
}

func TestDecodeWindowsRefuses(t *testing.T) {
	good := must[[]byte](t)(EncodeWindows(windows(4, 6, 300), false))
	_, _, headless, err := nextMessage(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name                   string
		data                   []byte
		windows, tokens, vocab int
		want                   string
	}{
		{"nothing", nil, 4, 6, 300, "0 bytes cannot hold"},
		{"fewer windows", good, 3, 6, 300, "4 windows with 24 tokens in all, not 3 with 18"},
		{"other length", good, 6, 4, 300, "fixed_size_list<uint16>[6], not fixed_size_list<uint16>[4]"},
		{"smaller vocabulary", good, 4, 6, 23, "id 23 is not below"},
		{"wide vocabulary", good, 4, 6, 70_000, "not fixed_size_list<uint32>[6]"},
		{"impossible count", good, math.MaxInt, math.MaxInt, 300, "cannot hold"},
		{"no windows", good, 0, 6, 300, "cannot be"},
		{"negative tokens", good, 4, -6, 300, "cannot be"},
		{"vocabulary beyond uint32", good, 4, 6, math.MaxInt, "cannot be"},
		{"something behind", append(slices.Clone(good), 0), 4, 6, 300, "does not end"},
		{"a second stream behind", append(slices.Clone(good), good...), 4, 6, 300, "does not end"},
		{"no schema", headless, 4, 6, 300, "kind 3, not a schema"},
		{"not Arrow", bytes.Repeat([]byte("text"), 100), 4, 6, 300, "no Arrow message begins here"},
	} {
		got, err := DecodeWindows(test.data, test.windows, test.tokens, test.vocab)
		mustName(t, err, "decode windows", test.want)
		if got != nil {
			t.Errorf("%s: windows besides an error", test.name)
		}
	}
}

// Truncated anywhere it is an error; with any bit flipped it is an error or other ids below the
// vocabulary, in the shape that was asked for.
func TestDecodeWindowsSurvivesDamage(t *testing.T) {
	good := must[[]byte](t)(EncodeWindows(windows(4, 6, 300), false))
	for length := range len(good) {
		if _, err := DecodeWindows(good[:length], 4, 6, 300); err == nil {
			t.Fatalf("truncated at %d: accepted", length)
		}
	}
	for bit := range 8 * len(good) {
		data := slices.Clone(good)
		data[bit/8] ^= 1 << (bit % 8)
		got, err := DecodeWindows(data, 4, 6, 300)
		if err == nil {
			checkShape(t, got, 4, 6, 300)
		}
	}
}

func checkShape(t *testing.T, got [][]uint32, count, size, vocab int) {
	t.Helper()
	if len(got) != count {
		t.Fatalf("%d windows", len(got))
	}
	for _, window := range got {
		if len(window) != size || slices.Max(window) >= uint32(vocab) {
			t.Fatalf("window %v", window)
		}
	}
}

// A hostile message costs no memory beyond its own size.
func TestDecodeWindowsAllocatesLittle(t *testing.T) {
	good := must[[]byte](t)(EncodeWindows(windows(4, 6, 300), false))
	for at := 0; at+4 <= len(good); at++ {
		data := slices.Clone(good)
		copy(data[at:], "\xff\xff\xff\x7f")
		if n := testing.AllocsPerRun(1, func() { _, _ = DecodeWindows(data, 4, 6, 300) }); n > 40 {
			t.Fatalf("%v allocations with a large number at %d", n, at)
		}
	}
}

func FuzzDecodeWindows(f *testing.F) {
	f.Add(must[[]byte](f)(EncodeWindows(windows(4, 6, 300), false)), 4, 6, 300)
	f.Add(must[[]byte](f)(EncodeWindows(windows(1, 3, 70_000), true)), 1, 3, 70_000)
	f.Fuzz(func(t *testing.T, data []byte, count, size, vocab int) {
		got, err := DecodeWindows(data, count, size, vocab)
		if err != nil {
			if got != nil {
				t.Fatal("windows besides an error")
			}
			return
		}
		checkShape(t, got, count, size, vocab)
		again, err := EncodeWindows(got, Wide(vocab))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeWindows(again, count, size, vocab); err != nil || fmt.Sprint(back) != fmt.Sprint(got) {
			t.Fatalf("decoded %v, after another round %v, %v", got, back, err)
		}
	})
}

func BenchmarkWindows(b *testing.B) {
	sent := windows(8, 1025, 2305)
	b.SetBytes(8 * 1025 * 2)
	for b.Loop() {
		data, err := EncodeWindows(sent, false)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := DecodeWindows(data, 8, 1025, 2305); err != nil {
			b.Fatal(err)
		}
	}
}
