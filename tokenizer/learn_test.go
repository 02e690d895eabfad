package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const workedText = "read reads reader reading lead leads leader leading test tests tester testing rest rests resting 你好 你们"

// lexiconOf counts the words of documents.
func lexiconOf(docs ...string) *lexicon {
	words := newTable(maphash.MakeSeed())
	for _, doc := range docs {
		for rest := []byte(doc); len(rest) > 0; {
			word := rest[:wordEnd(rest)]
			words.add(word, maphash.Bytes(words.seed, word), 1)
			rest = rest[len(word):]
		}
	}
	return newLexicon(words)
}

// find returns the number of a word.
func (l *lexicon) find(t *testing.T, word string) int {
	t.Helper()
	for w := range l.len() {
		if string(l.text[l.start[w]:l.start[w+1]]) == word {
			return w
		}
	}
	t.Fatalf("no word %q", word)
	return 0
}

func TestWorkedExampleVarietiesAndCuts(t *testing.T) {
	l := lexiconOf(workedText)
	m := l.mirrored()
	forward, backward, cut := make([]uint32, len(l.text)), make([]uint32, len(l.text)), l.cuts()
	l.varieties(l.order(), forward)
	m.varieties(m.order(), backward)
	for _, c := range []struct {
		word, cuts string
		f, b       []uint32
	}{
		{" leading", "| |l|ead|ing|", []uint32{4, 1, 1, 1, 4, 1, 1}, []uint32{1, 2, 1, 1, 2, 1, 1}},
		{" reader", "| |r|e|ad|er|", []uint32{4, 1, 2, 1, 3, 1}, []uint32{1, 2, 1, 1, 2, 1}},
		{" tester", "| |test|er|", []uint32{4, 1, 1, 1, 4, 1}, []uint32{1, 1, 1, 1, 2, 1}},
	} {
		start := l.start[l.find(t, c.word)]
		end := start + uint32(len(c.word))
		var f, b []uint32
		shown := ""
		for at := start; at < end; at++ {
			if at > start {
				f = append(f, forward[at-1])
				b = append(b, backward[end-1-(at-start)])
			}
			if cut[at] {
				shown += "|"
			}
			shown += string(l.text[at])
		}
		if !slices.Equal(f, c.f) || !slices.Equal(b, c.b) || shown+"|" != c.cuts {
			t.Errorf("%q: F %v B %v cuts %s|, want F %v B %v cuts %s", c.word, f, b, shown, c.f, c.b, c.cuts)
		}
	}
}

// frequencies counts the pieces of a lexicon.
func frequencies(l *lexicon) map[string]uint32 {
	freq := map[string]uint32{}
	l.pieces(l.cuts(), func(piece []byte, n uint32) { freq[string(piece)] += n })
	return freq
}

func TestWorkedExampleCandidatesAndSegments(t *testing.T) {
	l := lexiconOf(workedText)
	freq := frequencies(l)
	for piece, n := range map[string]uint32{"ead": 8, "est": 6, " lead": 4, "ing": 4, "er": 3} {
		if freq[piece] != n {
			t.Errorf("candidate %q occurs %d times, want %d", piece, freq[piece], n)
		}
	}
	keys := l.candidates(l.cuts(), 2)
	s := newSelection(newCorpus(l, keys), func(Progress) error { return nil })
	all := make([]uint32, len(keys))
	for i := range all {
		all[i] = uint32(i)
	}
	s.set(all, true)
	if err := s.prune(8); err != nil { // pruned from all candidates, as the example was worked
		t.Fatal(err)
	}
	var got []string
	for _, k := range s.members() {
		got = append(got, string(keys[k]))
	}
	if want := []string{" lead", " read", " rest", " test", "er", "ing", "read", "你"}; !slices.Equal(got, want) {
		t.Errorf("the segments are %q, want %q", got, want)
	}
	tok := mustBuild(t, got...)
	if ids := tok.Encode(nil, []byte(" reading")); !slices.Equal(ids, []uint32{258, 262}) {
		t.Errorf(" reading is %v, want [ read][ing]", ids)
	}
}

