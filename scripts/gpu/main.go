// Command gpu prints, as JSON, the launches that kernels.py checks and times: kernels of package kernels with their
// grids, for layers of the models and for shapes that are small and ragged.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"andrea/kernels"
	"andrea/model"
)

// launch is one case. The sizes are the words of kernels/doc.go.
type launch struct {
	Name    string         `json:"name"`
	Small   bool           `json:"small"` // for its result alone, not for its time
	Kernel  string         `json:"kernel"`
	Module  string         `json:"module"`
	Grid    kernels.Grid   `json:"grid"`
	Threads int            `json:"threads"`
	Shared  int            `json:"shared"` // bytes
	Params  []param        `json:"params"`
	Sizes   map[string]int `json:"sizes"`
	FLOPs   float64        `json:"flops"` // useful ones; 0: it is bound by memory
	Bytes   float64        `json:"bytes"` // that have to be read and written
}

type param struct {
	Name string `json:"name"`
	Type string `json:"type"` // p: address, i: int32, f: float32
}

// shape is one layer of a model on a microbatch.
type shape struct {
	name                      string
	windows, t, heads, d, voc int
	small                     bool
}

func (s shape) headDim() int { return s.d / s.heads }
func (s shape) rows() int    { return s.windows * s.t }

var shapes = []shape{
	{"ragged", 2, 37, 3, 96, 61, true},
	{"narrow", 1, 70, 2, 128, 130, true},
	{"general", 1, 41, 1, 72, 67, true}, // a head_dim without fast kernels
	{"12m", 16, 1024, 12, 384, 2305, false},
	{"120m", 16, 1024, 12, 768, 8449, false},
}

