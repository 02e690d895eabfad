package progress

import (
	"encoding/json"
	"math"

	"andrea/pipeline"
)

// stepLine is the JSON object of a step.
type stepLine struct {
	Step            int64           `json:"step"`
	Steps           int64           `json:"steps"`
	Loss            pipeline.Float  `json:"loss"`
	ValLoss         *pipeline.Float `json:"val_loss,omitempty"`
	GradNorm        pipeline.Float  `json:"grad_norm"`
	LR              any             `json:"lr"` // float32, which is shorter than the same as float64
	Tokens          int64           `json:"tokens"`
	TokensPerSecond pipeline.Float  `json:"tokens_per_second"`
	ETASeconds      *pipeline.Float `json:"eta_seconds,omitempty"` // nil: no step was measured yet
	Epoch           uint64          `json:"epoch"`
	Again           bool            `json:"again,omitempty"`
}

// line is the last step as a line of JSON. Numbers that are not finite are strings.
func (r *run) line() ([]byte, error) {
	record := r.last.Record
	l := stepLine{
		Step: record.Step, Steps: r.steps,
		Loss: record.Loss, ValLoss: record.ValLoss, GradNorm: record.GradNorm, LR: record.LR,
		Tokens: record.Tokens, TokensPerSecond: pipeline.Float(record.TokensPerSecond),
		Epoch: record.Epoch, Again: r.last.Again,
	}
	if eta := r.eta(); finite(eta) {
		rounded := pipeline.Float(math.Round(eta*10) / 10)
		l.ETASeconds = &rounded
	}
	if lr := float64(record.LR); !finite(lr) {
		l.LR = pipeline.Float(lr)
	}
	data, err := json.Marshal(l)
	return append(data, '\n'), err
}
