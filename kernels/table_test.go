package kernels_test

import (
	"testing"

	"andrea/kernels"
	"andrea/model"
)

// TestGridsAreLegal takes the smallest and the largest shapes: at least one block, and no more than a GPU takes.
func TestGridsAreLegal(t *testing.T) {
	small := kernels.Sizes{M: 1, N: 1, Rows: 1, Windows: 1, T: 1, Heads: 1, HeadDim: 1, Width: 1, Count: 1, Buckets: 1}
	large := kernels.Sizes{
		M: 1 << 13, N: model.MaxVocab, Rows: 1 << 20, Windows: 1 << 10, T: model.MaxContext, Heads: model.MaxHeads,
		HeadDim: model.MaxDModel / model.MaxHeads, Width: model.MaxDModel, Count: model.MaxParameters,
		Buckets: model.MaxParameters / model.BucketSize, Parts: kernels.MaxParts,
	}
	for _, k := range kernels.All() {
		for _, s := range []kernels.Sizes{small, large} {
			g := k.Grid(s)
			if g[0] < 1 || g[1] < 1 || g[2] < 1 || g[0] > 1<<31-1 || g[1] > 65535 || g[2] > 65535 {
				t.Errorf("%s: the grid of %+v is %v", k.Name, s, g)
			}
		}
		if k.Threads%32 != 0 || k.Threads > 1024 || k.Shared > 160<<10 {
			t.Errorf("%s: %d threads with %d bytes of shared memory do not fit every GPU", k.Name, k.Threads, k.Shared)
		}
	}
}

// TestGridsCoverTheShape: a row, an element or a tile more makes one block more, at the sizes that the sources have.
func TestGridsCoverTheShape(t *testing.T) {
	for _, c := range []struct {
		kernel string
		sizes  kernels.Sizes
		want   kernels.Grid
	}{
		{"gemm_nt_bf16", kernels.Sizes{M: 129, N: 256, Parts: 3}, kernels.Grid{4, 1, 3}},
		{"gemm_tn_fp32", kernels.Sizes{M: 65, N: 64}, kernels.Grid{2, 1, 1}},
		{"attention_forward_d64_bf16", kernels.Sizes{T: 129, Heads: 3, Windows: 5}, kernels.Grid{2, 3, 5}},
		{"attention_keys_d32_bf16", kernels.Sizes{T: 129, Heads: 3, Windows: 5}, kernels.Grid{3, 3, 5}},
		{"attention_queries_fp32", kernels.Sizes{T: 33, Heads: 3, Windows: 5, HeadDim: 72}, kernels.Grid{4, 3, 5}},
		{"norm_forward_bf16", kernels.Sizes{Rows: 5}, kernels.Grid{2, 1, 1}},
		{"cross_entropy_fp32", kernels.Sizes{Rows: 5}, kernels.Grid{5, 1, 1}},
		{"embed_tokens", kernels.Sizes{Count: 7, Width: 33}, kernels.Grid{7, 2, 1}},
		{"embed_positions", kernels.Sizes{T: 5, Width: 205}, kernels.Grid{2, 1, 1}},
		{"adamw", kernels.Sizes{Count: 4097}, kernels.Grid{2, 1, 1}},
		{"fold", kernels.Sizes{Count: 1025}, kernels.Grid{2, 1, 1}},
	} {
		k, ok := kernels.Lookup(c.kernel)
		if !ok {
			t.Fatalf("%s is not in the table", c.kernel)
		}
		if got := k.Grid(c.sizes); got != c.want {
			t.Errorf("%s: the grid is %v, want %v", c.kernel, got, c.want)
		}
	}
}
