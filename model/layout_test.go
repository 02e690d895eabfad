package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Names, order, shapes and offsets decide what the bytes of a checkpoint mean.
func TestLayoutGolden(t *testing.T) {
	const want = `
     0 wte             5x16 std 0.1  decay false
    80 wpe             3x16 std 0.02 decay false
   128 layer0.attn_wq 16x16 std 0.02 decay true
   384 layer0.attn_wk 16x16 std 0.02 decay true
   640 layer0.attn_wv 16x16 std 0.02 decay true
   896 layer0.attn_wo 16x16 std 0    decay true
  1152 layer0.mlp_fc1 64x16 std 0.02 decay true
  2176 layer0.mlp_fc2 16x64 std 0    decay true
  3200 layer1.attn_wq 16x16 std 0.02 decay true
  3456 layer1.attn_wk 16x16 std 0.02 decay true
  3712 layer1.attn_wv 16x16 std 0.02 decay true
  3968 layer1.attn_wo 16x16 std 0    decay true
  4224 layer1.mlp_fc1 64x16 std 0.02 decay true
  5248 layer1.mlp_fc2 16x64 std 0    decay true
  6272 lm_head         5x16 std 0.02 decay true
  6352 end
`
	l := NewLayout(valid())
	var b strings.Builder
	b.WriteByte('\n')
	for _, x := range l.Tensors {
		fmt.Fprintf(&b, "%6d %-14s %2dx%d std %-4v decay %v\n", x.Offset, x.Name, x.Rows, x.Cols, x.InitStd, x.Decay)
	}
	fmt.Fprintf(&b, "%6d end\n", l.Size)
	if b.String() != want {
		t.Errorf("layout:%s\nwant:%s", b.String(), want)
	}
	if x, ok := l.Tensor("layer1.mlp_fc1"); !ok || x.Offset != 4224 || x.Size() != 1024 || x.End() != 5248 {
		t.Errorf("Tensor(layer1.mlp_fc1) = %+v, %v", x, ok)
	}
	if x, ok := l.Tensor("layer2.mlp_fc1"); ok {
		t.Errorf("Tensor(layer2.mlp_fc1) = %+v, there are two layers", x)
	}
}

// Tensors and buckets both cover the vector without holes or overlaps, and the pieces
// of any range are exactly that range.
func TestBucketsAndPiecesCoverTheVector(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := valid()
		c.NHead = 1
		c.DModel = rapid.IntRange(1, 400).Draw(t, "d_model")
		c.NLayer = rapid.IntRange(1, 5).Draw(t, "n_layer")
		c.Context = rapid.IntRange(1, 3000).Draw(t, "context")
		c.Vocab = rapid.IntRange(1, 9000).Draw(t, "vocab")
		l := NewLayout(c)
		if int64(l.Size) != c.Parameters() {
			t.Fatalf("the layout has %d elements, the formula %d", l.Size, c.Parameters())
		}
		end := 0
		for i := range l.Buckets() {
			lo, hi := l.Bucket(i)
			if lo != end || hi <= lo || hi-lo > BucketSize || hi-lo < BucketSize && i < l.Buckets()-1 {
				t.Fatalf("bucket %d is [%d, %d) after %d", i, lo, hi, end)
			}
			end = hi
		}
		if end != l.Size {
			t.Fatalf("the buckets end at %d of %d", end, l.Size)
		}
		lo := rapid.IntRange(0, l.Size).Draw(t, "lo")
		hi := rapid.IntRange(lo, l.Size).Draw(t, "hi")
		checkPieces(t, l, lo, hi)
	})
}

func checkPieces(t *rapid.T, l Layout, lo, hi int) {
	next := lo
	var seen []int
	l.Pieces(lo, hi, func(tensor, from, to int) {
		x := l.Tensors[tensor]
		if from != next || to <= from || from < x.Offset || to > x.End() {
			t.Fatalf("piece [%d, %d) of %s [%d, %d): expected it to start at %d", from, to, x.Name, x.Offset, x.End(), next)
		}
		next = to
		seen = append(seen, tensor)
	})
	if next != hi {
		t.Fatalf("the pieces of [%d, %d) end at %d", lo, hi, next)
	}
	if !slices.IsSorted(seen) {
		t.Fatalf("tensors out of order: %v", seen)
	}
}
