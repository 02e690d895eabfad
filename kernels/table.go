package kernels

import "slices"

// Type is what a parameter of a kernel holds.
type Type uint8

// Types of parameters.
const (
	Pointer Type = iota // device address, 8 bytes
	Int                 // int32, 4 bytes
	Float               // float32, 4 bytes
)

// Param is one parameter of a kernel.
type Param struct {
	Name string
	Type Type
}

// Grid is the number of blocks in x, y and z; the last two are at most 65535.
type Grid [3]int

// Sizes is what grid rules depend on. A kernel reads those that its comment names.
type Sizes struct {
	M, N    int // rows and columns of a product
	Rows    int
	Windows int
	T       int
	Heads   int
	HeadDim int
	Width   int // elements of a row
	Count   int // elements of a vector, or entries of a list
	Buckets int
	Parts   int // of the sums of a product, see Parts; 0 is 1
}

// Kernel says how one kernel is launched.
type Kernel struct {
	Name    string
	Module  string // image that holds it, see Image
	Params  []Param
	Threads int              // of a block, all in x
	Shared  int              // dynamic shared memory of a block, in bytes
	Grid    func(Sizes) Grid // blocks, all at least 1 for sizes of at least 1
}

// Epilogues of the products: what becomes of an element ab.
const (
	Store              = iota // c = ab, in the precision's type
	StoreFP32                 // c = ab, float32
	AddFP32                   // c = c + ab, float32
	StoreReLU                 // c = max(ab, 0)
	StoreReLU2                // c = max(ab, 0)²
	StoreReLUBackward         // c = ab·act'(x) with aux = act(x) of StoreReLU
	StoreReLU2Backward        // c = ab·act'(x) with aux = act(x) of StoreReLU2
)

// Kinds of activation in act_forward and act_backward.
const (
	ReLU  = 0
	ReLU2 = 1
)

// Of the kernels that go over vectors.
const (
	threads    = 256  // of a block
	perThread  = 4    // elements
	updateSpan = 4096 // elements of a block of adamw and digest
)

// Fast reports whether a head_dim has attention kernels for tensor cores; the others use the general ones.
func Fast(headDim int) bool { return headDim == 32 || headDim == 64 }

// A GPU of the size that Parts has in mind runs `slots` blocks of a product at a time (132 multiprocessors, two each).
// MaxParts bounds the memory of the parts, minDepth the work of one.
const (
	slots    = 264
	MaxParts = 32
	minDepth = 512
)

// Parts returns into how many parts the sums of gemm_tn with a long K are best cut: the fewest that leave at most a
// tenth of the slots idle, counting whole rounds of blocks, or else those that leave the fewest. The answer, which
// decides bits, depends on the shape alone.
func Parts(m, n, k int) int {
	best, blocks := 1, ceil(m, 128)*ceil(n, 128)
	busy := func(parts int) float64 {
		return float64(blocks*parts) / float64(ceil(blocks*parts, slots)*slots)
	}
	for parts := 1; parts <= MaxParts && k >= parts*minDepth; parts++ {
		if busy(parts) >= 0.9 {
			return parts
		}
		if busy(parts) > busy(best) {
			best = parts
		}
	}
	return best
}

// Lookup returns the kernel of that name.
func Lookup(name string) (Kernel, bool) {
	i := slices.IndexFunc(table, func(k Kernel) bool { return k.Name == name })
	if i < 0 {
		return Kernel{}, false
	}
	return table[i], true
}

// All lists every kernel; the slice is the caller's.
func All() []Kernel { return slices.Clone(table) }

func ceil(n, by int) int { return (n + by - 1) / by }

// params reads "name:type ..." with p, i and f for the three types.
func params(list ...string) (out []Param) {
	kinds := map[byte]Type{'p': Pointer, 'i': Int, 'f': Float}
	for _, s := range list {
		out = append(out, Param{Name: s[2:], Type: kinds[s[0]]})
	}
	return out
}

// tiles is one block for every tile of a product.
func tiles(size int) func(Sizes) Grid {
	return func(s Sizes) Grid { return Grid{ceil(s.M, size) * ceil(s.N, size), 1, max(s.Parts, 1)} }
}