func TestLearnGolden(t *testing.T) {
	tok, err := learn([]string{workedText}, 8)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range tok.Segments() {
		got = append(got, string(tok.segment(i)))
	}
	if want := []string{" lead", " test", " read", " rest", "read", " re", "lead", "test"}; !slices.Equal(got, want) {
		t.Errorf("the segments are %q, want %q", got, want)
	}
	if named := `"unicode": "` + unicode.Version + `"`; !strings.Contains(string(tok.Marshal()), named) {
		t.Errorf("the file does not say %s", named)
	}
}

// learn learns a tokenizer from whole documents.
func learn(docs []string, segments int) (*Tokenizer, error) {
	l, err := NewLearner(Spec{Segments: segments}, MaxSampleBytes)
	if err != nil {
		return nil, err
	}
	for _, doc := range docs {
		if n := l.Add([]byte(doc)); n != len(doc) {
			return nil, fmt.Errorf("the learner took %d of %d bytes", n, len(doc))
		}
	}
	return l.Learn(nil)
}

// prose makes documents of invented words with common stems and endings, in several scripts, some of them broken.
func prose(seed uint64, documents, words int) []string {
	rng := rand.New(rand.NewPCG(seed, 0))
	stems := []string{"read", "lead", "spek", "tréma", "gra", "你", "好们", "слов", "x1", "\xe4\xbd", "🙂", "_id"}
	ends := []string{"", "s", "ing", "er", "ers", "ation", "们", "о", "42", "\xff", "!", "()"}
	gaps := []string{" ", " ", " ", "\n", "  ", ", ", "\t"}
	docs := make([]string, documents)
	for i := range docs {
		var b strings.Builder
		for range words {
			b.WriteString(stems[rng.IntN(len(stems))] + stems[rng.IntN(len(stems))] + ends[rng.IntN(len(ends))])
			b.WriteString(gaps[rng.IntN(len(gaps))])
		}
		docs[i] = b.String()
	}
	return docs
}

func TestLearningIgnoresOrderAndThreads(t *testing.T) {
	docs := prose(1, 30, 200)
	first, err := learn(docs, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for procs := 1; procs <= 2; procs++ {
		runtime.GOMAXPROCS(procs)
		rand.New(rand.NewPCG(uint64(procs), 3)).Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
		again, err := learn(docs, 100)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Marshal(), first.Marshal()) {
			t.Fatalf("GOMAXPROCS %d, shuffled: another file", procs)
		}
	}
	other, err := learn(docs[1:], 100)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(other.Marshal(), first.Marshal()) {
		t.Error("with a document less, the file is the same")
	}
}

func TestLearntTokenizerSavesTokens(t *testing.T) {
	docs := prose(2, 20, 200)
	tok, err := learn(docs, 150)
	if err != nil {
		t.Fatal(err)
	}
	if tok.Spec().String() != "harris:150" || tok.Vocab() != 407 {
		t.Errorf("learnt %s with V %d", tok.Spec(), tok.Vocab())
	}
	text := []byte(prose(3, 1, 2000)[0])
	ids := tok.Encode(nil, text)
	if back, err := tok.Decode(nil, ids); err != nil || !bytes.Equal(back, text) {
		t.Fatalf("decoding: %v", err)
	}
	if ratio := float64(len(text)) / float64(len(ids)); ratio < 2.5 {
		t.Errorf("%.2f bytes a token", ratio)
	}
}

func TestSampleTooSmall(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"the theme then the theme", "gives only"},
		{"abc", "gives only 0 segments"},
		{"", "gives only 0 segments"},
	} {
		_, err := learn([]string{c.text}, 2048)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "harris:2048") {
			t.Fatalf("%q: %v", c.text, err)
		}
		var reached int
		if _, after, ok := strings.Cut(err.Error(), "gives only "); ok {
			fmt.Sscan(after, &reached)
		}
		if reached == 0 {
			continue
		}
		if _, err := learn([]string{c.text}, reached); err != nil {
			t.Errorf("%q: the size that the error advises fails: %v", c.text, err)
		}
		if _, err := learn([]string{c.text}, reached+1); err == nil {
			t.Errorf("%q: a size above the one reached was learnt", c.text)
		}
	}
}

