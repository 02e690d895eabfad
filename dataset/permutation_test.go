package dataset

import (
	"fmt"
	"math"
	"testing"
)

func TestPermutationIsBijective(t *testing.T) {
	for n := uint64(1); n <= 2000; n++ {
		p := NewPermutation(n, 7, n)
		seen := make([]bool, n)
		for i := range n {
			x := p.At(i)
			if x >= n || seen[x] {
				t.Fatalf("n=%d: At(%d) = %d is out of range or came before", n, i, x)
			}
			seen[x] = true
		}
	}
}

func TestPermutationOfHugeDomains(t *testing.T) {
	for _, n := range []uint64{1<<32 - 1, 1 << 32, 1<<32 + 1, 1_000_000_000_000, 1 << 62, math.MaxUint64} {
		p := NewPermutation(n, 1, 2)
		seen := map[uint64]bool{}
		for i := range uint64(5000) {
			for _, at := range []uint64{i, n - 1 - i} {
				x := p.At(at)
				if x >= n || seen[x] {
					t.Fatalf("n=%d: At(%d) = %d is out of range or came before", n, at, x)
				}
				seen[x] = true
			}
		}
	}
}

func TestPermutationOutsideItsDomain(t *testing.T) {
	for _, n := range []uint64{0, 1, 300} {
		p := NewPermutation(n, 1, 1)
		for _, i := range []uint64{n, n + 1, math.MaxUint64} {
			if x := p.At(i); x != i {
				t.Errorf("n=%d: At(%d) = %d, want it unchanged", n, i, x)
			}
		}
	}
}

// The order is part of what a run means: other numbers here are another training run for everybody.
func TestPermutationGolden(t *testing.T) {
	for _, test := range []struct {
		n, seed, epoch uint64
		want           string
	}{
		{10, 1, 0, goldenTen},
		{10, 1, 1, goldenTenNextEpoch},
		{1_000_000_000_000, 42, 3, goldenHuge},
	} {
		p := NewPermutation(test.n, test.seed, test.epoch)
		var got []uint64
		for i := range uint64(10) {
			got = append(got, p.At(i))
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("n=%d seed=%d epoch=%d: %v, want %s", test.n, test.seed, test.epoch, got, test.want)
		}
	}
}

// All 24 orders of 4 numbers must be equally likely over seeds, and over epochs. The bound is the
// 1-1e-6 quantile of chi-square with 23 degrees of freedom; the keys are fixed, so nothing is random.
func TestPermutationOrdersAreEven(t *testing.T) {
	const trials, bound = 24_000, 73.0
	for name, key := range map[string]func(i uint64) (seed, epoch uint64){
		"seeds":        func(i uint64) (uint64, uint64) { return i, 0 },
		"epochs":       func(i uint64) (uint64, uint64) { return 1, i },
		"both at once": func(i uint64) (uint64, uint64) { return i, i },
	} {
		counts := map[[4]uint64]int{}
		for i := range uint64(trials) {
			seed, epoch := key(i)
			p := NewPermutation(4, seed, epoch)
			counts[[4]uint64{p.At(0), p.At(1), p.At(2), p.At(3)}]++
		}
		if len(counts) != 24 {
			t.Errorf("%s: %d of 24 orders occur", name, len(counts))
		}
		sum := 0.0
		for _, count := range counts {
			d := float64(count) - trials/24
			sum += d * d / (trials / 24)
		}
		if sum > bound {
			t.Errorf("%s: chi-square %.1f exceeds %.0f", name, sum, bound)
		}
	}
}

// Neighbours in an order, and the same place in two epochs, must be unrelated: 5 standard deviations
// of the correlation of n independent pairs.
func TestPermutationIsUncorrelated(t *testing.T) {
	const n = 200_003
	a, b := NewPermutation(n, 1, 0), NewPermutation(n, 1, 1)
	var serial, epochs, input float64
	centred := func(x uint64) float64 { return (float64(x) - (n-1)/2.0) / n }
	for i := range uint64(n) {
		here := centred(a.At(i))
		serial += here * centred(a.At((i+1)%n))
		epochs += here * centred(b.At(i))
		input += here * centred(i)
	}
	for name, sum := range map[string]float64{"neighbours": serial, "epochs": epochs, "position": input} {
		if r := sum * 12 / n; math.Abs(r) > 5/math.Sqrt(n) {
			t.Errorf("%s: correlation %.5f", name, r)
		}
	}
}

func BenchmarkPermutation(b *testing.B) {
	for _, n := range []uint64{1 << 20, 1<<20 + 1, 10_000_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := NewPermutation(n, 1, 1)
			i, sum := uint64(0), uint64(0)
			for b.Loop() {
				sum += p.At(i % n)
				i++
			}
			if sum == 1 {
				b.Log(sum)
			}
		})
	}
}
