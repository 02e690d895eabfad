package sim

import "andrea/numeric"

// chance is a stream of draws. Two streams of one seed and different names are independent.
type chance struct{ key, count uint64 }

func newChance(seed uint64, name uint64) *chance {
	return &chance{key: numeric.Mix64(numeric.Mix64(seed) ^ name)}
}

func (c *chance) next() uint64 {
	c.count++
	return numeric.Mix64(c.key + c.count*0x9e3779b97f4a7c15)
}

// below is one of 0 to n-1.
func (c *chance) below(n int) int { return int(c.next() % uint64(n)) }

// between is one of lo to hi.
func (c *chance) between(lo, hi int64) int64 { return lo + int64(c.next()%uint64(hi-lo+1)) }

// happens is true with probability p.
func (c *chance) happens(p float64) bool { return p > 0 && float64(c.next()>>11)/(1<<53) < p }

// pick is one of the values.
func pick[T any](c *chance, values ...T) T { return values[c.below(len(values))] }
