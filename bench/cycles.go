package bench

// addsPerRound is how many dependent additions a round of chain has.
const addsPerRound = 32

// chain runs rounds of additions (and exclusive-ors, so that no compiler joins them) each of
// which waits for the one before. A processor takes exactly one cycle for each, as both
// operands are registers: so it is a clock that ticks in cycles.
//
//go:noinline
func chain(rounds int, a, b uint64) uint64 {
	x := a
	for range rounds {
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
	}
	return x
}
