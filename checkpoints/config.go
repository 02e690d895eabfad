package checkpoints

import (
	"bytes"
	"encoding/json"

	"andrea/model"
)

// shape is the JSON form of a model.Config, the same in the manifest and in config.json.
type shape struct {
	Variant    string           `json:"variant"`
	DModel     int              `json:"d_model"`
	NHead      int              `json:"n_head"`
	NLayer     int              `json:"n_layer"`
	Context    int              `json:"context"`
	Vocab      int              `json:"vocab"`
	Activation model.Activation `json:"activation"`
	EmbedNorm  bool             `json:"embed_norm"`
	FinalNorm  bool             `json:"final_norm"`
	NormEps    float32          `json:"norm_eps"` // float32: its shortest decimal form reads back to the same bits
}

// ConfigJSON is the content of config.json: what a reader of model.safetensors needs to compute the
// model. It is a function of the shape alone.
func ConfigJSON(c model.Config) ([]byte, error) {
	return encodeJSON(struct {
		ModelType string `json:"model_type"`
		shape
		HeadDim     int    `json:"head_dim"`
		Parameters  int64  `json:"parameters"`
		DType       string `json:"dtype"`
		TensorOrder string `json:"tensor_order"`
	}{
		ModelType:   "andrea",
		shape:       shape(c),
		HeadDim:     c.HeadDim(),
		Parameters:  c.Parameters(),
		DType:       "float32",
		TensorOrder: tensorOrder,
	})
}

const tensorOrder = "wte [vocab][d_model], wpe [context][d_model], then for each layer attn_wq, attn_wk, attn_wv, attn_wo, " +
	"mlp_fc1, mlp_fc2, then lm_head [vocab][d_model]; every matrix is stored [out][in], row by row"

// encodeJSON gives the one form in which this package writes a value: indented, for people, and the
// same bytes for the same value.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