// heads is one block for every tile of positions of every head and window.
func heads(tile int) func(Sizes) Grid {
	return func(s Sizes) Grid { return Grid{ceil(s.T, tile), s.Heads, s.Windows} }
}

// generalTile and generalColumns are the positions and the elements of head_dim of a block of general attention.
const (
	generalTile    = 32
	generalColumns = 64
)

// generalHeads is one block for every tile of positions and every part of head_dim of every head and window.
func generalHeads(s Sizes) Grid {
	return Grid{ceil(s.T, generalTile) * ceil(s.HeadDim, generalColumns), s.Heads, s.Windows}
}

// rowsOfWarps is one warp a row.
func rowsOfWarps(s Sizes) Grid { return Grid{ceil(s.Rows, rowThreads/32), 1, 1} }

const rowThreads = 128 // of a block of kernels with a warp a row

// rowsOfBlocks is one block a row.
func rowsOfBlocks(s Sizes) Grid { return Grid{s.Rows, 1, 1} }

func elements(s Sizes) Grid { return Grid{ceil(s.Count, threads*perThread), 1, 1} }

func spans(s Sizes) Grid { return Grid{ceil(s.Count, updateSpan), 1, 1} }

func single(Sizes) Grid { return Grid{1, 1, 1} }

// precisions makes a kernel NAME_bf16 and NAME_fp32.
func precisions(k Kernel) []Kernel {
	half, full := k, k
	half.Name, full.Name = k.Name+"_bf16", k.Name+"_fp32"
	return []Kernel{half, full}
}

var table = slices.Concat(products(), attentionForward(), attentionBackward(), pointwise(), updates())

// products: C[M,N] of A and B; lda, ldb and ldc are the elements from one row to the next. aux has the place and
// type of c, and is read by the backward epilogues alone. Sizes: M, N, Parts.
//
//	gemm_nt  C = A[M,K]·B[N,K]ᵀ
//	gemm_nn  C = A[M,K]·B[K,N]
//	gemm_tn  C = A[K,M]ᵀ·B[K,N]
//
// With several parts the epilogue is StoreFP32 and c [parts][M][ldc]; add_parts adds them up.
//
// Where lda or ldb is no multiple of 8, or a or b none of 16 bytes, gemm_*_bf16 are correct and slow.
func products() (list []Kernel) {
	p := params("p:c", "p:a", "p:b", "p:aux", "i:M", "i:N", "i:K", "i:lda", "i:ldb", "i:ldc", "i:epilogue")
	for _, name := range []string{"gemm_nt", "gemm_nn", "gemm_tn"} {
		list = append(list,
			Kernel{Name: name + "_bf16", Module: "gemm", Params: p, Threads: 128, Shared: 4 * 2 * 128 * 32 * 2, Grid: tiles(128)},
			Kernel{Name: name + "_fp32", Module: "gemm", Params: p, Threads: 256, Shared: 2 * 16 * 68 * 4, Grid: tiles(64)})
	}
	return list
}

// attentionForward: mixed [rows,width] = causal attention of qkv [rows,3·width], in the precision's type, and
// lse [windows,heads,t], the natural logarithm of the sum of the exponentials of every query's scores, float32.
// scale is 1/sqrt(head_dim). The kernels of a fixed head_dim ignore head_dim. Sizes: T, Heads, Windows, HeadDim.
func attentionForward() []Kernel {
	p := params("p:mixed", "p:lse", "p:qkv", "i:t", "i:heads", "i:head_dim", "f:scale")
	fast := func(name string, headDim int) Kernel {
		return Kernel{Name: name, Module: "attention_forward", Params: p, Threads: 128, Shared: (128 + 4*64) * (headDim + 8) * 2, Grid: heads(128)}
	}
	general := Kernel{Name: "attention_forward", Module: "attention_forward", Params: p, Threads: 256, Shared: (3*32*33 + 32*65 + 3*32) * 4, Grid: generalHeads}
	return append(precisions(general), fast("attention_forward_d32_bf16", 32), fast("attention_forward_d64_bf16", 64))
}

