package tokenizer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// mapEncode is naiveEncode for many segments.
func mapEncode(ids map[string]uint32, text []byte) []uint32 {
	var out []uint32
	for len(text) > 0 {
		id, size := uint32(text[0]), 1
		for n := 2; n <= min(len(text), MaxSegmentBytes); n++ {
			if found, ok := ids[string(text[:n])]; ok {
				id, size = found, n
			}
		}
		out = append(out, id)
		text = text[size:]
	}
	return out
}

func TestTrieOfManyKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, c := range []struct {
		name string
		make func() []byte
	}{
		{"dense", func() []byte { return randomText(rng, 2+rng.IntN(2), 256) }},
		{"two ends of a row", func() []byte {
			key := make([]byte, 20)
			for i := range key {
				key[i] = 255 * byte(rng.IntN(2))
			}
			return key
		}},
		{"long", func() []byte { return randomText(rng, 60, 26) }},
	} {
		ids := map[string]uint32{}
		var segments [][]byte
		var text []byte
		for len(segments) < 10000 {
			key := c.make()
			text = append(text, key[:1+rng.IntN(len(key))]...)
			if _, ok := ids[string(key)]; !ok {
				ids[string(key)] = uint32(firstSegment + len(segments))
				segments = append(segments, key)
			}
		}
		tok, err := build(segments, nil)
		if err != nil {
			t.Fatal(err)
		}
		text = text[:5000]
		if got := tok.Encode(nil, text); !slices.Equal(got, mapEncode(ids, text)) {
			t.Errorf("%s: the encoding differs from the naive one", c.name)
		}
		for key, id := range ids {
			if got := tok.Encode(nil, []byte(key)); len(got) != 1 || got[0] != id {
				t.Fatalf("%s: segment %q encodes to %v, not %d", c.name, key, got, id)
			}
		}
		states := 0
		for _, cell := range tok.trie.cells {
			if cell.check != free {
				states++
			}
		}
		if n := len(tok.trie.cells); n > 4*states {
			t.Errorf("%s: %d cells for %d states", c.name, n, states)
		}
	}
}
