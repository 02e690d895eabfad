package tokenizer

import (
	"cmp"
	"slices"
)

// selection chooses members among the candidates of a corpus: it grows past the number wanted, then prunes.
type selection struct {
	corpus *corpus
	member []bool
	size   int // the number of members
	report func(Progress) error
}

func newSelection(c *corpus, report func(Progress) error) *selection {
	return &selection{corpus: c, member: make([]bool, len(c.size)), report: report}
}

// topOf returns how far the selection for n members grows.
func topOf(n int) int { return 5 * n / 4 }

// grow adds the candidates of greatest gain, some in each round, until there are top members or none gains. Ties go to
// the longer, then to the bytewise smaller.
func (s *selection) grow(top int) error {
	for s.size < top {
		if err := s.report(Progress{Stage: StageGrow, Segments: s.size}); err != nil {
			return err
		}
		gain := s.corpus.round(s.member).gain
		var found []uint32
		for k, g := range gain {
			if !s.member[k] && g > 0 {
				found = append(found, uint32(k))
			}
		}
		if len(found) == 0 {
			return nil
		}
		slices.SortFunc(found, func(a, b uint32) int {
			if c := cmp.Compare(gain[b], gain[a]); c != 0 {
				return c
			}
			return s.tie(a, b)
		})
		n := min(max(32, s.size/4), top-s.size, len(found))
		s.set(found[:n], true)
	}
	return nil
}

// prune drops the members of least loss, some in each round, until there are n. Ties fall in the reverse of grow's
// order.
func (s *selection) prune(n int) error {
	for s.size > n {
		if err := s.report(Progress{Stage: StagePrune, Segments: s.size}); err != nil {
			return err
		}
		loss := s.corpus.round(s.member).loss
		members := s.members()
		slices.SortFunc(members, func(a, b uint32) int {
			if c := cmp.Compare(loss[a], loss[b]); c != 0 {
				return c
			}
			return s.tie(b, a)
		})
		over := s.size - n
		s.set(members[:min(max(16, 3*over/10), over)], false)
	}
	return nil
}

// tie puts the longer candidate first, then the bytewise smaller, which has the smaller number.
func (s *selection) tie(a, b uint32) int {
	return cmp.Or(cmp.Compare(s.corpus.size[b], s.corpus.size[a]), cmp.Compare(a, b))
}

// set makes candidates members, or no longer.
func (s *selection) set(candidates []uint32, member bool) {
	for _, k := range candidates {
		s.member[k] = member
	}
	if member {
		s.size += len(candidates)
	} else {
		s.size -= len(candidates)
	}
}

// members returns the members, bytewise sorted.
func (s *selection) members() []uint32 {
	all := make([]uint32, 0, s.size)
	for k, in := range s.member {
		if in {
			all = append(all, uint32(k))
		}
	}
	return all
}

// ranked returns the members by falling use, ties bytewise, and the tokens of the sample that they make.
func (s *selection) ranked() ([]uint32, int64) {
	last := s.corpus.round(s.member)
	members := s.members()
	slices.SortFunc(members, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(last.use[b], last.use[a]), cmp.Compare(a, b))
	})
	return members, last.tokens
}
