//go:build cuda && cgo && linux

package cudaengine

import "andrea/model"

// sorter orders the rows of a batch by token, so that one block of the device adds up all rows of a token, in order.
type sorter struct {
	place []uint32 // [V] rows of a token while counting, then one more than its index among ids
}

func newSorter(vocab int) sorter { return sorter{make([]uint32, vocab)} }

// sort writes the different input tokens of a batch to ids, in the order in which they first occur, their rows one
// token after the other to order, and where the rows of ids[i] begin to starts[i], with the number of rows behind the
// last. It returns how many tokens there are. order and ids have room for all rows, starts for one more.
func (s sorter) sort(b model.Batch, order, starts, ids []uint32) int {
	count := s.count(b, starts, ids)
	begin := uint32(0)
	for i := range count {
		rows := starts[i]
		starts[i] = begin
		begin += rows
	}
	starts[count] = begin
	for r := range b.Windows * b.T {
		i := s.place[inputToken(b, r)] - 1
		order[starts[i]] = uint32(r)
		starts[i]++ // ends as the start of the next
	}
	copy(starts[1:count+1], starts[:count])
	starts[0] = 0
	for _, id := range ids[:count] {
		s.place[id] = 0
	}
	return count
}

// count fills ids and leaves in starts[i] how often ids[i] occurs.
func (s sorter) count(b model.Batch, starts, ids []uint32) int {
	count := 0
	for r := range b.Windows * b.T {
		id := inputToken(b, r)
		if s.place[id] == 0 {
			ids[count], starts[count] = id, 0
			count++
			s.place[id] = uint32(count)
		}
		starts[s.place[id]-1]++
	}
	return count
}

// inputToken is the token of row r, which is position r%T of window r/T.
func inputToken(b model.Batch, r int) uint32 { return b.Tokens[r+r/b.T] }
