package tokenizer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"
)

// letters splits a word by the definition.
func letters(word string) []string {
	var all []string
	for len(word) > 0 {
		_, size := utf8.DecodeRuneInString(word)
		all = append(all, word[:size])
		word = word[size:]
	}
	return all
}

// naiveVarieties counts by the definition: for every prefix of letters, the distinct letters after it, and the end.
func naiveVarieties(words [][]string) map[string]int {
	next := map[string]map[string]bool{}
	for _, word := range words {
		for x := 0; x <= len(word); x++ {
			prefix, letter := fmt.Sprintf("%q", word[:x]), ""
			if x < len(word) {
				letter = word[x]
			}
			if next[prefix] == nil {
				next[prefix] = map[string]bool{}
			}
			next[prefix][letter] = true
		}
	}
	count := map[string]int{}
	for prefix, set := range next {
		count[prefix] = len(set)
	}
	return count
}

// naiveCuts gives the cuts of a word, in letters, by the definition.
func naiveCuts(word []string, forward, backward map[string]int) []int {
	n := len(word)
	f := func(x int) int {
		if x == 0 || x == n {
			return -1
		}
		return forward[fmt.Sprintf("%q", word[:x])]
	}
	b := func(x int) int {
		if x == 0 || x == n {
			return -1
		}
		suffix := slices.Clone(word[x:])
		slices.Reverse(suffix)
		return backward[fmt.Sprintf("%q", suffix)]
	}
	var cuts []int
	for x := 1; x < n; x++ {
		if f(x) >= 2 && f(x) > f(x-1) && f(x) >= f(x+1) || b(x) >= 2 && b(x) > b(x+1) && b(x) >= b(x-1) {
			cuts = append(cuts, x)
		}
	}
	return cuts
}