// attentionBackward, in this order on one stream:
//
//	attention_delta    delta [windows,heads,t] = dmixed·mixed of every query and head, float32. Sizes: Rows, Heads
//	attention_keys     the keys' and values' columns of dqkv [rows,3·width], one block a tile of keys
//	attention_queries  the queries' columns of dqkv, one block a tile of queries
//
// Sizes of the last two: T, Heads, Windows, HeadDim. They may run at the same time.
func attentionBackward() []Kernel {
	p := params("p:dqkv", "p:dmixed", "p:qkv", "p:lse", "p:delta", "i:t", "i:heads", "i:head_dim", "f:scale")
	fast := func(name string, headDim int) Kernel {
		return Kernel{Name: name, Module: "attention_backward", Params: p, Threads: 128, Shared: 6*64*(headDim+8)*2 + 4*64*4, Grid: heads(64)}
	}
	delta := Kernel{Name: "attention_delta", Module: "attention_backward", Threads: rowThreads, Grid: func(s Sizes) Grid { return Grid{ceil(s.Rows*s.Heads, rowThreads/32), 1, 1} },
		Params: params("p:delta", "p:dmixed", "p:mixed", "i:rows", "i:t", "i:heads", "i:head_dim")}
	general := Kernel{Module: "attention_backward", Params: p, Threads: 256, Shared: (4*32*33 + 2*32*65 + 2*32) * 4, Grid: generalHeads}
	keys, queries := general, general
	keys.Name, queries.Name = "attention_keys", "attention_queries"
	return slices.Concat(precisions(delta), precisions(keys), precisions(queries), []Kernel{
		fast("attention_keys_d32_bf16", 32), fast("attention_keys_d64_bf16", 64),
		fast("attention_queries_d32_bf16", 32), fast("attention_queries_d64_bf16", 64),
	})
}

// pointwise, rows of the given width:
//
//	norm_forward    y [rows,width] = x·inverse in the precision's type, inverse [rows] = 1/sqrt(mean(x²)+eps), of the
//	                float32 x [rows,width]. Sizes: Rows
//	norm_backward   dx [rows,width] float32 = inverse·(dy - y·mean(dy·y)), added to dx if add is 1; dx may be dy of the
//	                same type unless it adds. copy (or 0) is the new dx in the precision's type. Sizes: Rows
//	embed_forward   x [rows,width] = wte[token] + wpe[position], normed if embedded is not 0: then embedded (another
//	                copy of x) and inverse are what norm_backward_fp32 needs. Everything float32. Sizes: Rows
//	embed_tokens    dwte[ids[i]] += the rows of dx that order[starts[i]] to order[starts[i+1]-1] name, in that order
//	                up to a fixed tree. ids are count different tokens. Sizes: Count, Width
//	embed_positions dwpe[t] += row t of dx of every window, windows in order. Sizes: T, Width
//	act_forward     y = act(x) in the precision's type of the float32 x, count elements; y may be x of the same type.
//	                Sizes: Count
//	act_backward    dx = dy·act'(x) in the precision's type of the float32 dy, with y = act(x) in the precision's type, count
//	                elements; dx may be dy of the same type. Sizes: Count
//	narrow          to = from rounded to bfloat16, count elements of float32. Sizes: Count
//	cross_entropy   loss[first+r] float64 of row r < rows of the float32 logits [rows,ld], of which the first vocab
//	                columns count; dlogits (or 0) [rows,ld] is the gradient of the loss sum in the precision's type, 0 in
//	                the columns from vocab on; of float32 it may be logits. Row first+r of the batch has its target
//	                in tokens. Sizes: Rows
func pointwise() []Kernel {
	norms := func(name string, list ...string) []Kernel {
		return precisions(Kernel{Name: name, Module: "norm", Params: params(list...), Threads: rowThreads, Grid: rowsOfWarps})
	}
	acts := func(name string, list ...string) []Kernel {
		return precisions(Kernel{Name: name, Module: "act", Params: params(list...), Threads: threads, Grid: elements})
	}
	return slices.Concat(
		norms("norm_forward", "p:y", "p:inverse", "p:x", "i:rows", "i:width", "f:eps"),
		norms("norm_backward", "p:dx", "p:copy", "p:dy", "p:y", "p:inverse", "i:rows", "i:width", "i:add"),
		[]Kernel{
			{Name: "embed_forward", Module: "embed", Threads: rowThreads, Grid: rowsOfWarps,
				Params: params("p:x", "p:embedded", "p:inverse", "p:wte", "p:wpe", "p:tokens", "i:rows", "i:t", "i:width", "f:eps")},
			{Name: "embed_tokens", Module: "embed", Threads: threads, Shared: threads * 4,
				Grid:   func(s Sizes) Grid { return Grid{s.Count, ceil(s.Width, 32), 1} },
				Params: params("p:dwte", "p:dx", "p:order", "p:starts", "p:ids", "i:count", "i:width")},
			{Name: "embed_positions", Module: "embed", Threads: threads,
				Grid:   func(s Sizes) Grid { return Grid{ceil(s.T*s.Width, threads*perThread), 1, 1} },
				Params: params("p:dwpe", "p:dx", "i:windows", "i:t", "i:width")},
		},
		acts("act_forward", "p:y", "p:x", "i:count", "i:kind"),
		acts("act_backward", "p:dx", "p:dy", "p:y", "i:count", "i:kind"),
		[]Kernel{
			{Name: "narrow", Module: "act", Params: params("p:to", "p:from", "i:count"), Threads: threads, Grid: elements},
		},
		precisions(Kernel{Name: "cross_entropy", Module: "xent", Threads: threads, Shared: 128, Grid: rowsOfBlocks,
			Params: params("p:loss", "p:dlogits", "p:logits", "p:tokens", "i:first", "i:rows", "i:t", "i:vocab", "i:ld")}),
	)
}

