package tokenizer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// lexicon holds the distinct words of a sample: first the well-formed ones, then the broken ones, each sorted bytewise.
type lexicon struct {
	text   []byte   // the words, concatenated
	start  []uint32 // where each word begins, and where the last one ends
	count  []uint32 // how often each word occurs in the sample
	broken int      // the first broken word
}

// newLexicon sorts the words of a table, so that the order in which they were counted is forgotten.
func newLexicon(words *table) *lexicon {
	var whole, torn []uint32
	for i := range uint32(words.len()) {
		if c, _ := letterAt(words.entry(i)); c == broken {
			torn = append(torn, i)
		} else {
			whole = append(whole, i)
		}
	}
	sortWords(words.text, words.start, whole)
	sortWords(words.text, words.start, torn)
	l := &lexicon{
		text:   make([]byte, 0, len(words.text)),
		start:  make([]uint32, 1, len(words.start)),
		count:  make([]uint32, 0, words.len()),
		broken: len(whole),
	}
	for _, i := range append(whole, torn...) {
		l.text = append(l.text, words.entry(i)...)
		l.start = append(l.start, uint32(len(l.text)))
		l.count = append(l.count, words.count[i])
	}
	return l
}

// sortWords sorts the words named by order bytewise. Comparing the first 8 bytes as one number settles most pairs.
func sortWords(text []byte, start, order []uint32) {
	type keyed struct {
		key  uint64
		word uint32
	}
	all := make([]keyed, len(order))
	for i, w := range order {
		var first [8]byte
		copy(first[:], text[start[w]:start[w+1]])
		all[i] = keyed{key: binary.BigEndian.Uint64(first[:]), word: w}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return bytes.Compare(text[start[a.word]:start[a.word+1]], text[start[b.word]:start[b.word+1]])
	})
	for i, k := range all {
		order[i] = k.word
	}
}

func (l *lexicon) len() int { return len(l.count) }

// letterSize returns the size in bytes of the letter of word w that begins with byte lead.
func (l *lexicon) letterSize(w int, lead byte) int {
	switch {
	case lead < utf8.RuneSelf || w >= l.broken:
		return 1
	case lead < 0xe0:
		return 2
	case lead < 0xf0:
		return 3
	}
	return 4
}

// mirrored returns the same words in the same places with the letters of each in reverse order. It shares start and
// count with l.
func (l *lexicon) mirrored() *lexicon {
	m := &lexicon{text: make([]byte, len(l.text)), start: l.start, count: l.count, broken: l.broken}
	for w := range l.len() {
		end := l.start[w+1]
		to := end
		for at := l.start[w]; at < end; {
			size := uint32(l.letterSize(w, l.text[at]))
			to -= size
			copy(m.text[to:], l.text[at:at+size])
			at += size
		}
	}
	return m
}

// order returns the words in an order in which words that begin with the same letters stand together.
func (l *lexicon) order() []uint32 {
	order := make([]uint32, l.len())
	for i := range order {
		order[i] = uint32(i)
	}
	sortWords(l.text, l.start, order[:l.broken])
	sortWords(l.text, l.start, order[l.broken:])
	return order
}

// digest identifies the words and their counts, all that learning sees of a sample: SHA-256 over each word's length as
// 32 bits, its bytes, and its count as 32 bits, little endian, in the lexicon's order.
func (l *lexicon) digest() [sha256.Size]byte {
	h := sha256.New()
	var buf []byte
	for w := range l.len() {
		word := l.text[l.start[w]:l.start[w+1]]
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(len(word)))
		buf = append(buf, word...)
		buf = binary.LittleEndian.AppendUint32(buf, l.count[w])
		h.Write(buf)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