func TestCutsFollowTheDefinition(t *testing.T) {
	l := lexiconOf(prose(5, 10, 300)...)
	var words, mirrored [][]string
	for w := range l.len() {
		word := letters(string(l.text[l.start[w]:l.start[w+1]]))
		words = append(words, word)
		back := slices.Clone(word)
		slices.Reverse(back)
		mirrored = append(mirrored, back)
	}
	forward, backward := naiveVarieties(words), naiveVarieties(mirrored)
	cut := l.cuts()
	if len(cut) != len(l.text)+1 || !cut[len(l.text)] {
		t.Fatal("there is no cut at the end")
	}
	for w, word := range words {
		want := []int{0}
		for _, x := range naiveCuts(word, forward, backward) {
			want = append(want, byteLen(word[:x]))
		}
		var got []int
		for i := range int(l.start[w+1] - l.start[w]) {
			if cut[int(l.start[w])+i] {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("word %q is cut at %v, the definition says %v", word, got, want)
		}
	}
}

func byteLen(letters []string) int {
	n := 0
	for _, l := range letters {
		n += len(l)
	}
	return n
}

func TestCandidatesAreThePiecesOftenEnough(t *testing.T) {
	l := lexiconOf(prose(6, 10, 300)...)
	freq := frequencies(l)
	for _, minFreq := range []uint32{2, 5, 40} {
		var want []string
		for piece, n := range freq {
			if n >= minFreq {
				want = append(want, piece)
			}
		}
		slices.Sort(want)
		var got []string
		for _, k := range l.candidates(l.cuts(), minFreq) {
			got = append(got, string(k))
		}
		if !slices.Equal(got, want) {
			t.Errorf("min_freq %d: %d candidates, want %d", minFreq, len(got), len(want))
		}
	}
}

// tokensOf encodes every word of l with the members and adds up the tokens of those that keep accepts.
func tokensOf(l *lexicon, keys [][]byte, member []bool, keep func(word []byte) bool) int64 {
	var chosen [][]byte
	for k, in := range member {
		if in {
			chosen = append(chosen, keys[k])
		}
	}
	total := int64(0)
	for w := range l.len() {
		if word := l.text[l.start[w]:l.start[w+1]]; keep(word) {
			total += int64(l.count[w]) * int64(len(naiveEncode(chosen, word)))
		}
	}
	return total
}

func TestGainAndLossAreWhatEncodingAgainShows(t *testing.T) {
	l := lexiconOf("abcab abcd bcda abcab cdab dabc dab bcd abcdabcd")
	keys := l.candidates(l.cuts(), 1)
	rng := rand.New(rand.NewPCG(7, 7))
	gains, losses := 0, 0
	for range 50 {
		member := make([]bool, len(keys))
		for k := range member {
			member[k] = rng.IntN(2) == 0
		}
		for k, key := range keys {
			once := func(word []byte) bool { return bytes.Count(word, key) <= 1 && !selfOverlaps(word, key) }
			got, sum := tallyOf(l, keys, member, once), int64(0)
			base := tokensOf(l, keys, member, once)
			if got.tokens != base {
				t.Fatalf("%d tokens, the naive encoding has %d", got.tokens, base)
			}
			member[k] = !member[k]
			sum = tokensOf(l, keys, member, once)
			member[k] = !member[k]
			if member[k] {
				losses++
				if got.loss[k] != sum-base {
					t.Fatalf("loss of %q is %d, encoding again says %d", key, got.loss[k], sum-base)
				}
				continue
			}
			gains++
			if got.gain[k] != base-sum {
				t.Fatalf("gain of %q is %d, encoding again says %d", key, got.gain[k], base-sum)
			}
		}
	}
	if gains < 100 || losses < 100 {
		t.Errorf("only %d gains and %d losses were compared", gains, losses)
	}
}

// selfOverlaps reports whether key occurs in word at two places that touch.
func selfOverlaps(word, key []byte) bool {
	at := bytes.Index(word, key)
	return at >= 0 && bytes.Contains(word[at+1:], key)
}

// tallyOf runs a round on the words that keep accepts.
func tallyOf(l *lexicon, keys [][]byte, member []bool, keep func(word []byte) bool) *tally {
	part := &lexicon{start: []uint32{0}}
	for w := range l.len() {
		if word := l.text[l.start[w]:l.start[w+1]]; keep(word) {
			part.text = append(part.text, word...)
			part.start = append(part.start, uint32(len(part.text)))
			part.count = append(part.count, l.count[w])
		}
	}
	part.broken = part.len()
	return newCorpus(part, keys).round(member)
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"read the book", []string{"read", " the", " book"}},
		{"if x1 := 你好、ab", []string{"if", " x", "1", " :=", " 你好", "、", "ab"}},
		{"a  b\n c ", []string{"a", "  ", "b", "\n ", "c", " "}},
		{"a\tb", []string{"a", "\t", "b"}},
		{"e\u0301t\u00e9 \u00b2", []string{"e\u0301t\u00e9", " \u00b2"}},
		{" \xff\xfe!", []string{" ", "\xff\xfe", "!"}},
		{"\xe4\xbdab\xe4", []string{"\xe4\xbd", "ab", "\xe4"}},
		{"\u00a0x\uFFFD", []string{"\u00a0", "x", "\uFFFD"}},
	} {
		var got []string
		for rest := []byte(c.text); len(rest) > 0; {
			end := wordEnd(rest)
			got = append(got, string(rest[:end]))
			rest = rest[end:]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q is %q, want %q", c.text, got, c.want)
		}
	}
}

func TestLongWordsAreCutAtLetters(t *testing.T) {
	text := bytes.Repeat([]byte("你"), 3000)
	for len(text) > 0 {
		end := wordEnd(text)
		if end > maxWordBytes || !utf8.Valid(text[:end]) {
			t.Fatalf("a word of %d bytes", end)
		}
		text = text[end:]
	}
	spaced := append([]byte(" "), bytes.Repeat([]byte("a"), 2*maxWordBytes)...)
	if end := wordEnd(spaced); end != maxWordBytes+1 {
		t.Errorf("the word after a space has %d bytes", end)
	}
	if _, err := learn(append(prose(8, 1, 100), string(bytes.Repeat(spaced, 3))), 10); err != nil {
		t.Errorf("learning from long words: %v", err)
	}
}
