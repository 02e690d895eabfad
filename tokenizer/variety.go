package tokenizer

// minVariety is the least variety at a boundary: a certain continuation is none.
const minVariety = 2

// varieties fills v, of the length of text, with the letter variety after every prefix: for the prefix that ends with the
// byte text[i], element i is the number of distinct letters that follow that prefix over all words, the end of a word
// counting as one letter. Elements inside a letter mean nothing.
func (l *lexicon) varieties(order, v []uint32) {
	clear(v)
	for w := range l.len() {
		v[l.start[w+1]-1] = 1 // the end; a word is the first of all words that begin with it
	}
	l.walk(order, func(at, node, parent uint32) {
		if at == node && parent != noNode {
			v[parent]++
		}
	})
	l.walk(order, func(at, node, _ uint32) { v[at] = v[node] })
}

const noNode = 1<<32 - 1

// walk visits the prefixes of every word as nodes of the trie of letters, without building it: a node goes by the place
// of its last byte in the first word that has it, and at is that place in the word at hand. So at == node on the first
// visit. The parent is the node one letter shorter, noNode for the root.
func (l *lexicon) walk(order []uint32, visit func(at, node, parent uint32)) {
	var path [maxWordBytes + 1]uint32 // the nodes of the word before, by letters
	var before []byte
	wasTorn := false
	for _, w := range order {
		if torn := int(w) >= l.broken; torn != wasTorn {
			before, wasTorn = nil, torn // the same bytes would be other letters
		}
		start := l.start[w]
		word := l.text[start:l.start[w+1]]
		parent, shared := uint32(noNode), true
		for depth, from := 0, 0; from < len(word); depth++ {
			to := from + l.letterSize(int(w), word[from])
			at := start + uint32(to) - 1
			shared = shared && to <= len(before) && string(before[from:to]) == string(word[from:to])
			if !shared {
				path[depth] = at
			}
			visit(at, path[depth], parent)
			parent, from = path[depth], to
		}
		before = word
	}
}

// peaks returns the boundaries that peaks of variety propose: element i is whether a word is cut before its byte i of
// text. With F_x the variety after x of the word's n letters, x = 1..n-1, that is where F_x is at least minVariety,
// above F_(x-1) and not below F_(x+1); F_0 and F_n count as -1. It uses v, of the length of text, as scratch.
func (l *lexicon) peaks(order, v []uint32) []bool {
	l.varieties(order, v)
	cut := make([]bool, len(l.text), len(l.text)+1)
	for w := range l.len() {
		end := l.start[w+1]
		last := int64(-1)
		for at := l.start[w]; at < end; {
			at += uint32(l.letterSize(w, l.text[at]))
			if at == end {
				break
			}
			here, next := int64(v[at-1]), int64(-1)
			if after := at + uint32(l.letterSize(w, l.text[at])); after < end {
				next = int64(v[after-1])
			}
			cut[at] = here >= minVariety && here > last && here >= next
			last = here
		}
	}
	return cut
}

// cuts returns where words are cut: at peaks of the variety after a prefix, at peaks of the variety before a suffix, and
// at both ends. Element i is for byte i of text, with one more for the end.
func (l *lexicon) cuts() []bool {
	v := make([]uint32, len(l.text))
	cut := l.peaks(l.order(), v)
	m := l.mirrored()
	back := m.peaks(m.order(), v)
	for w := range l.len() {
		start, end := l.start[w], l.start[w+1]
		cut[start] = true
		for at := start + 1; at < end; at++ {
			cut[at] = cut[at] || back[start+end-at]
		}
	}
	return append(cut, true)
}
