package tokenizer

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxSampleBytes is the most text in bytes that a Learner reads, and a good budget for ChooseSample.
	MaxSampleBytes = 64 << 20

	algorithm = "peaks-or/grow-prune"
	scope     = "word"
)

// Stage names a part of learning.
type Stage string

// The stages of learning, in order.
const (
	StageCandidates Stage = "candidates"
	StageGrow       Stage = "grow"
	StagePrune      Stage = "prune"
)

// Progress says how far learning has come.
type Progress struct {
	Stage    Stage
	Segments int // the segments held at this moment; they grow a quarter past the number wanted, then shrink to it
}

// Learner learns a harris:N tokenizer from the documents added to it. The same documents give the same tokenizer, and
// the same file, in whatever order they are added, as long as they fit the budget and unicode.Version, which the file
// names, is the same. One goroutine uses it at a time.
type Learner struct {
	segments  int
	room      int64
	words     *table
	documents int64
	bytes     int64
}

// NewLearner returns a learner of spec's segments that reads at most budget bytes of text.
func NewLearner(spec Spec, budget int64) (*Learner, error) {
	if spec.Segments < 1 || spec.Segments > MaxSegments {
		return nil, fmt.Errorf("learn a tokenizer: %d segments: use 1 to %d", spec.Segments, MaxSegments)
	}
	if budget < 1 || budget > MaxSampleBytes {
		return nil, fmt.Errorf("learn a tokenizer: a sample of %d bytes: use 1 to %d", budget, MaxSampleBytes)
	}
	return &Learner{segments: spec.Segments, room: budget, words: newTable(maphash.MakeSeed())}, nil
}

// Add reads a document, or the beginning of it that fits the budget, and returns how many bytes it read: fewer than
// given means that the budget is used up. It does not keep doc. A learner that has learnt reads nothing more.
func (l *Learner) Add(doc []byte) int {
	if l.words == nil {
		return 0
	}
	doc = fitting(doc, l.room)
	if len(doc) == 0 {
		return 0
	}
	l.room -= int64(len(doc))
	l.documents++
	l.bytes += int64(len(doc))
	for rest := doc; len(rest) > 0; {
		end := wordEnd(rest)
		l.words.add(rest[:end], maphash.Bytes(l.words.seed, rest[:end]), 1)
		rest = rest[end:]
	}
	return len(doc)
}

// fitting returns as much of the beginning of doc as fits room bytes without cutting a letter.
func fitting(doc []byte, room int64) []byte {
	if int64(len(doc)) <= room {
		return doc
	}
	end := int(room)
	for back := 0; back < utf8.UTFMax-1 && end > 0 && !utf8.RuneStart(doc[end]); back++ {
		end--
	}
	return doc[:end]
}

// Learn chooses the segments and returns the tokenizer. It may be called once. Before every stage and round it calls
// report, unless that is nil; an error from report ends learning and comes back as it is. A sample in which fewer
// segments are worth a token than were asked for is an error that names the number reached.
func (l *Learner) Learn(report func(Progress) error) (*Tokenizer, error) {
	if l.words == nil {
		return nil, errors.New("learn a tokenizer: this learner has learnt already: make a new one")
	}
	if report == nil {
		report = func(Progress) error { return nil }
	}
	words := newLexicon(l.words)
	l.words = nil
	if err := report(Progress{Stage: StageCandidates}); err != nil {
		return nil, err
	}
	minFreq := max(2, l.bytes>>20)
	keys := words.candidates(words.cuts(), uint32(minFreq))
	s := newSelection(newCorpus(words, keys), report)
	digest := words.digest()
	if err := s.grow(topOf(l.segments)); err != nil {
		return nil, err
	}
	if s.size < l.segments {
		return nil, l.tooSmall(s.size)
	}
	if err := s.prune(l.segments); err != nil {
		return nil, err
	}
	chosen, tokens := s.ranked()
	segments := make([][]byte, len(chosen))
	for i, k := range chosen {
		segments[i] = keys[k]
	}
	return build(segments, &origin{
		learner: learner{
			Algorithm: algorithm, Scope: scope, MaxBytes: maxCandidateBytes,
			MinVariety: minVariety, MinFreq: minFreq, Top: topOf(l.segments), Unicode: unicode.Version,
		},
		sample: sample{
			Documents: l.documents, Bytes: l.bytes, SHA256: hex.EncodeToString(digest[:]), Tokens: tokens,
		},
	})
}

// tooSmall is the error of a sample that gives only n segments.
func (l *Learner) tooSmall(n int) error {
	advice := fmt.Sprintf("use more text, or harris:%d at most", n)
	if n == 0 {
		advice = "use more text, or the tokenizer bytes"
	}
	return fmt.Errorf("learn %s: the sample of %d bytes in %d documents gives only %d segments: it is too small: %s",
		Spec{Segments: l.segments}, l.bytes, l.documents, n, advice)
}
