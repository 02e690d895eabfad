package kernels_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"andrea/enginetest"
	"andrea/kernels"
)

// part launches some kernels at least once, at shapes with several blocks, ragged ends and more tiles than buffers,
// and keeps what each wrote.
type part func(d *device, keep func(kernel string, buffers ...buffer))

// parts launch every kernel of the table, by the sources that they are in; of those of a header in any of its parts.
var parts = map[string][]part{
	"gemm.cu": {
		func(d *device, keep func(string, ...buffer)) { everyProduct(d, "bf16", keep) },
		func(d *device, keep func(string, ...buffer)) { everyProduct(d, "fp32", keep) },
	},
	"attention.h": {
		func(d *device, keep func(string, ...buffer)) { everyAttention(d, "d32_bf16", "bf16", 32, keep) },
		func(d *device, keep func(string, ...buffer)) { everyAttention(d, "d64_bf16", "bf16", 64, keep) },
		func(d *device, keep func(string, ...buffer)) { everyAttention(d, "bf16", "bf16", 72, keep) },
		func(d *device, keep func(string, ...buffer)) { everyAttention(d, "fp32", "fp32", 72, keep) },
	},
	"tile.h": {
		func(d *device, keep func(string, ...buffer)) { everyRow(d, "bf16", keep) },
		func(d *device, keep func(string, ...buffer)) { everyRow(d, "fp32", keep) },
	},
	"embed.cu":  {everyEmbedding},
	"reduce.cu": {everyVector},
}

// partsOf are the parts that launch the kernels of a source.
func partsOf(file string) []part {
	switch file {
	case "attention_forward.cu", "attention_backward.cu":
		file = "attention.h"
	case "norm.cu", "act.cu", "xent.cu":
		file = "tile.h"
	case "adamw.cu":
		file = "reduce.cu"
	}
	return parts[file]
}

// everyPart is all parts, in an order that is always the same.
func everyPart() []part {
	var all []part
	for _, file := range slices.Sorted(maps.Keys(parts)) {
		all = append(all, parts[file]...)
	}
	return all
}

// run runs parts and returns what each kernel wrote, by its name.
func run(d *device, list []part) map[string][]byte {
	out := map[string][]byte{}
	for _, p := range list {
		p(d, func(name string, buffers ...buffer) {
			for _, b := range buffers {
				out[name] = append(out[name], download[byte](d, b)...)
			}
		})
	}
	return out
}

// operands uploads normal values in a precision, room1 makes room in it.
func operands(d *device, precision string, n int, seed uint64) buffer {
	if strings.HasSuffix(precision, "bf16") {
		return upload(d, narrow(draw(n, seed)))
	}
	return upload(d, draw(n, seed))
}

func roomOf(d *device, precision string, n int) buffer {
	if strings.HasSuffix(precision, "bf16") {
		return room[uint16](d, n)
	}
	return room[float32](d, n)
}

func everyProduct(d *device, precision string, keep func(string, ...buffer)) {
	defer d.free()
	const m, n, k = 136, 72, 168
	for i, layout := range []string{"nt", "nn", "tn"} {
		lda, ldb := [3]int{k, k, m}[i], [3]int{k, n, n}[i]
		a, b := operands(d, precision, m*k, 1), operands(d, precision, n*k, 2)
		name := "gemm_" + layout + "_" + precision
		for _, epilogue := range []int{kernels.Store, kernels.AddFP32, kernels.StoreReLU2Backward} {
			c, aux := upload(d, draw(m*n, 3)), operands(d, precision, m*n, 4)
			d.run(name, kernels.Sizes{M: m, N: n}, c, a, b, aux, m, n, k, lda, ldb, n, epilogue)
			keep(name, c)
		}
		c, parts, s := upload(d, draw(m*n, 3)), room[float32](d, 3*m*n), kernels.Sizes{M: m, N: n, Parts: 3, Count: m * n}
		d.run(name, s, parts, a, b, buffer{}, m, n, k, lda, ldb, n, kernels.StoreFP32)
		d.run("add_parts", s, c, parts, m*n, 3)
		keep(name, parts)
		keep("add_parts", c)
	}
}

func everyAttention(d *device, kernel, precision string, dim int, keep func(string, ...buffer)) {
	defer d.free()
	h := enginetest.Heads{Windows: 1, T: 150, Count: 1, Dim: dim}
	s := attentionSizes(h)
	qkv, dmixed := operands(d, precision, s.Rows*3*dim, 1), operands(d, precision, s.Rows*dim, 2)
	mixed, lse := attention(d, kernel, qkv, h)
	keep("attention_forward_"+kernel, mixed, lse)
	delta, dqkv := room[float32](d, s.Rows), room[byte](d, qkv.size)
	d.run("attention_delta_"+precision, s, delta, dmixed, mixed, s.Rows, h.T, h.Count, h.Dim)
	keep("attention_delta_"+precision, delta)
	for _, name := range []string{"attention_keys_", "attention_queries_"} {
		d.run(name+kernel, s, dqkv, dmixed, qkv, lse, delta, h.T, h.Count, h.Dim, scaleOf(h))
		keep(name+kernel, dqkv)
	}
}

