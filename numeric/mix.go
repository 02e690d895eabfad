package numeric

// golden is 2^64 divided by the golden ratio, and odd: adding it again and again goes through all
// 64-bit numbers.
const golden = 0x9e3779b97f4a7c15

// Mix64 is number x of a sequence that looks random: a bijection of the 64-bit numbers in which every
// bit of x changes about half of the result's. It is SplitMix64 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", 2014) as a function of its state.
func Mix64(x uint64) uint64 { return Finalize64(x + golden) }

// Finalize64 is the second half of Mix64, for an x that is scattered already: it leaves 0 as it is.
func Finalize64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
