package tokenizer

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// maxCandidateBytes is the length in bytes of the longest candidate.
const maxCandidateBytes = 24

// pieces calls emit with every occurrence of a candidate in a word and the word's count: the runs between two cuts, of 2
// to maxCandidateBytes bytes; every letter of more than one byte that is no such run there; and the first 2 and 3 bytes
// of longer letters, the fallbacks of rare scripts. Emit must not keep the piece.
func (l *lexicon) pieces(cut []bool, emit func(piece []byte, n uint32)) {
	for w := range l.len() {
		n, end := l.count[w], int(l.start[w+1])
		for from := int(l.start[w]); from < end; from++ {
			if !cut[from] {
				continue
			}
			for to := from + 2; to <= min(end, from+maxCandidateBytes); to++ {
				if cut[to] {
					emit(l.text[from:to], n)
				}
			}
		}
		for from := int(l.start[w]); from < end; {
			to := from + l.letterSize(w, l.text[from])
			if to-from > 1 && !(cut[from] && cut[to]) {
				emit(l.text[from:to], n)
			}
			for lead := from + 2; lead < to; lead++ {
				emit(l.text[from:lead], n)
			}
			from = to
		}
	}
}

// candidates returns the pieces that occur at least minFreq times, sorted bytewise, in a table.
//
// Most pieces are rare, and all of them at once would need many times the memory of the sample. So a first pass adds
// each count to one of a fixed number of counters, chosen by hash; a piece whose counter stays below minFreq is rare
// for certain, and the second pass counts only the others.
func (l *lexicon) candidates(cut []bool, minFreq uint32) [][]byte {
	seed := maphash.MakeSeed()
	counters := make([]uint32, sketchSize(len(l.text)))
	mask := uint64(len(counters) - 1)
	l.pieces(cut, func(piece []byte, n uint32) {
		counters[maphash.Bytes(seed, piece)&mask] += n
	})
	found := newTable(seed)
	l.pieces(cut, func(piece []byte, n uint32) {
		if h := maphash.Bytes(seed, piece); counters[h&mask] >= minFreq {
			found.add(piece, h, n)
		}
	})
	var keys [][]byte
	for i, n := range found.count {
		if n >= minFreq {
			keys = append(keys, bytes.Clone(found.entry(uint32(i))))
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// sketchSize returns the number of counters for so many bytes of distinct words: a power of two, 64 MiB at most.
func sketchSize(n int) int {
	size := 1 << 10
	for size < 2*n && size < 1<<24 {
		size *= 2
	}
	return size
}
