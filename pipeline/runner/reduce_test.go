package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"andrea/model"
	"andrea/pipeline"
)

// However the tree is cut into leases, its sum has the bits of the whole tree's.
func TestSumTreeDoesNotDependOnTheCut(t *testing.T) {
	const lanes, elements = 16, 37
	rng := rand.New(rand.NewPCG(1, 2))
	leaves := make([]part, lanes)
	for i := range leaves {
		leaves[i] = part{lo: i, hi: i + 1, grad: make([]float32, elements)}
		for j := range leaves[i].grad {
			leaves[i].grad[j] = float32(rng.NormFloat64()) * float32(int(1)<<rng.IntN(20))
		}
	}
	want := sumTree(model.Plain{}, clone(leaves), 0, lanes)
	for range 200 {
		var cut func(lo, hi int) []part
		cut = func(lo, hi int) []part {
			if hi-lo == 1 || rng.IntN(2) == 0 {
				return []part{{lo: lo, hi: hi, grad: sumTree(model.Plain{}, clone(leaves), lo, hi)}}
			}
			middle := (lo + hi) / 2
			return append(cut(lo, middle), cut(middle, hi)...)
		}
		parts := cut(0, lanes)
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		if got := sumTree(model.Plain{}, parts, 0, lanes); !slices.Equal(got, want) {
			t.Fatalf("the sum of %d parts differs", len(parts))
		}
	}
	straight := slices.Clone(leaves[0].grad)
	for _, l := range leaves[1:] {
		for i := range straight {
			straight[i] += l.grad[i]
		}
	}
	if slices.Equal(straight, want) {
		t.Error("the drawn numbers do not tell a tree from a chain")
	}
}

func clone(parts []part) []part {
	c := slices.Clone(parts)
	for i := range c {
		c[i].grad = slices.Clone(c[i].grad)
	}
	return c
}

// Two reducers with ranges of their own, at the same time, give the bits of one.
func TestReducersWithRangesGiveTheBitsOfOne(t *testing.T) {
	config := model.Config{Vocab: 18000, Context: 8, DModel: 64, NHead: 2, NLayer: 1}
	layout := model.NewLayout(config)
	if layout.Buckets() < 3 {
		t.Fatalf("the model has %d buckets", layout.Buckets())
	}
	spans := [][2]int{{0, 4}, {4, 6}, {6, 7}, {7, 8}}
	var contributions []pipeline.Contribution
	for _, s := range spans {
		contributions = append(contributions, pipeline.Contribution{Worker: "w", Lo: s[0], Hi: s[1]})
	}
	reduce := func(first, last int, root []float32) []bucketSum {
		r := reducer{
			vectors: model.Plain{}, layout: layout, lanes: 8, first: first, last: last, contributions: contributions, rooms: &rooms{}, final: func(int) {},
			fetch: func(_ context.Context, from pipeline.Contribution, bucket int, dst []float32) error {
				x := uint32(1000*from.Lo + bucket)
				for i := range dst {
					x = 1664525*x + 1013904223
					dst[i] = float32(int32(x)) // a cheap one of many magnitudes
				}
				return nil
			},
		}
		sums, fault := r.sum(t.Context(), root)
		if fault != nil {
			t.Error(fault.err)
		}
		return sums
	}
	whole := make([]float32, layout.Size)
	want := reduce(0, layout.Buckets(), whole)
	root, parts := make([]float32, layout.Size), [2][]bucketSum{}
	var group sync.WaitGroup
	group.Go(func() { parts[0] = reduce(0, 2, root) })
	group.Go(func() { parts[1] = reduce(2, layout.Buckets(), root) })
	group.Wait()
	if got := append(parts[0], parts[1]...); !reflect.DeepEqual(got, want) || !slices.Equal(root, whole) {
		t.Error("the sums differ")
	}
	if want[0].digest == want[1].digest || want[0].arrived[0] == want[0].arrived[1] {
		t.Error("the drawn numbers do not tell buckets or contributions apart")
	}
}

// A contribution that does not come is named, and what is asked for beside it is not waited for.
func TestAReducerNamesWhoDoesNotSend(t *testing.T) {
	layout := model.NewLayout(model.Config{Vocab: 11, Context: 8, DModel: 8, NHead: 2, NLayer: 1})
	gone := errors.New("gone")
	r := reducer{
		vectors: model.Plain{}, layout: layout, lanes: 2, last: layout.Buckets(), rooms: &rooms{}, final: func(int) {},
		contributions: []pipeline.Contribution{{Worker: "slow", Hi: 1}, {Worker: "dead", Lo: 1, Hi: 2}},
		fetch: func(ctx context.Context, from pipeline.Contribution, _ int, _ []float32) error {
			if from.Worker == "dead" {
				return gone
			}
			<-ctx.Done()
			return ctx.Err()
		},
	}
	if _, fault := r.sum(t.Context(), make([]float32, layout.Size)); fault == nil || fault.worker != "dead" || fault.wrong || !errors.Is(fault.err, gone) {
		t.Errorf("%+v", fault)
	}
}
