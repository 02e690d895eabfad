package cpuengine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/enginetest"
)

// attend runs attention in both directions, over blocks where it can or over tiles, and returns all that it writes.
func attend(dev *device, qkv, dmixed []float32, h enginetest.Heads, overTiles bool) map[string][]float32 {
	a, act := newHeads(dev, qkv, h)
	if overTiles {
		a.blocks = nil
	}
	dqkv := make([]float32, len(qkv))
	a.forward(h.Windows, h.T, act)
	a.backward(h.Windows, h.T, act, dqkv, append([]float32(nil), dmixed...))
	return map[string][]float32{"mixed": act.mixed, "rowMax": act.rowMax, "rowInverse": act.rowInverse, "dqkv": dqkv}
}

// drawHeads draws what attention reads: numbers around 0, and some far larger, so that the largest score moves.
func drawHeads(r *rand.Rand, h enginetest.Heads) (qkv, dmixed []float32) {
	qkv, dmixed = make([]float32, h.Windows*h.T*3*h.Width()), make([]float32, h.Windows*h.T*h.Width())
	for _, x := range [][]float32{qkv, dmixed} {
		for i := range x {
			x[i] = float32(r.NormFloat64())
			if r.IntN(50) == 0 {
				x[i] *= 20
			}
		}
	}
	return qkv, dmixed
}

// blockHeads reach one and several tiles of keys, the last of them not full, and more queries than the workers' parts.
var blockHeads = []enginetest.Heads{
	{Windows: 1, T: blockSide, Count: 1, Dim: 32},
	{Windows: 1, T: keyTile, Count: 2, Dim: 64},
	{Windows: 2, T: keyTile + blockSide, Count: 3, Dim: 32},
	{Windows: 1, T: 2*keyTile + 3*blockSide, Count: 1, Dim: 64},
	{Windows: 1, T: 2 * keyTile, Count: 1, Dim: 128},
	{Windows: 1, T: keyTile + 2*blockSide, Count: 2, Dim: 320},
}

func TestBlocksGiveTheBitsOfTiles(t *testing.T) {
	dev := newDevice(t, kernel.Paths()[0])
	for _, h := range blockHeads {
		t.Run(fmt.Sprintf("%+v", h), func(t *testing.T) {
			if newAttentionBlocks(dev.path, h.Dim, h.Width()) == nil {
				t.Skipf("%s goes over tiles alone", dev.path)
			}
			qkv, dmixed := drawHeads(rand.New(rand.NewPCG(51, 52)), h)
			compareAttention(t, attend(dev, qkv, dmixed, h, false), attend(dev, qkv, dmixed, h, true))
		})
	}
}

// Where something is not finite, the same elements of the results are NaN, and the others have the same bits.
func TestBlocksSpreadNaNAsTilesDo(t *testing.T) {
	dev := newDevice(t, kernel.Paths()[0])
	h := enginetest.Heads{Windows: 1, T: keyTile + 2*blockSide, Count: 1, Dim: 32}
	if newAttentionBlocks(dev.path, h.Dim, h.Width()) == nil {
		t.Skipf("%s goes over tiles alone", dev.path)
	}
	r := rand.New(rand.NewPCG(53, 54))
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e38} {
		for part := range 4 { // of a query, a key, a value and an output's gradient
			for _, row := range []int{3, blockSide + 40, keyTile + 70} {
				qkv, dmixed := drawHeads(r, h)
				if part == 3 {
					dmixed[row*h.Dim+5] = float32(bad)
				} else {
					qkv[(3*row+part)*h.Dim+5] = float32(bad)
				}
				compareAttention(t, attend(dev, qkv, dmixed, h, false), attend(dev, qkv, dmixed, h, true))
			}
		}
	}
}

// compareAttention compares bits; all NaNs count as one.
func compareAttention(t *testing.T, got, want map[string][]float32) {
	t.Helper()
	for name, x := range want {
		for i, v := range x {
			if g := got[name][i]; math.Float32bits(g) != math.Float32bits(v) && (g == g || v == v) {
				t.Fatalf("%s: element %d over blocks is %v (%x), over tiles %v (%x)", name, i, g, math.Float32bits(g), v, math.Float32bits(v))
			}
		}
	}
}

// The queue keeps its order, and what finds no room is left out.
func TestFetchQueue(t *testing.T) {
	var q fetchQueue
	ahead := func(i int) kernel.Ahead { return kernel.Ahead{Lines: make([]int32, i)} }
	next, last := 1, 0
	for range 5 {
		for range 4 {
			last++
			q.push(ahead(last))
		}
		for range 3 {
			if got := len(q.pop().Lines); got != next {
				t.Fatalf("got %d, want %d", got, next)
			}
			next++
		}
	}
	for range 2 * len(q.waiting) {
		last++
		q.push(ahead(last))
	}
	for range len(q.waiting) {
		if got := len(q.pop().Lines); got != next {
			t.Fatalf("got %d, want %d after it was full", got, next)
		}
		next++
	}
	if got := q.pop(); got.Lines != nil || got.Data != nil {
		t.Errorf("the empty queue gave %d lines", len(got.Lines))
	}
}

func TestLinesOfABlock(t *testing.T) {
	lines := linesOfBlock(32, 96, 2*blockSide+3)
	want := map[int]int32{0: 0, 1: 64, 2: 384, 3: 448, 2*blockSide - 1: 63*384 + 64, 2*blockSide + 2: 63*384 + 64}
	for i, w := range want {
		if lines[i] != w {
			t.Errorf("line %d begins at %d, want %d", i, lines[i], w)
		}
	}
	if len(linesOfBlock(64, 64, 10)) != 10 || len(linesOfBlock(32, 96, 0)) != 0 {
		t.Error("not as many lines as asked for")
	}
}

func TestBlocksAllocateNothing(t *testing.T) {
	h := enginetest.Heads{Windows: 1, T: 2 * blockSide, Count: 2, Dim: 32}
	dev := newDevice(t, kernel.Paths()[0])
	qkv, dmixed := drawHeads(rand.New(rand.NewPCG(55, 56)), h)
	a, act := newHeads(dev, qkv, h)
	if a.blocks == nil {
		t.Skipf("%s goes over tiles alone", dev.path)
	}
	dqkv := make([]float32, len(qkv))
	n := testing.AllocsPerRun(3, func() {
		a.forward(h.Windows, h.T, act)
		a.backward(h.Windows, h.T, act, dqkv, dmixed)
	})
	if n != 0 {
		t.Errorf("attention over blocks allocates %v times", n)
	}
}
