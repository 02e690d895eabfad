package tokenizer

import "hash/maphash"

// table counts byte strings. Its hash differs from run to run, so nothing may depend on the order of its entries but
// after sorting. Text and counts stay below 2^32.
type table struct {
	seed  maphash.Seed
	slots []uint64 // the high half of an entry's hash, then its index + 1; 0 is empty
	text  []byte   // the entries, concatenated
	start []uint32 // where each entry begins, and where the last one ends
	count []uint32
}

func newTable(seed maphash.Seed) *table {
	return &table{seed: seed, slots: make([]uint64, 1<<10), start: make([]uint32, 1)}
}

func (t *table) len() int { return len(t.count) }

func (t *table) entry(i uint32) []byte { return t.text[t.start[i]:t.start[i+1]] }

// add adds n to the count of key, whose hash under the table's seed is h.
func (t *table) add(key []byte, h uint64, n uint32) {
	mask := uint64(len(t.slots) - 1)
	at := h & mask
	for ; t.slots[at] != 0; at = (at + 1) & mask {
		if t.slots[at]>>32 != h>>32 {
			continue
		}
		i := uint32(t.slots[at]) - 1
		if string(t.entry(i)) == string(key) {
			t.count[i] += n
			return
		}
	}
	t.text = append(t.text, key...)
	t.start = append(t.start, uint32(len(t.text)))
	t.count = append(t.count, n)
	t.slots[at] = h>>32<<32 | uint64(t.len())
	if 4*t.len() > 3*len(t.slots) {
		t.rehash()
	}
}

// rehash doubles the slots.
func (t *table) rehash() {
	t.slots = make([]uint64, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for i := range uint32(t.len()) {
		h := maphash.Bytes(t.seed, t.entry(i))
		at := h & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = h>>32<<32 | uint64(i+1)
	}
}
