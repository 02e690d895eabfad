package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"andrea/model"
)

// MaxJobSpecBytes is the size up to which a job spec is read.
const MaxJobSpecBytes = 1 << 20

// JobSpec is a whole training job. It and the dataset decide the bits of every
// state; where the job runs decides none. DefaultJobSpecFor gives every key a value.
type JobSpec struct {
	Name        string         `yaml:"name"`
	Model       ModelSpec      `yaml:"model"`
	Data        DataSpec       `yaml:"data"`
	Batch       BatchSpec      `yaml:"batch"`
	Optimizer   OptimizerSpec  `yaml:"optimizer"`
	Steps       int64          `yaml:"steps"`
	Seed        uint64         `yaml:"seed"`
	Eval        EvalSpec       `yaml:"eval"`
	Checkpoint  CheckpointSpec `yaml:"checkpoint"`
	Precision   string         `yaml:"precision"`       // fp32 or bf16
	Engine      string         `yaml:"engine"`          // auto, a kind (cpu, cuda), or a whole engine class
	DigestEvery int            `yaml:"digest_every"`    // steps between comparisons of the state's digest
	OnNonfinite string         `yaml:"on_nonfinite"`    // stop or skip
	Audit       float64        `yaml:"audit,omitempty"` // share of the leases that a second worker computes as well
}

// ModelSpec names a variant; every other key that is given replaces the variant's.
type ModelSpec struct {
	Variant    string   `yaml:"variant"`
	DModel     *int     `yaml:"d_model,omitempty"`
	NHead      *int     `yaml:"n_head,omitempty"`
	NLayer     *int     `yaml:"n_layer,omitempty"`
	Context    *int     `yaml:"context,omitempty"`
	Vocab      *int     `yaml:"vocab,omitempty"` // default: the tokenizer's
	Activation *string  `yaml:"activation,omitempty"`
	EmbedNorm  *bool    `yaml:"embed_norm,omitempty"`
	FinalNorm  *bool    `yaml:"final_norm,omitempty"`
	NormEps    *float32 `yaml:"norm_eps,omitempty"`
}

// DataSpec says which tokens are trained on.
type DataSpec struct {
	Path        string  `yaml:"path"`                  // folder of a token dataset
	Fingerprint string  `yaml:"fingerprint,omitempty"` // the dataset's; a resolved spec pins it
	Validation  float64 `yaml:"validation"`            // fraction of the windows that is held out
}

// BatchSpec is the shape of one step: TokensPerStep = Lanes·k·Microbatch·context.
type BatchSpec struct {
	TokensPerStep int `yaml:"tokens_per_step"`
	Microbatch    int `yaml:"microbatch"` // windows
	Lanes         int `yaml:"lanes"`      // a power of two
}

// OptimizerSpec is AdamW and its schedule.
type OptimizerSpec struct {
	LR          float64   `yaml:"lr"`
	MinLR       float64   `yaml:"min_lr"`
	WarmupSteps int64     `yaml:"warmup_steps"`
	Betas       []float64 `yaml:"betas,flow"`
	Eps         float64   `yaml:"eps"`
	WeightDecay float64   `yaml:"weight_decay"`
	GradClip    float64   `yaml:"grad_clip"` // largest norm of the mean gradient; 0: no clipping
}

// EvalSpec says when the validation loss is computed.
type EvalSpec struct {
	Every   int64 `yaml:"every"`   // steps; 0: never
	Windows int   `yaml:"windows"` // of the held-out ones
}

// CheckpointSpec says when state is written and how much is kept.
type CheckpointSpec struct {
	Every    int64 `yaml:"every"`     // steps; the last step always has one
	KeepLast int   `yaml:"keep_last"` // checkpoints
}

// DefaultJobSpec returns the job of a first run, without a dataset.
func DefaultJobSpec() JobSpec { return DefaultJobSpecFor("12m") }

// rates are lr and min_lr by default.
type rates struct{ most, least float64 }

// commonRates are those of every variant that is not too large for them: at 1e-3 after the short
// warm-up of a first run 480m diverges within a few steps.
var (
	commonRates = rates{1e-3, 1e-4}
	largeRates  = map[string]rates{"120m": {6e-4, 6e-5}, "480m": {3e-4, 3e-5}}
)

