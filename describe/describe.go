// Package describe says what a shape of a model means before anything is computed: the stages of its
// attention, parameters, arithmetic, memory, the sizes of a checkpoint's files and the loss that training
// begins with.
package describe

import (
	"fmt"

	"andrea/checkpoints"
	"andrea/model"
	"andrea/numeric"
)

// Setting is what decides memory besides the shape.
type Setting struct {
	Microbatch    int   // windows of one forward and backward pass
	Lanes         int   // a power of two
	TokensPerStep int   // of all lanes
	Threads       int   // that the engine runs
	EngineBytes   int64 // that the engine allocates
	GCPercent     int   // garbage that the Go runtime lets lie before it collects, percent of what is in use

	Network *Network // nil: no cluster is described
}

// Description is all that is said of a shape. Sizes are in bytes.
type Description struct {
	Variant     string      `json:"variant"`
	Shape       Shape       `json:"shape"`
	Batch       Batch       `json:"batch"`
	Attention   Attention   `json:"attention"`
	Parameters  Parameters  `json:"parameters"`
	Arithmetic  Arithmetic  `json:"arithmetic"`
	Memory      Memory      `json:"memory"`
	Checkpoint  []FileBytes `json:"checkpoint"`
	LossAtStart float64     `json:"loss_at_start"` // nats per token, on uniformly random tokens
	Cluster     *Cluster    `json:"cluster,omitempty"`
}

// Shape is the shape and the switches of the model.
type Shape struct {
	DModel     int              `json:"d_model"`
	NHead      int              `json:"n_head"`
	HeadDim    int              `json:"head_dim"`
	NLayer     int              `json:"n_layer"`
	Context    int              `json:"context"`
	Vocab      int              `json:"vocab"`
	Activation model.Activation `json:"activation"`
	EmbedNorm  bool             `json:"embed_norm"`
	FinalNorm  bool             `json:"final_norm"`
	NormEps    float32          `json:"norm_eps"`
	SlowHeads  bool             `json:"slow_heads"` // head_dim has no fast kernel
}

// Batch is the shape of a step.
type Batch struct {
	Microbatch    int `json:"microbatch"`
	Lanes         int `json:"lanes"`
	TokensPerStep int `json:"tokens_per_step"`
	Slots         int `json:"slots"` // whole gradients that folding the tree of lanes needs
	Threads       int `json:"threads"`
}

// Parameters counts the parameters by part.
type Parameters struct {
	Parts []Count `json:"parts"`
	Total int64   `json:"total"`
}

// Arithmetic counts the floating point operations of one token in training, forward and backward, as
// model.Config.FLOPsPerToken does.
type Arithmetic struct {
	Parts        []Count `json:"flops_per_token"`
	Total        int64   `json:"total_per_token"`
	TotalPerStep float64 `json:"total_per_step"`
}

// Count is the part of a whole.
type Count struct {
	Part  string  `json:"part"`
	Count int64   `json:"count"`
	Share float64 `json:"share"` // 0 to 1
}

// FileBytes is the size of a file.
type FileBytes struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Of describes a valid shape in a valid setting.
func Of(c model.Config, s Setting) (Description, error) {
	files, err := checkpointFiles(c)
	if err != nil {
		return Description{}, fmt.Errorf("describing the model: %w", err)
	}
	slots := model.Slots(s.Lanes)
	d := Description{
		Variant: c.Variant,
		Shape: Shape{
			DModel: c.DModel, NHead: c.NHead, HeadDim: c.HeadDim(), NLayer: c.NLayer, Context: c.Context, Vocab: c.Vocab,
			Activation: c.Activation, EmbedNorm: c.EmbedNorm, FinalNorm: c.FinalNorm, NormEps: c.NormEps, SlowHeads: c.SlowHeads(),
		},
		Batch:       Batch{Microbatch: s.Microbatch, Lanes: s.Lanes, TokensPerStep: s.TokensPerStep, Slots: slots, Threads: s.Threads},
		Attention:   attentionOf(c, s.Microbatch),
		Parameters:  parametersOf(c),
		Arithmetic:  arithmeticOf(c, s.TokensPerStep),
		Memory:      memoryOf(c, s, slots),
		Checkpoint:  files,
		LossAtStart: lossAtStart(c),
	}
	if s.Network != nil {
		d.Cluster = clusterOf(c, s, *s.Network)
	}
	return d, nil
}

