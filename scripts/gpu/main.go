// Command gpu prints, as JSON, the launches that kernels.py checks and times: kernels of package kernels with their
// grids, for layers of the models and for shapes that are small and ragged.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"andrea/kernels"
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

// launches are the kernels of a layer and of the head.
func (s shape) launches(precision string) (list []launch) {
	rows, d, element := s.rows(), s.d, 2.0
	if precision == "fp32" {
		element = 4
	}
	add := func(kernel string, g kernels.Sizes, sizes map[string]int, flops, bytes float64) {
		k, ok := kernels.Lookup(kernel)
		if !ok {
			panic("there is no kernel " + kernel)
		}
		l := launch{Name: s.name, Small: s.small, Kernel: kernel, Module: k.Module, Grid: k.Grid(g), Threads: k.Threads, Shared: k.Shared, Sizes: sizes, FLOPs: flops, Bytes: bytes}
		for _, p := range k.Params {
			l.Params = append(l.Params, param{p.Name, map[kernels.Type]string{kernels.Pointer: "p", kernels.Int: "i", kernels.Float: "f"}[p.Type]})
		}
		list = append(list, l)
	}
	for _, way := range []string{"gemm_nt", "gemm_nn", "gemm_tn"} {
		m, n, k := rows, 4*d, d
		if way == "gemm_tn" {
			m, n, k = 4*d, d, rows
		}
		add(way+"_"+precision, kernels.Sizes{M: m, N: n}, map[string]int{"M": m, "N": n, "K": k},
			2*float64(m)*float64(n)*float64(k), element*float64(m*k+n*k)+4*float64(m*n))
	}
	s.attention(precision, element, add)
	width := map[string]int{"rows": rows, "width": d}
	area := float64(rows * d)
	add("norm_forward_"+precision, kernels.Sizes{Rows: rows}, width, 0, area*(4+element))
	add("norm_backward_"+precision, kernels.Sizes{Rows: rows}, width, 0, area*(8+3*element))
	stride := (s.voc + 63) / 64 * 64
	add("cross_entropy_"+precision, kernels.Sizes{Rows: rows}, map[string]int{"rows": rows, "t": s.t, "vocab": s.voc, "ld": stride}, 0, float64(rows*stride)*(4+element))
	count := 12 * d * d
	add("adamw", kernels.Sizes{Count: count}, map[string]int{"count": count}, 0, float64(count)*30)
	add("fold", kernels.Sizes{Count: count}, map[string]int{"count": count}, 0, float64(count)*12)
	return list
}

// attention adds the kernels of attention; the causal half counts.
func (s shape) attention(precision string, element float64, add func(string, kernels.Sizes, map[string]int, float64, float64)) {
	suffix := "_" + precision
	if precision == "bf16" && kernels.Fast(s.headDim()) {
		suffix = fmt.Sprintf("_d%d_bf16", s.headDim())
	}
	sizes := map[string]int{"windows": s.windows, "t": s.t, "heads": s.heads, "head_dim": s.headDim(), "rows": s.rows()}
	g := kernels.Sizes{Rows: s.rows(), T: s.t, Heads: s.heads, Windows: s.windows, HeadDim: s.headDim()}
	product := float64(s.rows()) * float64(s.t) * float64(s.d) // of the causal half
	area := float64(s.rows()*s.d) * element
	add("attention_forward"+suffix, g, sizes, 2*product, 4*area)
	add("attention_delta_"+precision, g, sizes, 0, 2*area)
	add("attention_keys"+suffix, g, sizes, 4*product, 6*area)
	add("attention_queries"+suffix, g, sizes, 3*product, 5*area)
}