// DefaultJobSpecFor is DefaultJobSpec for a variant of the model, known or not: the larger ones
// learn at a lower rate.
func DefaultJobSpecFor(variant string) JobSpec {
	lr, large := largeRates[variant]
	if !large {
		lr = commonRates
	}
	return JobSpec{
		Name:  "demo",
		Model: ModelSpec{Variant: variant},
		Data:  DataSpec{Validation: 0.005},
		Batch: BatchSpec{TokensPerStep: 8192, Microbatch: 1, Lanes: 8},
		Optimizer: OptimizerSpec{
			LR: lr.most, MinLR: lr.least, WarmupSteps: 20, Betas: []float64{0.9, 0.95},
			Eps: 1e-8, WeightDecay: 0.1, GradClip: 1,
		},
		Steps:       50,
		Seed:        1,
		Eval:        EvalSpec{Every: 10, Windows: 16},
		Checkpoint:  CheckpointSpec{Every: 25, KeepLast: 3},
		Precision:   model.FP32,
		Engine:      model.AnyEngine,
		DigestEvery: 1,
		OnNonfinite: OnNonfiniteStop,
	}
}

// What happens to a step with a non-finite loss or gradient.
const (
	OnNonfiniteStop = "stop"
	OnNonfiniteSkip = "skip"
)

// ParseJobSpec reads a job spec in YAML over the defaults of its variant. Unknown keys,
// repeated keys and wrong types are errors with their lines; values are checked by Resolve.
func ParseJobSpec(data []byte) (JobSpec, error) {
	named := DefaultJobSpec()
	if err := named.overlay(data); err != nil {
		return JobSpec{}, fmt.Errorf("reading the job spec: %w", err)
	}
	spec := DefaultJobSpecFor(named.Model.Variant)
	if err := spec.overlay(data); err != nil {
		return JobSpec{}, fmt.Errorf("reading the job spec: %w", err)
	}
	return spec, nil
}

// overlay sets the keys that data gives and leaves the others.
func (s *JobSpec) overlay(data []byte) error {
	if len(data) > MaxJobSpecBytes {
		return fmt.Errorf("it has %d bytes: at most %d are read", len(data), MaxJobSpecBytes)
	}
	return decodeStrict(data, s)
}

// Set applies one key=value with a dotted key, such as model.d_model=64; the value is
// YAML. After an error s is as it was.
func (s *JobSpec) Set(assignment string) error {
	key, value, found := strings.Cut(assignment, "=")
	if !found || key == "" {
		return fmt.Errorf("setting %.80q: it is not key=value: write for example optimizer.lr=3e-4", assignment)
	}
	text, err := nested(key, value)
	if err != nil {
		return fmt.Errorf("setting %s: the value cannot be read: %w", key, err)
	}
	// A copy of the struct would share what its pointers lead to.
	var changed JobSpec
	if err := changed.overlay(s.Marshal()); err != nil {
		return fmt.Errorf("setting %s: copying the job spec: %w", key, err)
	}
	if err := changed.overlay(text); err != nil {
		return fmt.Errorf("setting %s: %s", key, lineNumbers.ReplaceAllString(err.Error(), ""))
	}
	*s = changed
	return nil
}

// lineNumbers are what the errors of a document's keys begin with. An assignment has no lines.
var lineNumbers = regexp.MustCompile(`(?m)^line \d+: `)

// nested is the YAML document in which a dotted key has a value, itself YAML.
func nested(key, value string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(value), &document); err != nil {
		return nil, plainYAMLError(err)
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	if len(document.Content) > 0 {
		node = document.Content[0]
	}
	parts := strings.Split(key, ".")
	for _, part := range slices.Backward(parts) {
		name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: part}
		node = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{name, node}}
	}
	return yaml.Marshal(node)
}

// CheckResolved fails for a spec that NewPlan has not resolved, such as that of an empty file: a run's
// own file has every number of the model and pins the dataset.
func (s JobSpec) CheckResolved() error {
	m := s.Model
	for _, missing := range []bool{
		m.DModel == nil, m.NHead == nil, m.NLayer == nil, m.Context == nil, m.Vocab == nil, m.Activation == nil,
		m.EmbedNorm == nil, m.FinalNorm == nil, m.NormEps == nil, s.Data.Path == "", s.Data.Fingerprint == "",
	} {
		if missing {
			return errors.New("it is no resolved job, which has every number of the model and the dataset's fingerprint: restore it: every checkpoint's manifest.json holds its text")
		}
	}
	return nil
}

// Marshal writes the spec as YAML; ParseJobSpec reads it back to the same value.
func (s JobSpec) Marshal() []byte {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		panic("pipeline: a struct of plain values is always YAML: " + err.Error())
	}
	return b.Bytes()
}
