// Package tokenizer turns text into token ids and back, without losing a byte.
//
// A tokenizer is a list of segments over the 256 bytes. Ids 0 to 255 are the bytes themselves, 256 is BOS, and id
// 257+i is segment i, so the vocabulary of N segments has V = N + 257 ids. Encoding takes the longest segment that
// matches at each place, from the left; a byte that begins no segment is its own id. So every byte string, broken
// UTF-8 too, has exactly one encoding, and decoding is concatenation.
//
// The tokenizer "bytes" has no segments. A "harris:N" tokenizer is learnt from a sample of text (see Learner): peaks
// of letter variety, after Harris (1955), propose the segments, and the tokens that a segment saves under this very
// encoding dispose. Learning uses integers and total orders only, so the same text and tables of Unicode always give the same
// tokenizer.
package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

const (
	// BOS is the id that begins every document. No text encodes to it: whoever writes documents adds it.
	BOS = 256

	// MaxSegments is the largest number of segments, so that every id fits 16 bits.
	MaxSegments = 1<<16 - firstSegment

	// MaxSegmentBytes is the length in bytes of the longest segment a tokenizer may hold.
	MaxSegmentBytes = 255

	// maxTotalBytes caps the bytes of all segments together, and with them the memory of the trie.
	maxTotalBytes = 4 << 20

	firstSegment = BOS + 1
)

// Tokenizer encodes and decodes text. It never changes, and any number of goroutines may use it at once.
type Tokenizer struct {
	text   []byte   // the segments in id order, concatenated
	start  []uint32 // where each segment begins in text, and where the last one ends: Segments()+1 offsets
	trie   trie
	digest [sha256.Size]byte
	origin *origin // how the segments were learnt; nil if nobody recorded it
}

// Bytes returns the tokenizer without segments: every byte is its own id, V = 257.
func Bytes() *Tokenizer {
	return assemble(nil, nil)
}

// build makes a tokenizer of segments in id order, or says which of them cannot be one.
func build(segments [][]byte, from *origin) (*Tokenizer, error) {
	if len(segments) > MaxSegments {
		return nil, fmt.Errorf("%d segments: ids must fit 16 bits: use at most %d", len(segments), MaxSegments)
	}
	total := 0
	seen := make(map[string]int, len(segments))
	for i, s := range segments {
		if len(s) < 2 || len(s) > MaxSegmentBytes {
			return nil, fmt.Errorf("segment %d has %d bytes: a segment has 2 to %d", i, len(s), MaxSegmentBytes)
		}
		if first, ok := seen[string(s)]; ok {
			return nil, fmt.Errorf("segment %d (%q) is also segment %d: each may stand once", i, s, first)
		}
		seen[string(s)] = i
		total += len(s)
	}
	if total > maxTotalBytes {
		return nil, fmt.Errorf("the segments have %d bytes in all: at most %d are allowed", total, maxTotalBytes)
	}
	return assemble(segments, from), nil
}

// assemble makes a tokenizer of segments that build has checked.
func assemble(segments [][]byte, from *origin) *Tokenizer {
	t := &Tokenizer{start: make([]uint32, 1, len(segments)+1), digest: digestOf(segments), origin: from}
	order := make([]int32, len(segments))
	for i, s := range segments {
		t.text = append(t.text, s...)
		t.start = append(t.start, uint32(len(t.text)))
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return bytes.Compare(segments[a], segments[b]) })
	keys := make([][]byte, len(segments))
	for i, j := range order {
		keys[i] = segments[j]
		order[i] = j + firstSegment
	}
	t.trie = newTrie(keys, order)
	return t
}

// digestOf is the identity of a list of segments: SHA-256 over each one's length as 32 bits, little endian, and its
// bytes, in id order.
func digestOf(segments [][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, s := range segments {
		var size [4]byte
		binary.LittleEndian.PutUint32(size[:], uint32(len(s)))
		h.Write(size[:])
		h.Write(s)
	}
	h.Sum(sum[:0])
	return sum
}

// Segments returns N, the number of learnt segments.
func (t *Tokenizer) Segments() int { return len(t.start) - 1 }

// Vocab returns V = N + 257, the number of ids.
func (t *Tokenizer) Vocab() int { return t.Segments() + firstSegment }

// Spec returns the kind of the tokenizer, as a person asks for it.
func (t *Tokenizer) Spec() Spec { return Spec{Segments: t.Segments()} }

// SHA256 returns the digest that tells this tokenizer from every other: equal digests encode every text to equal ids.
// It covers the segments and their order, not how they were learnt.
func (t *Tokenizer) SHA256() [sha256.Size]byte { return t.digest }

// Identity returns the spec and the digest, "harris:2048 sha256:1f0c...", as datasets and checkpoints record it.
func (t *Tokenizer) Identity() string {
	return t.Spec().String() + " sha256:" + hex.EncodeToString(t.digest[:])
}

// Encode appends the ids of text to dst and returns the extended slice. The ids never include BOS. It keeps neither
// slice. Of two texts a and b, Encode(a+b) need not be Encode(a) followed by Encode(b).
func (t *Tokenizer) Encode(dst []uint32, text []byte) []uint32 {
	return t.trie.encode(dst, text)
}

// Decode appends the bytes that ids stand for to dst and returns the extended slice. An id that stands for no bytes,
// BOS among them, is an *IDError, and dst comes back as it was. It keeps neither slice.
func (t *Tokenizer) Decode(dst []byte, ids []uint32) ([]byte, error) {
	out := dst
	for i, id := range ids {
		switch {
		case id < BOS:
			out = append(out, byte(id))
		case id > BOS && uint64(id) < uint64(t.Vocab()):
			out = append(out, t.segment(int(id)-firstSegment)...)
		default:
			return dst, &IDError{ID: id, Index: i, Vocab: t.Vocab()}
		}
	}
	return out, nil
}

// segment returns the bytes of segment i, which stay the tokenizer's.
func (t *Tokenizer) segment(i int) []byte {
	return t.text[t.start[i]:t.start[i+1]]
}

// IDError says that an id stands for no text: it is BOS, or not in the vocabulary.
type IDError struct {
	ID    uint32 // the id found
	Index int    // its place among the ids given, from 0
	Vocab int    // the number of ids of the tokenizer
}

func (e *IDError) Error() string {
	if e.ID == BOS {
		return fmt.Sprintf("decode: id %d at index %d is BOS, which stands for no text: split the ids at it", e.ID, e.Index)
	}
	return fmt.Sprintf("decode: id %d at index %d is not in the vocabulary of %d ids: use the tokenizer that made the ids",
		e.ID, e.Index, e.Vocab)
}