// updates, over flat float32 vectors of count elements:
//
//	adamw        model.Engine.Update of the elements start to start+count-1: w, m, v and g point to element start, as
//	             does copy (or 0), the weights in bfloat16. Decay applies from element decay_from on. The state's
//	             digest is added to digest [2]uint64, which the caller has zeroed. Sizes: Count
//	digest       adds model.DigestOf(kind, start, x) to digest [2]uint64. Sizes: Count
//	fold         dst += src. Sizes: Count
//	add_parts    dst += the parts of src [parts][count], in order. Sizes: Count
//	sum_squares  sums [buckets]float64 of x, the whole vector of count elements, in the order of model.SumSquares.
//	             Sizes: Buckets
//	loss_sum     sum [1]float64 of count float64 losses in a fixed order.
func updates() []Kernel {
	return []Kernel{
		{Name: "adamw", Module: "adamw", Threads: threads, Shared: 128, Grid: spans,
			Params: params("p:digest", "p:w", "p:m", "p:v", "p:g", "p:copy", "i:start", "i:count", "i:decay_from",
				"f:scale", "f:lr", "f:beta1", "f:one_minus_beta1", "f:beta2", "f:one_minus_beta2", "f:correction1", "f:correction2", "f:eps", "f:decay")},
		{Name: "digest", Module: "reduce", Params: params("p:digest", "p:x", "i:count", "i:start", "i:kind"), Threads: threads, Shared: 128, Grid: spans},
		{Name: "fold", Module: "reduce", Params: params("p:dst", "p:src", "i:count"), Threads: threads, Grid: elements},
		{Name: "add_parts", Module: "reduce", Params: params("p:dst", "p:src", "i:count", "i:parts"), Threads: threads, Grid: elements},
		{Name: "sum_squares", Module: "reduce", Params: params("p:sums", "p:x", "i:count"), Threads: threads, Shared: 4*4096*2 + 128, Grid: func(s Sizes) Grid { return Grid{s.Buckets, 1, 1} }},
		{Name: "loss_sum", Module: "reduce", Params: params("p:sum", "p:loss", "i:count"), Threads: threads, Shared: 128, Grid: single},
	}
}