func everyRow(d *device, precision string, keep func(string, ...buffer)) {
	defer d.free()
	const rows, width, vocab, ld = 9, 132, 1100, 1152
	s := kernels.Sizes{Rows: rows, Count: rows * width}
	y, inverse := roomOf(d, precision, rows*width), room[float32](d, rows)
	d.run("norm_forward_"+precision, s, y, inverse, upload(d, draw(rows*width, 1)), rows, width, float32(1e-5))
	keep("norm_forward_"+precision, y, inverse)
	dx, rounded, dy := upload(d, draw(rows*width, 2)), roomOf(d, precision, rows*width), operands(d, precision, rows*width, 3)
	d.run("norm_backward_"+precision, s, dx, rounded, dy, y, inverse, rows, width, 1)
	keep("norm_backward_"+precision, dx, rounded)
	active, products := roomOf(d, precision, rows*width), upload(d, draw(rows*width, 5))
	d.run("act_forward_"+precision, s, active, products, rows*width, kernels.ReLU2)
	keep("act_forward_"+precision, active)
	d.run("act_backward_"+precision, s, y, products, active, rows*width, kernels.ReLU2)
	keep("act_backward_"+precision, y)
	losses, sum, gradient := room[float64](d, rows), room[float64](d, 1), roomOf(d, precision, rows*ld)
	d.run("cross_entropy_"+precision, s, losses, gradient, upload(d, draw(rows*ld, 4)), upload(d, make([]uint32, 2*rows)), 0, rows, 1, vocab, ld)
	d.run("loss_sum", s, sum, losses, rows)
	keep("cross_entropy_"+precision, losses, gradient)
	keep("loss_sum", sum)
}

func everyEmbedding(d *device, keep func(string, ...buffer)) {
	defer d.free()
	const t, width, vocab = 23, 72, 5
	tokens := make([]uint32, 2*t)
	for i := range tokens {
		tokens[i] = uint32(i*i) % vocab
	}
	s := kernels.Sizes{Rows: 2 * t, T: t, Width: width}
	x, embedded, inverse := room[float32](d, 2*t*width), room[float32](d, 2*t*width), room[float32](d, 2*t)
	wte, wpe := upload(d, draw(vocab*width, 1)), upload(d, draw(t*width, 2))
	d.run("embed_forward", s, x, embedded, inverse, wte, wpe, upload(d, windows(tokens, t)), 2*t, t, width, float32(1e-5))
	keep("embed_forward", x, embedded, inverse)
	order, starts, ids := sorted(tokens)
	s.Count = len(ids)
	d.run("embed_tokens", s, wte, x, upload(d, order), upload(d, starts), upload(d, ids), len(ids), width)
	d.run("embed_positions", s, wpe, x, 2, t, width)
	keep("embed_tokens", wte)
	keep("embed_positions", wpe)
}

func everyVector(d *device, keep func(string, ...buffer)) {
	defer d.free()
	const n = 9003
	s := kernels.Sizes{Count: n, Buckets: 1}
	w, m, v, g := upload(d, draw(n, 1)), upload(d, draw(n, 2)), upload(d, make([]float32, n)), upload(d, draw(n, 3))
	digest, rounded, sums := upload(d, []uint64{0, 0}), room[uint16](d, n), room[float64](d, 1)
	f := func(x float64) float32 { return float32(x) }
	d.run("adamw", s, digest, w, m, v, g, rounded, 0, n, 100, f(0.5), f(1e-3), f(0.9), f(0.1), f(0.95), f(0.05), f(0.1), f(0.05), f(1e-8), f(0.1))
	keep("adamw", digest, w, m, v, rounded)
	d.run("digest", s, digest, g, n, 0, 3)
	keep("digest", digest)
	d.run("fold", s, g, m, n)
	keep("fold", g)
	d.run("sum_squares", s, sums, g, n)
	keep("sum_squares", sums)
	d.run("narrow", s, rounded, g, n)
	keep("narrow", rounded)
}

// -all runs what takes minutes: every mode of the device, the sanitizers and all planted faults.
var all = flag.Bool("all", false, "run every mode of the software device, the sanitizers and all planted faults")

// fewModes are orders in which the software device may run the threads of a block, and when it may land copies;
// allModes are all combinations.
var fewModes = [][2]string{{"fwd", "late"}, {"rev", "early"}, {"rand:1", "late"}}

func allModes() (list [][2]string) {
	for _, order := range []string{"fwd", "rev", "rand:1", "rand:7"} {
		for _, copies := range []string{"late", "early"} {
			list = append(list, [2]string{order, copies})
		}
	}
	return list
}

// differences lists the kernels of some parts whose bits are not the same in all modes.
func differences(d *device, list []part, modes [][2]string) (kernels []string) {
	var first map[string][]byte
	for _, mode := range modes {
		d.set("SOFTCUDA_ORDER", mode[0])
		d.set("SOFTCUDA_CP", mode[1])
		got := run(d, list)
		if first == nil {
			first = got
			continue
		}
		for name, bytes := range got {
			if string(bytes) != string(first[name]) && !slices.Contains(kernels, name) {
				kernels = append(kernels, name)
			}
		}
	}
	return kernels
}

// TestBitsDoNotDependOnTheOrderOfThreads runs every kernel in all modes of the device.
func TestBitsDoNotDependOnTheOrderOfThreads(t *testing.T) {
	d, modes := start(t, plain(t)), fewModes
	if *all {
		modes = allModes()
	}
	if different := differences(d, everyPart(), modes); len(different) > 0 {
		t.Errorf("other bits in another order of threads or copies: %v", different)
	}
}

// TestEveryKernelIsRun keeps the parts complete.
func TestEveryKernelIsRun(t *testing.T) {
	d := start(t, plain(t))
	ran := run(d, everyPart())
	for _, k := range kernels.All() {
		if len(ran[k.Name]) == 0 {
			t.Errorf("%s is in the table and no part runs it", k.Name)
		}
	}
	if len(ran) != len(kernels.All()) {
		t.Errorf("the parts run %d kernels, the table has %d: %s", len(ran), len(kernels.All()), fmt.Sprint(ran))
	}
}
