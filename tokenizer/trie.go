package tokenizer

// trie is a double array (after Aoe, 1989): state s goes on with byte b to state base[s]+b, if that state's check
// says s. State 0 is the root and states 1 to 256 are the single bytes, whether keys begin with them or not, so a
// search starts at state 1+b without a look-up.
type trie struct {
	cells []cell // at least 256 more than the greatest base, so that base[s]+b always exists
}

type cell struct {
	base  int32
	check int32 // the state before this one; or free, or root
	token int32 // what the path to this state stands for; none if it is not a whole key
}

const (
	free = -1 // check of a cell that no state uses
	root = -2 // check of the root, which no state goes on to
	none = -1 // token of a state that is no key

	rowCells = 256

	// maxProbe caps the search for a place, so that a hostile set of keys costs memory in proportion, not time squared.
	maxProbe = 1024
)

// newTrie builds the trie of keys, which are sorted bytewise, distinct and at least 2 bytes long. Key i stands for
// token[i] >= 0.
func newTrie(keys [][]byte, token []int32) trie {
	b := trieBuilder{keys: keys, token: token, next: 1 + rowCells}
	b.grow(1 + 2*rowCells)
	b.cells[0] = cell{base: 1, check: root, token: none}
	for c := range int32(rowCells) {
		b.cells[1+c] = cell{check: 0, token: none}
	}
	if len(keys) > 0 {
		b.claim(span{hi: len(keys)}, b.children(span{hi: len(keys)}), 1)
	}
	for len(b.queue) > 0 {
		s := b.queue[0]
		b.queue = b.queue[1:]
		b.expand(s)
	}
	return trie{cells: b.cells}
}

// span is a state whose children are still to be placed: keys[lo:hi] go through it, and it is depth bytes deep.
type span struct {
	state  int32
	lo, hi int
	depth  int
}

// child is one way on from a state: by byte b, for the keys up to hi.
type child struct {
	b  byte
	hi int
}

// trieBuilder places states breadth first, so that the states near the root, which every search visits, lie together.
type trieBuilder struct {
	keys  [][]byte
	token []int32
	cells []cell
	queue []span
	kids  []child // scratch of children
	next  int     // no cell below this one is worth a try
}

// expand gives the state of s its token and places its children.
func (b *trieBuilder) expand(s span) {
	if len(b.keys[s.lo]) == s.depth {
		b.cells[s.state].token = b.token[s.lo]
		s.lo++
	}
	if s.lo == s.hi {
		return // base stays 0: no cell there names this state
	}
	kids := b.children(s)
	base := b.place(kids)
	b.cells[s.state].base = int32(base)
	b.claim(s, kids, base)
}

// children lists the ways on from s; the list is good until the next call.
func (b *trieBuilder) children(s span) []child {
	b.kids = b.kids[:0]
	for lo := s.lo; lo < s.hi; {
		kid := child{b: b.keys[lo][s.depth]}
		for lo < s.hi && b.keys[lo][s.depth] == kid.b {
			lo++
		}
		kid.hi = lo
		b.kids = append(b.kids, kid)
	}
	return b.kids
}

// place returns a base at which the cells of all kids are free.
func (b *trieBuilder) place(kids []child) int {
	for b.cells[b.next].check != free {
		b.next++
		b.grow(b.next + 1)
	}
	first := int(kids[0].b)
	for at := max(b.next, first+1); at < b.next+maxProbe; at++ {
		base := at - first
		b.grow(base + rowCells)
		if b.fits(kids, base) {
			return base
		}
	}
	b.next += rowCells / 4 // this region is nearly full: leave its last holes
	base := len(b.cells)
	b.grow(base + rowCells)
	return base
}

// fits reports whether all kids find free cells at base.
func (b *trieBuilder) fits(kids []child, base int) bool {
	for _, kid := range kids {
		if b.cells[base+int(kid.b)].check != free {
			return false
		}
	}
	return true
}

// claim takes the cells of the kids of s at base and queues them.
func (b *trieBuilder) claim(s span, kids []child, base int) {
	lo := s.lo
	for _, kid := range kids {
		state := int32(base) + int32(kid.b)
		b.cells[state].check = s.state
		b.queue = append(b.queue, span{state: state, lo: lo, hi: kid.hi, depth: s.depth + 1})
		lo = kid.hi
	}
}

// grow makes at least n cells.
func (b *trieBuilder) grow(n int) {
	for len(b.cells) < n {
		b.cells = append(b.cells, cell{check: free, token: none})
	}
}

// encode appends the greedy longest-match encoding of text to dst.
func (t trie) encode(dst []uint32, text []byte) []uint32 {
	cells := t.cells
	for i := 0; i < len(text); {
		best, end := uint32(text[i]), i+1
		state := 1 + int32(text[i])
		for j := end; j < len(text); j++ {
			next := cells[state].base + int32(text[j])
			c := cells[next]
			if c.check != state {
				break
			}
			state = next
			if c.token != none {
				best, end = uint32(c.token), j+1
			}
		}
		dst = append(dst, best)
		i = end
	}
	return dst
}

// matches appends to dst the tokens of all keys that text begins with, shortest first. The text is not empty.
func (t trie) matches(dst []uint32, text []byte) []uint32 {
	state := 1 + int32(text[0])
	for _, b := range text[1:] {
		next := t.cells[state].base + int32(b)
		c := t.cells[next]
		if c.check != state {
			break
		}
		state = next
		if c.token != none {
			dst = append(dst, uint32(c.token))
		}
	}
	return dst
}
