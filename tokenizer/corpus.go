package tokenizer

// corpus is the sample as the selection sees it: every place of every word with the candidates that match there inside
// the word.
type corpus struct {
	start []uint32 // where each word begins among the places, and where the last one ends
	count []uint32 // how often each word occurs in the sample
	per   []uint8  // at each place, the number of matches; a place is a byte of a word
	match []uint32 // the matching candidates, place after place, shortest first
	size  []uint8  // the length in bytes of each candidate
}

// newCorpus matches candidates, sorted bytewise, against the words of l.
func newCorpus(l *lexicon, keys [][]byte) *corpus {
	c := &corpus{start: l.start, count: l.count, per: make([]uint8, len(l.text)), size: make([]uint8, len(keys))}
	ids := make([]int32, len(keys))
	for i, k := range keys {
		ids[i] = int32(i)
		c.size[i] = uint8(len(k))
	}
	t := newTrie(keys, ids)
	var found [maxCandidateBytes]uint32
	total := 0
	l.places(func(at uint32, rest []byte) {
		n := len(t.matches(found[:0], rest))
		c.per[at] = uint8(n)
		total += n
	})
	c.match = make([]uint32, 0, total) // counted first: grown by append, it would need twice the memory for a while
	l.places(func(_ uint32, rest []byte) { c.match = t.matches(c.match, rest) })
	return c
}

// places visits every byte of every word, in order, with the rest of its word.
func (l *lexicon) places(visit func(at uint32, rest []byte)) {
	for w := range l.len() {
		end := l.start[w+1]
		for at := l.start[w]; at < end; at++ {
			visit(at, l.text[at:end])
		}
	}
}

// tally is what one round finds out about each candidate.
type tally struct {
	gain   []int64 // of a non-member: the tokens that the sample would save with it
	loss   []int64 // of a member: the tokens that the sample would cost more without it
	use    []int64 // of a member: how often it is a token
	tokens int64   // the tokens of the sample, encoded word by word
}

// round encodes every word by greedy longest match with the members, and tallies what one candidate more or less would
// change. For a candidate whose places in a word do not touch each other, gain and loss are exact.
func (c *corpus) round(member []bool) *tally {
	n := len(c.size)
	out := &tally{gain: make([]int64, n), loss: make([]int64, n), use: make([]int64, n)}
	var s scratch
	first := uint32(0)
	for w, count := range c.count {
		places := c.per[c.start[w]:c.start[w+1]]
		first = s.encode(c, places, first, member)
		out.tokens += int64(count) * int64(s.cost[0])
		s.tally(c, len(places), int64(count), member, out)
	}
	return out
}

// scratch holds the encoding of one word, by places.
type scratch struct {
	first [maxWordBytes + 2]uint32 // the first match; one more for the end
	best  [maxWordBytes + 2]uint32 // one past the match that is the longest member; first if there is none
	cost  [maxWordBytes + 2]int32  // the tokens of the rest of the word from here
}

// encode fills s for a word whose matches begin at first, and returns where they end.
func (s *scratch) encode(c *corpus, places []uint8, first uint32, member []bool) uint32 {
	for i, n := range places {
		s.first[i] = first
		first += uint32(n)
	}
	n := len(places)
	s.first[n] = first
	s.cost[n] = 0
	for i := n - 1; i >= 0; i-- {
		best := s.first[i+1]
		for best > s.first[i] && !member[c.match[best-1]] {
			best--
		}
		s.best[i] = best
		s.cost[i] = 1 + s.cost[i+c.width(s, i, best)]
	}
	return first
}

// width returns the bytes of a token at place i: of the match before end, or one byte if there is none.
func (c *corpus) width(s *scratch, i int, end uint32) int {
	if end == s.first[i] {
		return 1
	}
	return int(c.size[c.match[end-1]])
}

// tally walks the tokens of the word in s, of n bytes, and adds what each place tells about the candidates there.
func (s *scratch) tally(c *corpus, n int, count int64, member []bool, out *tally) {
	for i := 0; i < n; {
		best := s.best[i]
		for _, k := range c.match[best:s.first[i+1]] {
			out.gain[k] += count * int64(s.cost[i]-1-s.cost[i+int(c.size[k])])
		}
		width := c.width(s, i, best)
		if best > s.first[i] {
			alt := best - 1
			for alt > s.first[i] && !member[c.match[alt-1]] {
				alt--
			}
			k := c.match[best-1]
			out.use[k] += count
			out.loss[k] += count * int64(1+s.cost[i+c.width(s, i, alt)]-s.cost[i])
		}
		i += width
	}
}
