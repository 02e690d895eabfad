package model

import (
	"errors"
	"fmt"
	"math"
)

// Activation names the nonlinearity of the MLP.
type Activation string

// The activations an engine computes.
const (
	ReLUSquared Activation = "relu2" // max(x,0)²
	ReLU        Activation = "relu"  // max(x,0)
)

// Custom is the variant name of every shape that is not one of the family's.
const Custom = "custom"

// Limits of a shape. MaxParameters is what the digest's element index can hold.
const (
	MaxDModel     = 1 << 16
	MaxHeads      = 1 << 12
	MaxLayers     = 1 << 10
	MaxContext    = 1 << 17
	MaxVocab      = 1 << 24
	MaxParameters = 1 << 30
)

// Config is the shape of a model and its switches. The zero value is not valid;
// start from Variant or DefaultSwitches.
type Config struct {
	Variant    string     // "12m", "120m", "480m" or "custom"; says where the shape came from, decides nothing
	DModel     int        // width of the residual stream, a multiple of NHead
	NHead      int        // attention heads
	NLayer     int        // transformer layers
	Context    int        // T: positions, and tokens of a window
	Vocab      int        // V: token ids are 0..V-1
	Activation Activation // nonlinearity of the MLP
	EmbedNorm  bool       // norm after the embedding sum
	FinalNorm  bool       // norm before lm_head
	NormEps    float32    // added inside the root of every norm
}

// variants in the order in which they are listed to people.
var variants = []Config{
	{Variant: "12m", DModel: 384, NHead: 12, NLayer: 6, Context: 1024, Vocab: 2305},
	{Variant: "120m", DModel: 768, NHead: 12, NLayer: 12, Context: 1024, Vocab: 8449},
	{Variant: "480m", DModel: 1536, NHead: 24, NLayer: 16, Context: 1024, Vocab: 8449},
}

// Variants lists the names of the family's shapes, smallest first.
func Variants() []string {
	names := make([]string, len(variants))
	for i, c := range variants {
		names[i] = c.Variant
	}
	return names
}

// Variant returns the shape of the family with that name and the default switches.
func Variant(name string) (Config, error) {
	for _, c := range variants {
		if c.Variant == name {
			return c.withDefaultSwitches(), nil
		}
	}
	return Config{}, fmt.Errorf("choosing the model variant: %q is unknown: the variants are %v: name one of them, or give d_model, n_head, n_layer, context and vocab", name, Variants())
}

// DefaultSwitches is an empty custom shape with the family's switches.
func DefaultSwitches() Config {
	return Config{Variant: Custom}.withDefaultSwitches()
}

func (c Config) withDefaultSwitches() Config {
	c.Activation = ReLUSquared
	c.EmbedNorm = true
	c.NormEps = 1e-5
	return c
}

// HeadDim is DModel / NHead of a valid config.
func (c Config) HeadDim() int { return c.DModel / c.NHead }

// SlowHeads reports a head_dim that no fast kernel covers: legal, but slower.
func (c Config) SlowHeads() bool { return c.HeadDim()%16 != 0 }

// Parameters is the exact count 2·V·d + T·d + 12·L·d².
func (c Config) Parameters() int64 {
	d, v, t, l := int64(c.DModel), int64(c.Vocab), int64(c.Context), int64(c.NLayer)
	return 2*v*d + t*d + 12*l*d*d
}

// FLOPsPerToken is the useful arithmetic of one training token, forward and
// backward: 6·(12·L·d² + V·d) for the matrices and 6·L·T·d for the causal half of
// attention. Recomputation and padding do not count.
func (c Config) FLOPsPerToken() int64 {
	d, v, t, l := int64(c.DModel), int64(c.Vocab), int64(c.Context), int64(c.NLayer)
	return 6*(12*l*d*d+v*d) + 6*l*t*d
}

// Faults lists everything that is wrong with the shape, each with the numbers at
// fault; empty means valid.
func (c Config) Faults() []string {
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"d_model", c.DModel, MaxDModel},
		{"n_head", c.NHead, MaxHeads},
		{"n_layer", c.NLayer, MaxLayers},
		{"context", c.Context, MaxContext},
		{"vocab", c.Vocab, MaxVocab},
	} {
		if f.value < 1 || f.value > f.max {
			add("%s is %d: must be between 1 and %d", f.name, f.value, f.max)
		}
	}
	if c.NHead > 0 && c.DModel > 0 && c.DModel%c.NHead != 0 {
		add("d_model %d is not divisible by n_head %d: remainder %d: every head must have the same size", c.DModel, c.NHead, c.DModel%c.NHead)
	}
	if c.Activation != ReLUSquared && c.Activation != ReLU {
		add("activation is %q: must be %q or %q", c.Activation, ReLUSquared, ReLU)
	}
	if !(c.NormEps > 0) || math.IsInf(float64(c.NormEps), 0) {
		add("norm_eps is %v: must be a positive number", c.NormEps)
	}
	if len(faults) == 0 && c.Parameters() > MaxParameters {
		add("the shape has %d parameters: at most %d are supported", c.Parameters(), MaxParameters)
	}
	return faults
}

// Validate returns the faults as one error, or nil.
func (c Config) Validate() error {
	var errs []error
	for _, f := range c.Faults() {
		errs = append(errs, errors.New(f))
	}
	return errors.Join(errs...)
}