// share sets the shares of all parts in total.
func share(parts []Count, total int64) []Count {
	for i := range parts {
		parts[i].Share = float64(parts[i].Count) / float64(total)
	}
	return parts
}

// parametersOf counts by the formula of Config.Parameters.
func parametersOf(c model.Config) Parameters {
	d, v, t, l := int64(c.DModel), int64(c.Vocab), int64(c.Context), int64(c.NLayer)
	total := c.Parameters()
	return Parameters{Total: total, Parts: share([]Count{
		{Part: "token embedding (wte)", Count: v * d},
		{Part: "position embedding (wpe)", Count: t * d},
		{Part: "attention (wq, wk, wv, wo)", Count: 4 * l * d * d},
		{Part: "MLP (fc1, fc2)", Count: 8 * l * d * d},
		{Part: "output head (lm_head)", Count: v * d},
	}, total)}
}

// arithmeticOf splits Config.FLOPsPerToken: 2 operations for each multiplication by a parameter, three
// times (forward, and backward for inputs and parameters); scores and weighted sum over the T/2 positions
// that the mask leaves on average. Norms, softmax, activation and the lookup of embeddings do not count.
func arithmeticOf(c model.Config, tokensPerStep int) Arithmetic {
	d, v, t, l := int64(c.DModel), int64(c.Vocab), int64(c.Context), int64(c.NLayer)
	total := c.FLOPsPerToken()
	return Arithmetic{
		Total: total, TotalPerStep: float64(total) * float64(tokensPerStep),
		Parts: share([]Count{
			{Part: "Q, K, V projection", Count: 18 * l * d * d},
			{Part: "scores", Count: 3 * l * t * d},
			{Part: "weighted sum", Count: 3 * l * t * d},
			{Part: "output projection", Count: 6 * l * d * d},
			{Part: "MLP", Count: 48 * l * d * d},
			{Part: "output head", Count: 6 * v * d},
		}, total),
	}
}

// checkpointFiles gives the sizes of the files of a checkpoint that the shape decides.
func checkpointFiles(c model.Config) ([]FileBytes, error) {
	layout := model.NewLayout(c)
	var files []FileBytes
	for _, f := range []struct {
		name    string
		tensors []checkpoints.HeaderTensor
	}{
		{checkpoints.ModelFile, checkpoints.ModelTensors(layout)},
		{checkpoints.OptimizerFile, checkpoints.OptimizerTensors(layout)},
	} {
		header, err := checkpoints.MarshalHeader(f.tensors)
		if err != nil {
			return nil, err
		}
		files = append(files, FileBytes{f.name, int64(len(header)) + f.tensors[len(f.tensors)-1].End})
	}
	return files, nil
}

// lossAtStart is ln V + s/2, s being the variance of the initial logits: at the start all layers leave the
// residual stream as it is, and a logit is the sum over d_model of a row's elements times weights of
// lm_head. A norm gives the row's elements a mean square of 1; without one it is that of the embeddings.
func lossAtStart(c model.Config) float64 {
	layout := model.NewLayout(c)
	variance := func(name string) float64 {
		t, _ := layout.Tensor(name) // every layout has it
		return float64(t.InitStd * t.InitStd)
	}
	square := 1.0
	if !c.EmbedNorm && !c.FinalNorm {
		square = variance("wte") + variance("wpe")
	}
	return numeric.Log(float64(c.Vocab)) + float64(float64(c.DModel)*square*variance("lm_head"))/2
}