func main() {
	var list []launch
	for _, s := range shapes {
		for _, precision := range []string{"bf16", "fp32"} {
			if s.small || precision == "bf16" { // fp32 is for comparing, not for speed
				list = append(list, s.launches(precision)...)
			}
		}
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", " ")
	if err := e.Encode(list); err != nil {
		fmt.Fprintln(os.Stderr, "gpu: writing the launches:", err)
		os.Exit(1)
	}
}

// list collects launches of a shape in a precision.
type list struct {
	shape
	precision string
	element   float64 // bytes
	launches  []launch
}

// add adds a launch. what tells launches of one kernel apart; empty: it is the plain one.
func (l *list) add(kernel, what string, g kernels.Sizes, sizes map[string]int, flops, bytes float64) {
	k, ok := kernels.Lookup(kernel)
	if !ok {
		panic("there is no kernel " + kernel)
	}
	name := l.name
	if what != "" {
		name += ", " + what
	}
	a := launch{Name: name, Small: l.small, Kernel: kernel, Module: k.Module, Grid: k.Grid(g), Threads: k.Threads, Shared: k.Shared, Sizes: sizes, FLOPs: flops, Bytes: bytes}
	for _, p := range k.Params {
		a.Params = append(a.Params, param{p.Name, map[kernels.Type]string{kernels.Pointer: "p", kernels.Int: "i", kernels.Float: "f"}[p.Type]})
	}
	l.launches = append(l.launches, a)
}

// launches are the kernels of a layer, of the embeddings, of the head and of the update.
func (s shape) launches(precision string) []launch {
	l := list{shape: s, precision: precision, element: 2}
	if precision == "fp32" {
		l.element = 4
	}
	l.products()
	l.attention()
	l.rowByRow()
	l.embeddings()
	l.vectors()
	return l.launches
}

// products are those of fc1 and its gradients, with every epilogue that the model's default activation needs.
func (l *list) products() {
	rows, d := l.rows(), l.d
	for _, p := range []struct {
		way, what string
		epilogue  int
	}{
		{"nt", "", kernels.StoreFP32}, {"nn", "", kernels.StoreFP32}, {"tn", "", kernels.StoreFP32},
		{"nt", "rounded", kernels.Store}, {"nt", "activation", kernels.StoreReLU2}, {"nn", "activation backward", kernels.StoreReLU2Backward}, {"tn", "added", kernels.AddFP32},
	} {
		m, n, k := rows, 4*d, d
		if p.way == "tn" {
			m, n, k = 4*d, d, rows
		}
		l.add("gemm_"+p.way+"_"+l.precision, p.what, kernels.Sizes{M: m, N: n}, map[string]int{"M": m, "N": n, "K": k, "epilogue": p.epilogue},
			2*float64(m)*float64(n)*float64(k), l.element*float64(m*k+n*k)+4*float64(m*n))
	}
}

// rowByRow are norms, activations and the loss.
func (l *list) rowByRow() {
	rows, width := l.rows(), map[string]int{"rows": l.rows(), "width": l.d}
	area := float64(rows * l.d)
	l.add("norm_forward_"+l.precision, "", kernels.Sizes{Rows: rows}, width, 0, area*(4+l.element))
	l.add("norm_backward_"+l.precision, "", kernels.Sizes{Rows: rows}, width, 0, area*(8+3*l.element))
	active := kernels.Sizes{Count: rows * 4 * l.d}
	count := map[string]int{"count": active.Count}
	l.add("act_forward_"+l.precision, "", active, count, 0, float64(active.Count)*(4+l.element))
	l.add("act_backward_"+l.precision, "", active, count, 0, float64(active.Count)*(4+2*l.element))
	stride := (l.voc + 63) / 64 * 64
	l.add("cross_entropy_"+l.precision, "", kernels.Sizes{Rows: rows}, map[string]int{"rows": rows, "t": l.t, "vocab": l.voc, "ld": stride}, 0, float64(rows*stride)*(4+l.element))
}

// embeddings are the same in all precisions.
func (l *list) embeddings() {
	rows, area := l.rows(), float64(l.rows()*l.d)
	distinct := map[int]bool{}
	for r := range rows {
		distinct[token(r, l.voc)] = true
	}
	sizes := map[string]int{"rows": rows, "windows": l.windows, "t": l.t, "width": l.d, "vocab": l.voc, "count": len(distinct)}
	g := kernels.Sizes{Rows: rows, T: l.t, Width: l.d, Count: len(distinct)}
	l.add("embed_forward", "", g, sizes, 0, 16*area)
	l.add("embed_tokens", "", g, sizes, 0, 4*area+8*float64(len(distinct)*l.d))
	l.add("embed_positions", "", g, sizes, 0, 4*area+8*float64(l.t*l.d))
}

// token is the token of row r; kernels.py has the same.
func token(r, vocab int) int { return r * 31 % vocab }

// vectors are the update and the sums, over the weights of a layer.
func (l *list) vectors() {
	count := 12 * l.d * l.d
	all := float64(count)
	g, sizes := kernels.Sizes{Count: count, Buckets: (count + model.BucketSize - 1) / model.BucketSize}, map[string]int{"count": count}
	l.add("adamw", "", g, sizes, 0, all*30)
	l.add("fold", "", g, sizes, 0, all*12)
	l.add("narrow", "", g, sizes, 0, all*6)
	const parts = 4
	l.add("add_parts", "", g, map[string]int{"count": count, "parts": parts}, 0, all*4*(parts+2))
	l.add("sum_squares", "", g, map[string]int{"count": count, "buckets": g.Buckets, "bucket": model.BucketSize}, 0, all*4)
	l.add("loss_sum", "", kernels.Sizes{}, map[string]int{"count": l.rows()}, 0, float64(l.rows())*8)
}

// attention adds the kernels of attention; the causal half counts.
func (l *list) attention() {
	suffix := "_" + l.precision
	if l.precision == "bf16" && kernels.Fast(l.headDim()) {
		suffix = fmt.Sprintf("_d%d_bf16", l.headDim())
	}
	sizes := map[string]int{"windows": l.windows, "t": l.t, "heads": l.heads, "head_dim": l.headDim(), "rows": l.rows()}
	g := kernels.Sizes{Rows: l.rows(), T: l.t, Heads: l.heads, Windows: l.windows, HeadDim: l.headDim()}
	product := float64(l.rows()) * float64(l.t) * float64(l.d) // of the causal half
	area := float64(l.rows()*l.d) * l.element
	l.add("attention_forward"+suffix, "", g, sizes, 2*product, 4*area)
	l.add("attention_delta_"+l.precision, "", g, sizes, 0, 2*area)
	l.add("attention_keys"+suffix, "", g, sizes, 4*product, 6*area)
	l.add("attention_queries"+suffix, "", g, sizes, 3*product, 5*area)
}
