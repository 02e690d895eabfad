package describe

import "andrea/model"

// Attention is what the attention of one layer does to a microbatch.
type Attention struct {
	Stages             []Stage `json:"stages"`
	ParametersPerLayer int64   `json:"parameters_per_layer"`
	Parameters         int64   `json:"parameters"` // of all layers
	Share              float64 `json:"share"`      // of all parameters
	// ScoresPerHead are the elements of the matrix of scores of one head and window, T·T; of these the mask
	// leaves KeptPerHead. The engine never holds the whole matrix.
	ScoresPerHead int64 `json:"scores_per_head"`
	KeptPerHead   int64 `json:"kept_per_head"`
}

// Stage is one of the five stages of attention.
type Stage struct {
	Name string   `json:"name"`
	Rule string   `json:"rule"`
	In   []Tensor `json:"in"`
	Out  []Tensor `json:"out"`
}

// Tensor is a named array, outermost dimension first.
type Tensor struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// attentionOf describes the attention of microbatches of so many windows.
func attentionOf(c model.Config, windows int) Attention {
	d, t, l := int64(c.DModel), int64(c.Context), int64(c.NLayer)
	a := Attention{
		Stages: stages(c, windows), ParametersPerLayer: 4 * d * d, Parameters: 4 * l * d * d,
		ScoresPerHead: t * t, KeptPerHead: t * (t + 1) / 2,
	}
	a.Share = float64(a.Parameters) / float64(c.Parameters())
	return a
}

func stages(c model.Config, windows int) []Stage {
	rows := func(name string) Tensor { return Tensor{name, []int{windows, c.Context, c.DModel}} }
	heads := func(name string) Tensor { return Tensor{name, []int{windows, c.NHead, c.Context, c.HeadDim()}} }
	square := func(name string) Tensor { return Tensor{name, []int{windows, c.NHead, c.Context, c.Context}} }
	weight := func(name string) Tensor { return Tensor{name, []int{c.DModel, c.DModel}} }
	return []Stage{
		{
			"Q, K, V projection", "q = x·wq, k = x·wk, v = x·wv, cut into heads",
			[]Tensor{rows("x"), weight("wq"), weight("wk"), weight("wv")}, []Tensor{heads("q"), heads("k"), heads("v")},
		},
		{"scores", "s = q·k / sqrt(head_dim), for each head", []Tensor{heads("q"), heads("k")}, []Tensor{square("s")}},
		{"mask and softmax", "p = softmax of s over the positions up to its own, 0 after", []Tensor{square("s")}, []Tensor{square("p")}},
		{"weighted sum", "o = p·v, for each head, then the heads side by side", []Tensor{square("p"), heads("v")}, []Tensor{rows("o")}},
		{"output projection", "y = o·wo, added to the residual stream", []Tensor{rows("o"), weight("wo")}, []Tensor{rows("y")}},
	}
}