func TestLearnerBudget(t *testing.T) {
	for _, c := range []struct {
		doc    string
		budget int64
		want   int
	}{
		{"abc", 3, 3}, {"abcd", 3, 3}, {"a你b", 3, 1}, {"a你b", 4, 4}, {"你", 2, 0}, {"a\xbd\xbd\xbd\xbd\xbd", 5, 2},
		{"\U0001F642!", 4, 4},
	} {
		l, err := NewLearner(Spec{Segments: 1}, c.budget)
		if err != nil {
			t.Fatal(err)
		}
		if n := l.Add([]byte(c.doc)); n != c.want || l.bytes != int64(c.want) {
			t.Errorf("%q, budget %d: took %d bytes, counted %d, want %d", c.doc, c.budget, n, l.bytes, c.want)
		}
	}
	for _, bad := range []struct {
		segments int
		budget   int64
	}{{0, 1}, {-1, 1}, {MaxSegments + 1, 1}, {1, 0}, {1, MaxSampleBytes + 1}} {
		if _, err := NewLearner(Spec{Segments: bad.segments}, bad.budget); err == nil {
			t.Errorf("%d segments, budget %d: no error", bad.segments, bad.budget)
		}
	}
}

func TestLearnReportsAndStops(t *testing.T) {
	stop := errors.New("stop")
	for at := 1; ; at++ {
		l, err := NewLearner(Spec{Segments: 60}, MaxSampleBytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range prose(4, 5, 200) {
			l.Add([]byte(doc))
		}
		var stages []Stage
		_, err = l.Learn(func(p Progress) error {
			stages = append(stages, p.Stage)
			if len(stages) == at {
				return stop
			}
			return nil
		})
		if err == nil {
			if want := []Stage{StageCandidates, StageGrow, StagePrune}; !slices.Equal(slices.Compact(stages), want) {
				t.Errorf("the stages were %v, want %v", slices.Compact(stages), want)
			}
			break
		}
		if err != stop || len(stages) != at {
			t.Fatalf("stopped at report %d: %v after %d", at, err, len(stages))
		}
		if _, err := l.Learn(nil); err == nil || l.Add([]byte("more")) != 0 {
			t.Fatal("a learner was used twice")
		}
	}
}

func TestChooseSample(t *testing.T) {
	sizes := make([]int64, 1000)
	for i := range sizes {
		sizes[i] = int64(i % 10)
	}
	chosen := ChooseSample(sizes, 450, 1)
	var total int64
	seen := map[int]bool{}
	for _, i := range chosen {
		if seen[i] || sizes[i] == 0 {
			t.Fatalf("document %d of %d bytes was drawn (again: %v)", i, sizes[i], seen[i])
		}
		seen[i] = true
		total += sizes[i]
	}
	if last := sizes[chosen[len(chosen)-1]]; total < 450 || total-last >= 450 {
		t.Errorf("drew %d bytes, the last document has %d, for a budget of 450", total, last)
	}
	if !slices.Equal(chosen, ChooseSample(sizes, 450, 1)) {
		t.Error("the same arguments gave another sample")
	}
	if slices.Equal(chosen, ChooseSample(sizes, 450, 2)) {
		t.Error("another seed gave the same sample")
	}
	if slices.IsSorted(chosen) || slices.Max(chosen) < 900 || slices.Min(chosen) > 100 {
		t.Errorf("the sample is no fair draw: %v", chosen)
	}
	if all := ChooseSample(sizes, 1<<40, 1); len(all) != 900 {
		t.Errorf("a budget for all drew %d of 900 documents", len(all))
	}
	if none := ChooseSample(sizes, 0, 1); len(none) != 0 {
		t.Errorf("no budget drew %v", none)
	}
	if got, want := ChooseSample([]int64{5, 5, 0, 5, 5}, 100, 7), []int{4, 1, 0, 3}; !slices.Equal(got, want) {
		t.Errorf("seed 7 draws %v, want %v", got, want)
	}
}
