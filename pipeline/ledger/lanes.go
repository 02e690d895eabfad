package ledger

import (
	"fmt"
	"math"

	"andrea/model"
	"andrea/pipeline"
)

// lane is what a lease says of one lane.
type lane struct {
	lossSum pipeline.Float
	tokens  model.Digest
}

// lanesOf checks that the leases of an intent cut the lanes into whole subtrees of the reduction tree, in order and
// without gap or overlap, and returns what they say by lane. ok is false when they do not.
func lanesOf(i pipeline.Intent, lanes int, f *faults) (by []lane, ok bool) {
	before := len(f.all)
	next := 0
	for n, l := range i.Leases {
		size := l.Hi - l.Lo
		switch {
		case l.Lo < 0 || l.Hi > lanes || size < 1 || size&(size-1) != 0 || l.Lo%size != 0:
			f.add("lease %d has lanes [%d, %d): that is no subtree of the %d lanes", n, l.Lo, l.Hi, lanes)
			return nil, false
		case l.Lo != next:
			f.add("lease %d begins at lane %d: the leases before it end at lane %d: every lane must be in one of them", n, l.Lo, next)
		}
		next = l.Hi
		f.want(len(l.LossSums) == size, "the number of losses of "+name(l), len(l.LossSums), size)
		f.want(len(l.TokenDigests) == size, "the number of token digests of "+name(l), len(l.TokenDigests), size)
		if len(l.LossSums) != size || len(l.TokenDigests) != size {
			return nil, false
		}
		for lo := range size {
			by = append(by, lane{l.LossSums[lo], l.TokenDigests[lo]})
		}
	}
	if next != lanes {
		f.add("the leases end at lane %d: there are %d", next, lanes)
	}
	return by, len(f.all) == before
}

// place is a range of lanes for people.
func place(lo, hi int) string { return fmt.Sprintf("lanes [%d, %d)", lo, hi) }

// name is a lease for people.
func name(l pipeline.LeaseRecord) string {
	return fmt.Sprintf("%s of worker %.80q", place(l.Lo, l.Hi), l.Worker)
}

// same reports whether both have the same bits, or neither is a number.
func same(a, b pipeline.Float) bool {
	return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) || a != a && b != b
}

// same32 is same for float32.
func same32(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// finite reports whether f is a number.
func finite(f pipeline.Float) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }
