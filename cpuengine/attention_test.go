package cpuengine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/enginetest"
)

// exactHeads draws queries and keys of small integers, so that scores of head_dim
// 64 (scale 1/8) are exact in float32 however large they are, and what remains is
// the error of the softmax. Scores grow with the position of the key by up to ramp,
// so that the running maximum moves in every tile.
func exactHeads(h enginetest.Heads, size, ramp float64) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	qkv := make([]float32, h.Windows*h.T*3*h.Width())
	for i := range qkv {
		row, column := i/(3*h.Width()), i%(3*h.Width())
		draw := 2*rng.Float64() - 1
		switch part := column / h.Width(); {
		case part == 2:
			qkv[i] = float32(draw)
		case column%h.Dim == 0:
			qkv[i] = 1
			if part == 1 {
				qkv[i] = float32(math.Round(ramp * float64(row%h.T) / float64(h.T)))
			}
		default:
			qkv[i] = float32(math.Round(size * draw))
		}
	}
	return qkv
}

// naive is attention of one query in float64: its output, given the rows of a head.
func naive(qkv []float32, h enginetest.Heads, w, head, i int) []float64 {
	at := func(row, part, x int) float64 {
		return float64(qkv[(w*h.T+row)*3*h.Width()+part*h.Width()+head*h.Dim+x])
	}
	out, scores, largest, sum := make([]float64, h.Dim), make([]float64, i+1), math.Inf(-1), 0.0
	for j := range scores {
		for x := range h.Dim {
			scores[j] += at(i, 0, x) * at(j, 1, x)
		}
		scores[j] /= math.Sqrt(float64(h.Dim))
		largest = max(largest, scores[j])
	}
	for j := range scores {
		p := math.Exp(scores[j] - largest)
		sum += p
		for x := range out {
			out[x] += p * at(j, 2, x)
		}
	}
	for x := range out {
		out[x] /= sum
	}
	return out
}

func TestAttentionWithLargeScores(t *testing.T) {
	if underRace {
		t.Skip("under the race detector the float64 comparison takes half a minute: this is about rounding, TestOperations runs the same code")
	}
	h := enginetest.Heads{Windows: 1, T: 2*keyTile + 37, Count: 2, Dim: 64}
	for _, c := range []struct{ size, ramp float64 }{{1, 0}, {1, 400}, {30, 0}, {30, 4000}, {3, -3000}} {
		t.Run(fmt.Sprintf("size %v ramp %v", c.size, c.ramp), func(t *testing.T) {
			qkv := exactHeads(h, c.size, c.ramp)
			out := make([]float32, h.Windows*h.T*h.Width())
			operations(newDevice(t, kernel.Paths()[0])).Attention(out, qkv, h)
			for row := range h.Windows * h.T {
				for head := range h.Count {
					want := naive(qkv, h, row/h.T, head, row%h.T)
					for x, got := range out[row*h.Width()+head*h.Dim:][:h.Dim] {
						if !(math.Abs(float64(got)-want[x]) <= 4e-6) {
							t.Fatalf("row %d head %d column %d: %v, want %v", row, head, x, got, want[x])
						}
					}
				}
			}
		})
	}
}

// What lies after a query has probability exactly zero: it may be anything finite.
func TestAttentionSeesNothingAfterTheQuery(t *testing.T) {
	h := enginetest.Heads{Windows: 1, T: keyTile + queryTile + 9, Count: 1, Dim: 24}
	ops := operations(newDevice(t, kernel.Paths()[0]))
	qkv := exactHeads(h, 3, 0)
	want, got := make([]float32, h.T*h.Width()), make([]float32, h.T*h.Width())
	ops.Attention(want, qkv, h)
	for _, cut := range []int{1, queryTile - 1, queryTile, keyTile, keyTile + 1, h.T - 1} {
		changed := append([]float32(nil), qkv...)
		for i := cut * 3 * h.Width(); i < len(changed); i++ {
			changed[i] = 1e18
		}
		ops.Attention(got, changed, h)
		for i := range cut * h.Width() {
			if got[i] != want[i] {
				t.Fatalf("changing positions from %d on changed position %d: %v, was %v", cut, i/h.Width(), got[i], want[i])
			}
		}
	}
}

func TestAttentionOfOnesIsOne(t *testing.T) {
	h := enginetest.Heads{Windows: 1, T: 2*keyTile + 5, Count: 3, Dim: 8}
	qkv := exactHeads(h, 2, 10)
	for i := range qkv {
		if i%(3*h.Width()) >= 2*h.Width() {
			qkv[i] = 1
		}
	}
	out := make([]float32, h.T*h.Width())
	operations(newDevice(t, kernel.Paths()[0])).Attention(out, qkv, h)
	for i, x := range out {
		if math.Abs(float64(x)-1) > 4e-6 {
			t.Fatalf("position %d: the probabilities sum to %v", i/h.Width(), x)
		}
	}
}
